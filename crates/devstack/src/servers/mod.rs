//! [`Servers`]: one MariaDB (or MySQL), two Redis and one Kafka node, started together.

pub(crate) mod certificates;
pub(crate) mod client;
pub(crate) mod datadir;
pub(crate) mod kafka;
pub(crate) mod mariadb;
pub(crate) mod mysql;
pub(crate) mod redis;
pub(crate) mod replica;
pub(crate) mod replication;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use crate::servers::datadir::{DATABASE, PASSWORD, USER};
use crate::servers::replication::{Replication, Role};
use crate::tier::full_only;
use crate::{Endpoints, Error, Process, Result, Tie, paths};

/// Settings of either database server: those that the tailer and the trigger need, and those of a private server.
pub(crate) const SETTINGS_OF_BOTH: &[&str] = &[
    "--log-bin=binlog",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",
    "--log-bin-trust-function-creators=ON",
    "--character-set-server=utf8mb4",
    "--default-time-zone=+00:00",
    // Several stacks of a test run share this server, each with its own pools and landers.
    "--max-connections=500",
    "--innodb-buffer-pool-size=256M",
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
];

/// What a commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survives {
    /// A crash of the machine, as in production: each commit waits for the disk.
    #[default]
    PowerLoss,
    /// A kill of the process. Tests kill no machine.
    Kill,
}

impl Survives {
    /// Settings of either database server.
    const fn settings(self) -> &'static [&'static str] {
        match self {
            Self::PowerLoss => &["--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1"],
            Self::Kill => &[
                "--sync-binlog=0",
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-flush-method=nosync",
            ],
        }
    }
}

/// The kind of database server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Flavor {
    /// MariaDB of this system.
    #[default]
    Mariadb,
    /// MySQL 9.7, installed by ops/install-mysql.sh.
    Mysql,
}

impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mariadb => "MariaDB",
            Self::Mysql => "MySQL",
        })
    }
}

impl Flavor {
    /// Name of its process, record and log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
        }
    }

    /// The server's own program that prints a binlog as text (`mariadb-binlog`, `mysqlbinlog`), without
    /// arguments.
    ///
    /// # Errors
    /// [`Error::NotInstalled`].
    pub fn binlog_reader(self) -> Result<Command> {
        match self {
            Self::Mariadb => mariadb::binlog_reader(),
            Self::Mysql => mysql::binlog_reader(),
        }
    }
}

/// How servers are started; the default suits tests, demo and benches.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the servers end with this process.
    pub tie: Tie,
    /// Which database server to run.
    pub flavor: Flavor,
    /// Whether that server has a replica, and of which kind.
    pub replica: Option<Replication>,
    /// What a commit of that server survives.
    pub survives: Survives,
    /// Extra arguments of that server, which override ours, for tests of wrong settings.
    pub database_arguments: Vec<String>,
    /// Whether the broker's Java compiles hot code with full optimisation, as in production. Worthwhile when
    /// load lasts for minutes.
    pub kafka_optimised: bool,
}

impl Options {
    /// Arguments of a database server in this role; none without a replica.
    fn of_role(&self, role: Role) -> Vec<&'static str> {
        self.replica.map(|replication| replication.settings(self.flavor, role)).unwrap_or_default()
    }
}

/// The four servers of a stack, and perhaps a replica of the database. Dropping the value kills them and keeps their
/// data.
#[derive(Debug)]
pub struct Servers {
    /// MariaDB or MySQL.
    pub database: Process,
    /// Follows that one, in a stack with a replica.
    pub replica: Option<Process>,
    /// Redis of the gate.
    pub gate: Process,
    /// Redis of the view.
    pub view: Process,
    pub kafka: Process,
    dir: PathBuf,
}

impl Servers {
    /// Starts all at once on free ports of 127.0.0.1 with their data in `dir`, and waits until each answers, and a replica
    /// has everything. A folder that was used before keeps its data, and its ports if they are still free.
    ///
    /// # Errors
    /// A server is not installed, ended, or did not answer within a minute; the error contains the end of its
    /// log.
    pub async fn start(dir: &Path, options: &Options) -> Result<Self> {
        full_only("starts servers of its own");
        let dir = paths::absolute(dir)?;
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        // Preparing files blocks, so each server is prepared on a blocking thread, side by side.
        let databases = databases(&dir, options);
        let kafka = in_background(&dir, options, kafka::prepare);
        let gate = in_background(&dir, options, redis::prepare_gate);
        let view = in_background(&dir, options, redis::prepare_view);
        let (databases, kafka, gate, view) = tokio::try_join!(databases, kafka, gate, view)?;
        let Databases { database, replica } = databases;
        Ok(Self { database, replica, gate, view, kafka, dir })
    }

    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            database_url: url(&self.database),
            gate_redis_url: format!("redis://{}", self.gate.address()),
            view_redis_url: format!("redis://{}", self.view.address()),
            kafka_brokers: self.kafka.address().to_string(),
        }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stops all at the same time and keeps their data.
    ///
    /// # Errors
    /// A server could not be signalled.
    pub async fn stop(&mut self) -> Result<()> {
        let Self { database, replica, gate, view, kafka, .. } = self;
        let replica = async {
            match replica {
                Some(replica) => replica.stop().await,
                None => Ok(None),
            }
        };
        tokio::try_join!(database.stop(), replica, gate.stop(), view.stop(), kafka.stop())?;
        Ok(())
    }

    /// Leaves detached servers running when this value is dropped.
    pub fn let_go(&mut self) {
        for server in [&mut self.database, &mut self.gate, &mut self.view, &mut self.kafka] {
            server.let_go();
        }
        self.replica.iter_mut().for_each(Process::let_go);
    }
}

/// The database server of a stack, and its replica.
struct Databases {
    database: Process,
    replica: Option<Process>,
}

/// Starts the replica behind its primary: both may have to make the same template of data.
async fn databases(dir: &Path, options: &Options) -> Result<Databases> {
    let database = replica::start_primary(dir, options).await?;
    let replica = match options.replica {
        Some(replication) => {
            Some(replica::start(dir, options, replication, database.address()).await?)
        }
        None => None,
    };
    Ok(Databases { database, replica })
}

/// Starts a MySQL for tests besides the servers in `dir`, which outlives this process, and returns its URL.
///
/// # Errors
/// As [`Servers::start`].
pub async fn mysql_beside(dir: &Path) -> Result<String> {
    let dir = paths::absolute(dir)?;
    let survives = Survives::Kill;
    let tie = Tie::Detached;
    let options = Options { tie, flavor: Flavor::Mysql, survives, ..Options::default() };
    let mut server = in_background(&dir, &options, mysql::prepare).await?;
    let url = url(&server);
    server.let_go();
    Ok(url)
}

/// The URL of a database server, with a database that exists.
pub(crate) fn url(server: &Process) -> String {
    format!("mysql://{USER}:{PASSWORD}@{}/{DATABASE}", server.address())
}

/// Prepares a server on a thread that may block, then starts it.
async fn in_background(
    dir: &Path,
    options: &Options,
    prepare: fn(&Path, &Options) -> Result<Process>,
) -> Result<Process> {
    let dir = dir.to_path_buf();
    let options = options.clone();
    let prepared = tokio::task::spawn_blocking(move || prepare(&dir, &options)).await;
    let mut process = prepared.expect("preparing a server does not panic")?;
    process.start().await?;
    Ok(process)
}
