//! MySQL as the database, from the folder that ops/install-mysql.sh fills. It may come from a newer Debian than
//! this system, so it runs with its own dynamic loader and libraries, without chroot or root.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::Process;
use crate::process::probe::Probe;
use crate::{
    Error, Flavor, Options, Result, paths,
    process::ports,
    servers::{SETTINGS_OF_BOTH, datadir, replication::Role},
};

/// Script that installs it.
pub(crate) const INSTALLER: &str = "ops/install-mysql.sh";

/// The version that ops/install-mysql.sh installs.
const VERSION: &str = "9.7";

/// Names are in lower case, regardless of the statements. The server accepts it only with a data folder that
/// was initialised with it.
const LOWER_CASE: &str = "--lower-case-table-names=1";

/// Path of the server in that folder.
const SERVER: &str = "usr/sbin/mysqld";

/// Its own settings, beside [`SETTINGS_OF_BOTH`]. The row format is the default.
const SETTINGS: &[&str] = &[
    "--gtid-mode=ON",
    "--enforce-gtid-consistency=ON",
    "--innodb-redo-log-capacity=256M",
    "--performance-schema=OFF",
    "--mysqlx=OFF",
    // The default is a system folder that does not exist here.
    "--secure-file-priv=",
    "--socket=mysql.sock",
    "--pid-file=mysql.pid",
];

/// Prepares the server of the stack in `dir`; creates its data folder if needed.
pub(crate) fn prepare(dir: &Path, options: &Options) -> Result<Process> {
    prepare_as(Role::Primary, dir, options)
}

/// Prepares one of the two servers of a stack with a replica.
pub(crate) fn prepare_as(role: Role, dir: &Path, options: &Options) -> Result<Process> {
    let (loader, program) = program(SERVER)?;
    let name = role.name(Flavor::Mysql);
    let home = dir.join(name);
    let data = if options.database_arguments.iter().any(|argument| argument == LOWER_CASE) {
        datadir::prepare(&home, &format!("mysql-{VERSION}-data-lower-case"), initialise_lower_case)?
    } else {
        datadir::prepare(&home, &format!("mysql-{VERSION}-data"), initialise)?
    };
    let init = datadir::write_init_sql(&home)?;
    let port = ports::remembered(&home.join("port"))?;
    let process = Process::new(name, loader, dir, port, Probe::MySql, options.tie)
        .arguments(program)
        .arguments(datadir::arguments(&data)?)
        .arguments([datadir::temporary(&home)?])
        .arguments([format!("--port={port}"), format!("--init-file={}", init.display())])
        .arguments(installation()?)
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
    let (loader, program) = program("usr/bin/mysqlbinlog")?;
    let mut reader = Command::new(loader);
    reader.args(program);
    Ok(reader)
}

/// Returns the loader, and its arguments up to and including the program.
fn program(program: &str) -> Result<(PathBuf, Vec<String>)> {
    let root = root()?;
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let arguments = vec![
        "--library-path".to_owned(),
        format!("{}:{}", libraries.display(), root.join("usr/lib/mysql/private").display()),
        root.join(program).display().to_string(),
    ];
    Ok((libraries.join("ld-linux-x86-64.so.2"), arguments))
}

/// Paths of mysqld's own files, which it otherwise looks for in the system's folders.
fn installation() -> Result<[String; 4]> {
    let usr = root()?.join("usr");
    Ok([
        format!("--basedir={}", usr.display()),
        format!("--lc-messages-dir={}", usr.join("share/mysql").display()),
        format!("--character-sets-dir={}", usr.join("share/mysql/charsets").display()),
        format!("--plugin-dir={}", usr.join("lib/mysql/plugin").display()),
    ])
}

fn initialise(data: &Path, log: &Path) -> Result<()> {
    initialise_with(&[], data, log)
}

fn initialise_lower_case(data: &Path, log: &Path) -> Result<()> {
    initialise_with(&[LOWER_CASE], data, log)
}

fn initialise_with(settings: &[&str], data: &Path, log: &Path) -> Result<()> {
    let (loader, program) = program(SERVER)?;
    let mut mysqld = Command::new(loader);
    mysqld
        .args(program)
        .args(datadir::arguments(data)?)
        .args(installation()?)
        // A small redo log makes a small template; the server enlarges it at its first start.
        .args(["--initialize-insecure", "--innodb-redo-log-capacity=8M"])
        .args(settings);
    datadir::run("mysqld --initialize", mysqld, log)
}

fn root() -> Result<PathBuf> {
    let root = paths::cache().join(format!("mysql-{VERSION}"));
    if root.exists() {
        Ok(root)
    } else {
        Err(Error::NotInstalled { program: format!("MySQL {VERSION}"), by: INSTALLER })
    }
}
