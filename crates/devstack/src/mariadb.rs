//! MariaDB, the truth: initialised once per machine as a template in the cache, copied for each stack.
//!
//! Settings are those the platform demands of anybody's server (binlog of whole rows with names, durable
//! commits) and the few a private one needs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::probe::Probe;
use crate::process::{Process, tail};
use crate::{Error, Options, Result, paths, ports};

/// User of the platform; it may do everything, as a private server has nobody to protect.
pub(crate) const USER: &str = "coupon";
/// Its password: `mysql_cdc` cannot log in without one. Not a secret, the server listens on 127.0.0.1 only.
pub(crate) const PASSWORD: &str = "coupon";
/// Database of the platform unless another is named.
pub(crate) const DATABASE: &str = "coupon";

/// What the tailer and the trigger need, and what makes a commit durable.
const SETTINGS: &[&str] = &[
    "--server-id=1",
    "--log-bin=binlog",
    "--binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--gtid-strict-mode=ON",
    "--sync-binlog=1",
    "--innodb-flush-log-at-trx-commit=1",
    "--log-bin-trust-function-creators=ON",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    // Several stacks of a test run share this server, each with pools and landers of its own.
    "--max-connections=500",
    "--innodb-buffer-pool-size=256M",
    "--innodb-log-file-size=128M",
    "--bind-address=127.0.0.1",
    "--skip-networking=OFF",
    "--skip-name-resolve",
    // Relative to the data folder: a socket's path is limited to 107 bytes.
    "--socket=mariadb.sock",
    "--pid-file=mariadb.pid",
];

/// The server of the stack in `dir`, with its data folder made if it is not there yet.
pub(crate) fn prepare(dir: &Path, options: &Options) -> Result<Process> {
    let program = paths::program("mariadbd")?;
    let home = dir.join("mariadb");
    let data = home.join("data");
    fs::create_dir_all(&home).map_err(Error::file("create", &home))?;
    if !data.exists() {
        let fresh = home.join("data.new");
        copy_folder(&template(&program)?, &fresh)?;
        fs::rename(&fresh, &data).map_err(Error::file("create", &data))?;
    }
    let init = home.join("init.sql");
    fs::write(&init, init_sql()).map_err(Error::file("write", &init))?;

    let port = ports::remembered(&home.join("port"))?;
    let mut arguments = base_arguments(&data)?;
    arguments.push(format!("--port={port}"));
    arguments.push(format!("--init-file={}", init.display()));
    arguments.extend(SETTINGS.iter().map(|&setting| setting.to_owned()));
    arguments.extend(options.mariadb_arguments.iter().cloned());
    Ok(Process::new("mariadb", program, dir, port, Probe::MySql, options.tie).arguments(arguments))
}

/// Run by the server at each start before it listens.
fn init_sql() -> String {
    format!(
        "create user if not exists '{USER}'@'%' identified by '{PASSWORD}';\n\
         grant all privileges on *.* to '{USER}'@'%' with grant option;\n\
         create database if not exists {DATABASE} character set utf8mb4;\n"
    )
}

/// An initialised data folder of this version of MariaDB: making one takes seconds, copying it does not.
fn template(mariadbd: &Path) -> Result<PathBuf> {
    let version = Command::new(mariadbd)
        .arg("--version")
        .output()
        .map_err(|source| Error::Spawn { name: "mariadbd --version".to_owned(), source })?;
    let version = String::from_utf8_lossy(&version.stdout);
    let version = version.split_whitespace().find(|word| word.contains("-MariaDB"));
    let name = format!("mariadb-{}", version.unwrap_or("unknown"));
    let cache = paths::cache();
    let whole = cache.join(&name);
    if whole.exists() {
        return Ok(whole);
    }
    let fresh = cache.join(format!(".{name}.{}", std::process::id()));
    fs::create_dir_all(&cache).map_err(Error::file("create", &cache))?;
    initialise(&fresh, &cache.join(format!("{name}.log")))?;
    // Another process may have been quicker: its template is as good.
    if fs::rename(&fresh, &whole).is_err() {
        drop(fs::remove_dir_all(&fresh));
    }
    Ok(whole)
}

fn initialise(data: &Path, log: &Path) -> Result<()> {
    let install = paths::program("mariadb-install-db")?;
    let output = fs::File::create(log).map_err(Error::file("create", log))?;
    let errors = output.try_clone().map_err(Error::file("create", log))?;
    let status = Command::new(install)
        .args(base_arguments(data)?)
        .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"])
        // A small log is a small template; the server makes a larger one at its first start.
        .args(["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"])
        .args(["--innodb-flush-log-at-trx-commit=0"])
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .status()
        .map_err(|source| Error::Spawn { name: "mariadb-install-db".to_owned(), source })?;
    if status.success() {
        return Ok(());
    }
    let (name, log) = ("mariadb-install-db".to_owned(), log.to_path_buf());
    Err(Error::Failed { name, status, tail: tail(&log), log })
}

/// No configuration of this machine, this data folder, and root only where we are root.
fn base_arguments(data: &Path) -> Result<Vec<String>> {
    let mut arguments = vec!["--no-defaults".to_owned(), format!("--datadir={}", data.display())];
    let own = fs::metadata("/proc/self").map_err(Error::file("read", "/proc/self"))?;
    if own.uid() == 0 {
        arguments.push("--user=root".to_owned());
    }
    Ok(arguments)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
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
