//! MariaDB as the database.

use std::path::Path;
use std::process::Command;

use crate::process::Process;
use crate::process::probe::Probe;
use crate::{
    Error, Flavor, Options, Result, paths,
    process::ports,
    servers::{SETTINGS_OF_BOTH, datadir, replication::Role},
};

/// Its own settings, beside [`SETTINGS_OF_BOTH`].
const SETTINGS: &[&str] = &[
    "--binlog-format=ROW",
    "--gtid-strict-mode=ON",
    "--innodb-log-file-size=128M",
    "--skip-networking=OFF",
    // Relative to the data folder: a socket's path is limited to 107 bytes.
    "--socket=mariadb.sock",
    "--pid-file=mariadb.pid",
];

/// Prepares the server of the stack in `dir`; creates its data folder if needed.
pub(crate) fn prepare(dir: &Path, options: &Options) -> Result<Process> {
    prepare_as(Role::Primary, dir, options)
}

/// Prepares one of the two servers of a stack with a replica.
pub(crate) fn prepare_as(role: Role, dir: &Path, options: &Options) -> Result<Process> {
    let program = paths::program("mariadbd")?;
    let name = role.name(Flavor::Mariadb);
    let home = dir.join(name);
    let template = format!("mariadb-{}", version(&program)?);
    let data = datadir::prepare(&home, &template, initialise)?;
    let init = datadir::write_init_sql(&home)?;
    let port = ports::remembered(&home.join("port"))?;
    let process = Process::new(name, program, dir, port, Probe::MySql, options.tie)
        .arguments(datadir::arguments(&data)?)
        .arguments([datadir::temporary(&home)?])
        .arguments([format!("--port={port}"), format!("--init-file={}", init.display())])
        .arguments(SETTINGS_OF_BOTH)
        .arguments(SETTINGS)
        .arguments(options.survives.settings())
        .arguments(options.of_role(role))
        .arguments([format!("--server-id={}", datadir::server_id(&home))])
        .arguments(&options.database_arguments);
    Ok(process)
}

/// The server's own program for printing binlogs.
pub(crate) fn binlog_reader() -> Result<Command> {
    Ok(Command::new(paths::program("mariadb-binlog")?))
}

/// Returns the version, such as `10.11.6-MariaDB-0+deb12u1`. Each version needs its own data folder.
fn version(mariadbd: &Path) -> Result<String> {
    let output = Command::new(mariadbd)
        .arg("--version")
        .output()
        .map_err(|source| Error::Spawn { name: "mariadbd --version".to_owned(), source })?;
    let output = String::from_utf8_lossy(&output.stdout);
    let version = output.split_whitespace().find(|word| word.contains("-MariaDB"));
    Ok(version.unwrap_or("unknown").to_owned())
}

fn initialise(data: &Path, log: &Path) -> Result<()> {
    let mut install = Command::new(paths::program("mariadb-install-db")?);
    install
        .args(datadir::arguments(data)?)
        .args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"])
        // A small log makes a small template; the server enlarges it at its first start.
        .args(["--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M"])
        .args(["--innodb-flush-log-at-trx-commit=0"]);
    datadir::run("mariadb-install-db", install, log)
}
