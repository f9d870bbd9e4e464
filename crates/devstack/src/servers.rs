//! [`Servers`]: one MariaDB (or MySQL), two Redis and one Kafka node, started together.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fmt, fs};

use crate::datadir::{DATABASE, PASSWORD, USER};
use crate::{Endpoints, Error, Process, Result, Tie, kafka, mariadb, mysql, paths, redis};

/// Which server is the truth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Flavor {
    /// MariaDB of this system.
    #[default]
    Mariadb,
    /// MySQL 9.7, brought by ops/install-mysql.sh.
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
    /// The name of its process, record and log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
        }
    }

    /// The program by which the server's makers print a binlog as text (`mariadb-binlog`, `mysqlbinlog`),
    /// without arguments.
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
    /// Whether they end with this process.
    pub tie: Tie,
    /// Which server is the truth.
    pub flavor: Flavor,
    /// Further arguments of that server, which win over ours: for tests of wrong settings.
    pub database_arguments: Vec<String>,
    /// Whether the broker's Java optimises what it runs much, as an installed one does: it pays where load
    /// lasts for minutes.
    pub kafka_optimised: bool,
}

/// The four servers of a stack. Dropped, they are killed and their data stays.
#[derive(Debug)]
pub struct Servers {
    /// The truth: MariaDB or MySQL.
    pub database: Process,
    /// Redis of the gate.
    pub gate: Process,
    /// Redis of the view.
    pub view: Process,
    /// The log between them.
    pub kafka: Process,
    dir: PathBuf,
}

impl Servers {
    /// Starts all four on free ports of 127.0.0.1 with their data in `dir`, at once, and waits until each
    /// answers. A folder that was used before gives its data, and its ports if they are still free.
    ///
    /// # Errors
    /// One is not installed, ended, or did not answer within a minute: with the end of its log.
    pub async fn start(dir: &Path, options: &Options) -> Result<Self> {
        let dir = paths::absolute(dir)?;
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        // The two that prepare files first do so side by side, on threads that may block.
        let database = match options.flavor {
            Flavor::Mariadb => in_background(&dir, options, mariadb::prepare),
            Flavor::Mysql => in_background(&dir, options, mysql::prepare),
        };
        let kafka = in_background(&dir, options, kafka::prepare);
        let gate = in_background(&dir, options, redis::prepare_gate);
        let view = in_background(&dir, options, redis::prepare_view);
        let (database, kafka, gate, view) = tokio::try_join!(database, kafka, gate, view)?;
        Ok(Self { database, gate, view, kafka, dir })
    }

    /// Where they are.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            database_url: format!(
                "mysql://{USER}:{PASSWORD}@{}/{DATABASE}",
                self.database.address()
            ),
            gate_redis_url: format!("redis://{}", self.gate.address()),
            view_redis_url: format!("redis://{}", self.view.address()),
            kafka_brokers: self.kafka.address().to_string(),
        }
    }

    /// Their folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Ends all four in order and keeps their data.
    ///
    /// # Errors
    /// One could not be signalled.
    pub async fn stop(&mut self) -> Result<()> {
        let Self { database, gate, view, kafka, .. } = self;
        tokio::try_join!(database.stop(), gate.stop(), view.stop(), kafka.stop())?;
        Ok(())
    }

    /// Leaves detached servers running when this value is gone.
    pub fn let_go(&mut self) {
        for server in [&mut self.database, &mut self.gate, &mut self.view, &mut self.kafka] {
            server.let_go();
        }
    }
}

/// Prepares a server on a thread that may block, then starts it.
async fn in_background(
    dir: &Path,
    options: &Options,
    prepare: fn(&Path, &Options) -> Result<Process>,
) -> Result<Process> {
    let (dir, options) = (dir.to_path_buf(), options.clone());
    let prepared = tokio::task::spawn_blocking(move || prepare(&dir, &options)).await;
    let mut process = prepared.expect("preparing a server does not panic")?;
    process.start().await?;
    Ok(process)
}
