//! A contender brings the binlog into a topic: our tailer, or a peer. Only one runs at a time.

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use devstack::Platform;

use super::{
    child::{Child, tail},
    lineup::{DEBEZIUM, GO_MYSQL, RUST_CONNECTOR, TAILER},
    load::BinlogPosition,
    peers::ServerAccess,
};

/// The purpose of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Drain a backlog as fast as possible.
    Backlog,
    /// Deliver single changes as soon as possible.
    Idle,
}

/// A tailer to be measured.
pub struct Contender {
    pub name: &'static str,
    /// The topic of its messages.
    pub topic: String,
    /// The rounds in which it runs.
    pub rounds: Range<usize>,
    engine: Engine,
    access: ServerAccess,
    child: Option<Child>,
}

enum Engine {
    Ours(Box<Platform>),
    GoMysql { binary: PathBuf },
    RustConnector { binary: PathBuf },
    Debezium { java: PathBuf, server: PathBuf },
}

impl Contender {
    /// Our tailer for one round; its own topic prefix gives it its own checkpoint.
    pub fn ours(platform: Platform, access: ServerAccess, round: usize) -> Self {
        let topic = format!("{}.user_coupon", platform.options.topic_prefix);
        let rounds = round..round + 1;
        let engine = Engine::Ours(Box::new(platform));
        Self { name: TAILER, topic, rounds, engine, access, child: None }
    }

    /// The hand-written peer; it takes its start position as an option, so it can run in every
    /// round.
    pub fn go_mysql(binary: PathBuf, access: ServerAccess, rounds: Range<usize>) -> Self {
        let topic = "go-mysql.user_coupon".to_owned();
        let engine = Engine::GoMysql { binary };
        Self { name: GO_MYSQL, topic, rounds, engine, access, child: None }
    }

    /// The hand-written peer in Rust, which also takes its start position as an option.
    pub fn rust_connector(binary: PathBuf, access: ServerAccess, rounds: Range<usize>) -> Self {
        let topic = "rust-connector.user_coupon".to_owned();
        let engine = Engine::RustConnector { binary };
        Self { name: RUST_CONNECTOR, topic, rounds, engine, access, child: None }
    }

    /// Debezium Server, in one round only: it keeps its own position, and is slow.
    pub fn debezium(java: PathBuf, server: PathBuf, access: ServerAccess, round: usize) -> Self {
        let topic = format!("debezium.{}.user_coupon", access.database);
        let engine = Engine::Debezium { java, server };
        Self { name: DEBEZIUM, topic, rounds: round..round + 1, engine, access, child: None }
    }

    /// Starts the process without waiting; one that keeps no position starts at `from`.
    ///
    /// # Errors
    /// The process cannot be run.
    pub fn spawn(&mut self, from: &BinlogPosition, mode: Mode) -> Result<()> {
        let command = match &mut self.engine {
            Engine::Ours(platform) => return Ok(platform.cdc_tailer.spawn()?),
            Engine::GoMysql { binary } => self.access.go_mysql(binary, &self.topic, from, mode),
            Engine::RustConnector { binary } => {
                self.access.rust_connector(binary, &self.topic, from, mode)
            }
            Engine::Debezium { java, server } => self.access.debezium(java, server, mode)?,
        };
        self.child = Some(Child::spawn(&command, &self.log())?);
        Ok(())
    }

    /// Waits until it reports readiness; returns at once for one that does not.
    ///
    /// # Errors
    /// The process ended.
    pub async fn ready(&mut self) -> Result<()> {
        match &mut self.engine {
            Engine::Ours(platform) => Ok(platform.cdc_tailer.ready().await?),
            Engine::GoMysql { .. } | Engine::RustConnector { .. } | Engine::Debezium { .. } => {
                Ok(())
            }
        }
    }

    /// The process id.
    pub fn pid(&self) -> Result<u32> {
        match &self.engine {
            Engine::Ours(platform) => {
                let pid = platform.cdc_tailer.pid().context("cdc-tailer does not run")?;
                Ok(u32::try_from(pid)?)
            }
            _ => Ok(self.child.as_ref().context("the peer does not run")?.pid()),
        }
    }

    /// Checks that it still runs; the error quotes the end of its log.
    ///
    /// # Errors
    /// The process has ended.
    pub fn check(&mut self) -> Result<()> {
        let (runs, log) = match &mut self.engine {
            Engine::Ours(platform) => (platform.cdc_tailer.is_running(), platform.cdc_tailer.log()),
            _ => match &mut self.child {
                Some(child) => (child.ended()?.is_none(), self.log()),
                None => bail!("{} was not started", self.name),
            },
        };
        ensure!(runs, "{} ended by itself:\n{}", self.name, tail(&log));
        Ok(())
    }

    /// Stops it in order, so that it saves its position.
    ///
    /// # Errors
    /// The process cannot be signalled.
    pub async fn stop(&mut self) -> Result<()> {
        if let Engine::Ours(platform) = &mut self.engine {
            platform.cdc_tailer.stop().await?;
        }
        match self.child.take() {
            Some(child) => child.stop().await,
            None => Ok(()),
        }
    }

    fn log(&self) -> PathBuf {
        self.access.folder.join("peer.log")
    }
}

impl ServerAccess {
    fn go_mysql(&self, binary: &Path, topic: &str, from: &BinlogPosition, mode: Mode) -> Command {
        // 10 ms is the client's default, and faster under load.
        let linger = if mode == Mode::Idle { "0" } else { "10ms" };
        let mut command = Command::new(binary);
        let Self { host, port, user, password, .. } = self;
        command.arg(format!("-mysql={host}:{port}"));
        command.arg(format!("-user={user}")).arg(format!("-password={password}"));
        command.arg(format!("-table={}.user_coupon", self.database));
        command.arg(format!("-brokers={}", self.brokers)).arg(format!("-topic={topic}"));
        command.arg(format!("-from={}:{}", from.file, from.offset));
        command.arg("-position-file=position").arg(format!("-linger={linger}"));
        command.current_dir(&self.folder);
        command
    }

    fn rust_connector(
        &self,
        binary: &Path,
        topic: &str,
        from: &BinlogPosition,
        mode: Mode,
    ) -> Command {
        // Like the other hand-written one.
        let linger_ms = if mode == Mode::Idle { "0" } else { "10" };
        let mut command = Command::new(binary);
        let Self { host, port, user, password, .. } = self;
        command.arg(format!("--mysql=mysql://{user}:{password}@{host}:{port}"));
        command.arg(format!("--table={}.user_coupon", self.database));
        command.arg(format!("--brokers={}", self.brokers)).arg(format!("--topic={topic}"));
        command.arg(format!("--from={}:{}", from.file, from.offset));
        command.arg(format!("--linger-ms={linger_ms}")).current_dir(&self.folder);
        command
    }

    fn debezium(&self, java: &Path, server: &Path, mode: Mode) -> Result<Command> {
        let config = self.folder.join("config");
        fs::create_dir_all(&config)?;
        let properties = fs::read_to_string(&self.debezium_properties)?;
        fs::write(config.join("application.properties"), self.filled(properties, mode))?;
        let mut command = Command::new(java);
        let server = server.display();
        command.arg("-cp").arg(format!("{server}/*:config:{server}/lib/*"));
        command.arg("io.debezium.server.Main").current_dir(&self.folder);
        Ok(command)
    }

    /// Fills in the placeholders in Debezium's settings.
    fn filled(&self, properties: String, mode: Mode) -> String {
        // 500 ms is Debezium's default; 10 ms makes it fast when idle.
        let poll_interval_ms = if mode == Mode::Idle { "10" } else { "500" };
        let values = [
            ("brokers", self.brokers.clone()),
            ("host", self.host.clone()),
            ("port", self.port.to_string()),
            ("user", self.user.clone()),
            ("password", self.password.clone()),
            ("topic_prefix", "debezium".to_owned()),
            ("table", format!("{}.user_coupon", self.database)),
            ("poll_interval_ms", poll_interval_ms.to_owned()),
            ("http_port", self.http_port.to_string()),
        ];
        values
            .iter()
            .fold(properties, |filled, (name, value)| filled.replace(&format!("{{{name}}}"), value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_stands_in_braces_in_debeziums_settings_is_filled_in() {
        let access = ServerAccess {
            host: "127.0.0.1".into(),
            port: 3306,
            user: "u".into(),
            password: "p".into(),
            database: "d".into(),
            brokers: "127.0.0.1:9092".into(),
            folder: PathBuf::new(),
            debezium_properties: PathBuf::new(),
            http_port: 8080,
        };
        let properties = include_str!("../../peers/debezium/application.properties");
        let filled = access.filled(properties.to_owned(), Mode::Idle);
        assert!(!filled.contains('{'), "{filled}");
        assert!(filled.contains("table.include.list=d.user_coupon\n"));
        assert!(filled.contains("poll.interval.ms=10\n"));
    }
}
