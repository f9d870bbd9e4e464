//! Statements on a database server, by MariaDB's command-line client. MySQL understands it too.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use crate::servers::datadir::{DATABASE, PASSWORD, USER};
use crate::{Error, Result, paths};

/// Runs statements in one session.
///
/// # Errors
/// The client is not installed, the server does not answer, or a statement failed; those before it took effect.
pub(crate) fn run(server: SocketAddr, statements: &str) -> Result<()> {
    session(server, &[], statements).map(drop)
}

/// Returns the only value of a query.
///
/// # Errors
/// As [`run`].
pub(crate) fn value(server: SocketAddr, query: &str) -> Result<String> {
    Ok(plain(session(server, &["--skip-column-names"], query)?.trim()))
}

/// Returns the first row of a query, by its columns' names; an empty one if there is none.
///
/// # Errors
/// As [`run`].
pub(crate) fn row(server: SocketAddr, query: &str) -> Result<BTreeMap<String, String>> {
    Ok(first_row(&session(server, &[], query)?))
}

fn session(server: SocketAddr, options: &[&str], statements: &str) -> Result<String> {
    let output = Command::new(paths::program("mariadb")?)
        // It is only heard in the first place.
        .arg("--no-defaults")
        .args(["--batch", "--default-character-set=utf8mb4"])
        .args(options)
        .args([format!("--host={}", server.ip()), format!("--port={}", server.port())])
        .args([format!("--user={USER}"), format!("--password={PASSWORD}")])
        .args([DATABASE, "-e", statements])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Spawn { name: "mariadb".to_owned(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::Statement { server, said, statements: statements.to_owned() })
}

/// Parses what a batch prints: a line of names, then one line for each row, with tabs between values.
fn first_row(printed: &str) -> BTreeMap<String, String> {
    let mut lines = printed.lines();
    let names = lines.next().unwrap_or_default().split('\t');
    let values = lines.next().into_iter().flat_map(|values| values.split('\t'));
    names.zip(values).map(|(name, value)| (name.to_owned(), plain(value))).collect()
}

/// A batch prints a line break as `\n`. A set of GTIDs has one between servers, and takes blanks as well.
fn plain(value: &str) -> String {
    value.replace("\\n", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_its_values_by_name_and_no_line_breaks() {
        let printed = "Host\tRetrieved_Gtid_Set\tError\n127.0.0.1\ta:1-3,\\nb:1\t\n";
        let row = first_row(printed);
        assert_eq!(row["Host"], "127.0.0.1");
        assert_eq!(row["Retrieved_Gtid_Set"], "a:1-3, b:1");
        assert_eq!(row["Error"], "");
        assert!(first_row("").is_empty() && first_row("Host\tError\n").is_empty());
    }
}
