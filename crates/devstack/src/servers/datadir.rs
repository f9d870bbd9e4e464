//! Data folders of MariaDB, MySQL and Kafka, initialised once per version as a template in the cache (seconds) and
//! copied for each stack (instantly); and the settings that both databases share.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::process::{child::LOOK_EVERY, tail};
use crate::{Error, Result, paths};

/// The platform's user. It has all privileges, as a private server holds nothing to protect.
pub(crate) const USER: &str = "coupon";
/// Not a secret: the server listens on 127.0.0.1 only.
pub(crate) const PASSWORD: &str = "coupon";
/// The platform's default database.
pub(crate) const DATABASE: &str = "coupon";

/// File in a server's home with its server id, if it is not the first server of its stack.
const SERVER_ID: &str = "server-id";
/// Server id of a stack's first server.
const FIRST_SERVER_ID: u32 = 1;

/// Returns the data folder in `home`. A missing one is copied from `template` in the cache; a missing template
/// is made by `initialise`, which gets the folder to fill and a log file.
pub(crate) fn prepare(
    home: &Path,
    template: &str,
    initialise: fn(&Path, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let data = home.join("data");
    if !data.exists() {
        let fresh = home.join("data.new");
        copy_folder(&cached(template, initialise)?, &fresh)?;
        // auto.cnf holds the server's UUID: copies would all be the same server to a replica. (MariaDB has no
        // such file.)
        drop(fs::remove_file(fresh.join("auto.cnf")));
        fs::rename(&fresh, &data).map_err(Error::file("create", &data))?;
    }
    Ok(data)
}

/// Writes the SQL that the server runs at each start before it listens. It leaves nothing in the binlog: otherwise a server
/// and its copy would have different histories from their first start on.
pub(crate) fn write_init_sql(home: &Path) -> Result<PathBuf> {
    let file = home.join("init.sql");
    let sql = format!(
        "set sql_log_bin = 0;\n\
         create user if not exists '{USER}'@'%' identified by '{PASSWORD}';\n\
         grant all privileges on *.* to '{USER}'@'%' with grant option;\n\
         create database if not exists {DATABASE} character set utf8mb4;\n"
    );
    fs::write(&file, sql).map_err(Error::file("write", &file))?;
    Ok(file)
}

/// Returns arguments that ignore this machine's configuration, set the data folder, and allow root if we are
/// root.
pub(crate) fn arguments(data: &Path) -> Result<Vec<String>> {
    let mut arguments = vec!["--no-defaults".to_owned(), format!("--datadir={}", data.display())];
    let own = fs::metadata("/proc/self").map_err(Error::file("read", "/proc/self"))?;
    if own.uid() == 0 {
        arguments.push("--user=root".to_owned());
    }
    Ok(arguments)
}

/// Returns the argument for a folder of temporary tables in `home`. A server that starts deletes what it takes for its own
/// leftovers there, so that in a shared folder it would delete the tables of others.
pub(crate) fn temporary(home: &Path) -> Result<String> {
    let folder = home.join("tmp");
    fs::create_dir_all(&folder).map_err(Error::file("create", &folder))?;
    Ok(format!("--tmpdir={}", folder.display()))
}

/// Returns the id of the server in `home`. It stays with the data: by it, the platform's processes recognise that another
/// server answers.
pub(crate) fn server_id(home: &Path) -> u32 {
    let written = fs::read_to_string(home.join(SERVER_ID)).ok();
    written.and_then(|text| text.trim().parse().ok()).unwrap_or(FIRST_SERVER_ID)
}

/// Gives the server in `home` its id.
pub(crate) fn set_server_id(home: &Path, id: u32) -> Result<()> {
    let file = home.join(SERVER_ID);
    fs::write(&file, id.to_string()).map_err(Error::file("write", &file))
}

/// Runs a command to its end, with its output in `log`.
pub(crate) fn run(name: &str, mut command: Command, log: &Path) -> Result<()> {
    let mut child = spawn(name, &mut command, log)?;
    let status = child.wait().map_err(|source| Error::Spawn { name: name.to_owned(), source })?;
    success(name, status, log)
}

/// Runs a server, with its output in `log`, until it `is_up`, and stops it in order. It ends with SIGTERM's status.
pub(crate) fn run_until(
    name: &str,
    mut command: Command,
    log: &Path,
    within: Duration,
    is_up: impl Fn() -> bool,
) -> Result<()> {
    let failed = |source| Error::Spawn { name: name.to_owned(), source };
    let mut child = spawn(name, &mut command, log)?;
    let deadline = Instant::now() + within;
    while !is_up() {
        if let Some(status) = child.try_wait().map_err(failed)? {
            return success(name, status, log);
        }
        if Instant::now() > deadline {
            drop(child.kill());
            break;
        }
        thread::sleep(LOOK_EVERY);
    }
    let pid = i32::try_from(child.id()).map_err(|_| failed(io::ErrorKind::InvalidData.into()))?;
    kill(Pid::from_raw(pid), Signal::SIGTERM).map_err(|errno| failed(errno.into()))?;
    child.wait().map(drop).map_err(failed)
}

fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Child> {
    let output = File::create(log).map_err(Error::file("create", log))?;
    let errors = output.try_clone().map_err(Error::file("create", log))?;
    let spawned = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
    spawned.map_err(|source| Error::Spawn { name: name.to_owned(), source })
}

fn success(name: &str, status: ExitStatus, log: &Path) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    Err(Error::Failed { name: name.to_owned(), status, tail: tail(log), log: log.to_path_buf() })
}

/// Returns a folder of the cache; a missing one is made by `initialise`, which gets the folder to fill and a log file.
pub(crate) fn cached(
    template: &str,
    initialise: fn(&Path, &Path) -> Result<()>,
) -> Result<PathBuf> {
    let cache = paths::cache();
    let whole = cache.join(template);
    if whole.exists() {
        return Ok(whole);
    }
    fs::create_dir_all(&cache).map_err(Error::file("create", &cache))?;
    let own = cache.join(format!(".{template}.{}", process::id()));
    initialise(&own, &cache.join(format!("{template}.log")))?;
    // Another process may have finished first: its template is equivalent.
    if fs::rename(&own, &whole).is_err() {
        drop(fs::remove_dir_all(&own));
    }
    Ok(whole)
}

/// Copies a folder recursively, replacing `to`.
pub(crate) fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        fs::remove_dir_all(to).map_err(Error::file("remove", to))?;
    }
    fs::create_dir_all(to).map_err(Error::file("create", to))?;
    for entry in fs::read_dir(from).map_err(Error::file("read", from))? {
        let path = entry.map_err(Error::file("read", from))?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(Error::file("copy", &path))?;
        }
    }
    Ok(())
}
