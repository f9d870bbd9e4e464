//! The participants: our tailer once per round, and each available peer.

use std::{collections::BTreeMap, ops::Range, path::Path};

use anyhow::Result;
use devstack::{Endpoints, Platform, PlatformOptions};

use super::{
    broker::Broker,
    contender::{Contender, Mode},
    idle,
    load::Load,
    peers::{self, ServerAccess},
};

/// Names of the contenders in the output.
pub const GO_MYSQL: &str = "go-mysql + franz-go";
/// See [`GO_MYSQL`].
pub const RUST_CONNECTOR: &str = "mysql-binlog-connector-rust + rdkafka";
/// See [`GO_MYSQL`].
pub const DEBEZIUM: &str = "Debezium Server";
/// See [`GO_MYSQL`].
pub const TAILER: &str = "cdc-tailer";

/// The participants, and the missing peers.
pub struct Lineup {
    /// In the order in which they run.
    pub contenders: Vec<Contender>,
    /// Names of missing peers, and the reasons.
    pub missing: BTreeMap<&'static str, String>,
}

impl Lineup {
    /// Our tailer alone.
    ///
    /// # Errors
    /// The tailer is not built.
    pub fn ours(endpoints: &Endpoints, folder: &Path, rounds: usize) -> Result<Self> {
        let mut contenders = Vec::new();
        for round in 0..rounds {
            let name = format!("ours-{round}");
            let access = ServerAccess::new(endpoints, folder, &name)?;
            let mut options =
                PlatformOptions::new(access.folder.clone()).with_env("RUST_LOG", "warn");
            options.topic_prefix = name;
            let platform = Platform::prepare(endpoints.clone(), options)?;
            contenders.push(Contender::ours(platform, access, round));
        }
        Ok(Self { contenders, missing: BTreeMap::new() })
    }

    /// Adds the available peers: the fast ones for all `rounds`, the slow one for round `one`. An unavailable peer is
    /// recorded as missing.
    ///
    /// # Errors
    /// A folder cannot be created.
    pub fn add_peers(
        &mut self,
        endpoints: &Endpoints,
        folder: &Path,
        rounds: Range<usize>,
        one: usize,
    ) -> Result<()> {
        let access = ServerAccess::new(endpoints, folder, "go-mysql")?;
        match peers::fetch_go_mysql() {
            Ok(binary) => {
                self.contenders.push(Contender::go_mysql(binary, access, rounds.clone()));
            }
            Err(reason) => drop(self.missing.insert(GO_MYSQL, format!("{reason:#}"))),
        }
        let access = ServerAccess::new(endpoints, folder, "rust-connector")?;
        match peers::fetch_rust_connector() {
            Ok(binary) => self.contenders.push(Contender::rust_connector(binary, access, rounds)),
            Err(reason) => drop(self.missing.insert(RUST_CONNECTOR, format!("{reason:#}"))),
        }
        let access = ServerAccess::new(endpoints, folder, "debezium")?;
        match peers::fetch_debezium() {
            Ok((java, server)) => {
                self.contenders.push(Contender::debezium(java, server, access, one));
            }
            Err(reason) => drop(self.missing.insert(DEBEZIUM, format!("{reason:#}"))),
        }
        Ok(())
    }

    /// Creates the peers' topics, and lets contenders that keep a position save the binlog's end. Peers come first:
    /// otherwise the changes made for them would be part of our backlog.
    ///
    /// # Errors
    /// Our tailer does not start. A peer that does not start is missing from then on.
    pub async fn seed(&mut self, load: &mut Load, broker: &Broker) -> Result<()> {
        let mut seeded = Vec::new();
        for mut contender in std::mem::take(&mut self.contenders).into_iter().rev() {
            let done = seed(&mut contender, load, broker).await;
            if self.unless_out(&contender, done)?.is_some() {
                seeded.push(contender);
            }
        }
        seeded.reverse();
        self.contenders = seeded;
        Ok(())
    }

    /// Returns the measurement, or `None` for a failed peer, which is missing from now on.
    ///
    /// # Errors
    /// Our tailer failed.
    pub fn unless_out<T>(&mut self, contender: &Contender, run: Result<T>) -> Result<Option<T>> {
        match run {
            Ok(measured) => Ok(Some(measured)),
            Err(error) if contender.name == TAILER => Err(error),
            Err(error) => {
                self.missing.insert(contender.name, format!("{error:#}"));
                Ok(None)
            }
        }
    }
}

async fn seed(contender: &mut Contender, load: &mut Load, broker: &Broker) -> Result<()> {
    match contender.name {
        TAILER => {
            contender.spawn(&load.place().await?, Mode::Backlog)?;
            contender.ready().await?;
            contender.stop().await
        }
        DEBEZIUM => {
            broker.create(&contender.topic).await?;
            idle::seed(contender, load, broker).await
        }
        _ => broker.create(&contender.topic).await,
    }
}
