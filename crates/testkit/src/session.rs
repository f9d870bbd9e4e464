//! SQL by the command-line client of the database: [`sql`] for one session, [`client`] for more control.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

/// The parts of a database URL.
pub struct Address<'a> {
    pub user: &'a str,
    pub password: &'a str,
    pub host: &'a str,
    pub port: &'a str,
    pub database: &'a str,
    /// What follows the question mark; empty if nothing does.
    pub options: &'a str,
}

/// Parses a database URL.
///
/// # Panics
/// It is none with a user, password, port and database.
pub fn address(database_url: &str) -> Address<'_> {
    let rest = database_url.strip_prefix("mysql://").unwrap();
    let (login, rest) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let (host, rest) = rest.split_once(':').unwrap();
    let (port, rest) = rest.split_once('/').unwrap();
    let (database, options) = rest.split_once('?').unwrap_or((rest, ""));
    Address { user, password, host, port, database, options }
}

/// A command-line client of the database, ready to be spawned.
///
/// # Panics
/// As [`address`].
pub fn client(database_url: &str) -> Command {
    let Address { user, password, host, port, database, options } = address(database_url);
    let mut client = Command::new("mariadb");
    client
        .args(if options.contains("ssl-mode") { &["--ssl"][..] } else { &[] })
        .args(["--default-character-set=utf8mb4", "-NB", "-h", host, "-P", port, "-u", user])
        .args([&format!("-p{password}"), database])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    client
}

/// Runs statements in one session; returns their output.
///
/// # Panics
/// A statement fails.
pub fn sql(database_url: &str, text: &str) -> String {
    try_sql(database_url, text).unwrap_or_else(|errors| panic!("{errors} in: {text:.200}"))
}

/// Like [`sql`], but returns the session's errors.
///
/// # Errors
/// A statement fails; those before it took effect.
///
/// # Panics
/// The client is not installed.
pub fn try_sql(database_url: &str, text: &str) -> Result<String, String> {
    session(&mut client(database_url), text)
}

/// Like [`try_sql`], by a client with other options.
///
/// # Errors
/// As [`try_sql`].
///
/// # Panics
/// As [`try_sql`].
pub fn session(client: &mut Command, text: &str) -> Result<String, String> {
    let mut client = client.spawn().unwrap();
    // A client that ended at a failed statement reads no more input; its error output says why.
    drop(client.stdin.take().unwrap().write_all(text.as_bytes()));
    let output = client.wait_with_output().unwrap();
    if output.status.success() {
        return Ok(String::from_utf8(output.stdout).unwrap());
    }
    Err(String::from_utf8_lossy(&output.stderr).into_owned())
}
