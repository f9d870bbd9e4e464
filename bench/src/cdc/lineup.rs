//! Who takes part: our tailer once for each round, and each peer that is to be had.

use std::{collections::BTreeMap, ops::Range, path::Path};

use anyhow::Result;
use devstack::{Endpoints, Platform, PlatformOptions};

use super::{
    broker::Broker,
    contender::{Contender, Mode},
    idle,
    load::Load,
    peers::{self, Site},
};

/// Names of the peers, as they are said.
pub const GO_MYSQL: &str = "go-mysql + franz-go";
/// See [`GO_MYSQL`].
pub const DEBEZIUM: &str = "Debezium Server";
/// Ours.
pub const TAILER: &str = "cdc-tailer";

/// Those that take part, and why others do not.
pub struct Lineup {
    /// In the order in which they run.
    pub contenders: Vec<Contender>,
    /// Names and reasons.
    pub missing: BTreeMap<&'static str, String>,
}

impl Lineup {
    /// Our tailer alone.
    ///
    /// # Errors
    /// It is not built.
    pub fn ours(endpoints: &Endpoints, folder: &Path, rounds: usize) -> Result<Self> {
        let mut contenders = Vec::new();
        for round in 0..rounds {
            let name = format!("ours-{round}");
            let site = Site::new(endpoints, folder, &name)?;
            let mut options =
                PlatformOptions::new(site.folder.clone()).with_env("RUST_LOG", "warn");
            options.topic_prefix = name;
            let platform = Platform::prepare(endpoints.clone(), options)?;
            contenders.push(Contender::ours(platform, site, round));
        }
        Ok(Self { contenders, missing: BTreeMap::new() })
    }

    /// Brings the peers, the quick one for all `rounds`, the slow one for `one`; who is not to be had is
    /// missing.
    ///
    /// # Errors
    /// A folder cannot be made.
    pub fn add_peers(
        &mut self,
        endpoints: &Endpoints,
        folder: &Path,
        rounds: Range<usize>,
        one: usize,
    ) -> Result<()> {
        let site = Site::new(endpoints, folder, "go-mysql")?;
        match peers::fetch_go_mysql() {
            Ok(binary) => self.contenders.push(Contender::go_mysql(binary, site, rounds)),
            Err(reason) => drop(self.missing.insert(GO_MYSQL, format!("{reason:#}"))),
        }
        let site = Site::new(endpoints, folder, "debezium")?;
        match peers::fetch_debezium() {
            Ok((java, server)) => {
                self.contenders.push(Contender::debezium(java, server, site, one));
            }
            Err(reason) => drop(self.missing.insert(DEBEZIUM, format!("{reason:#}"))),
        }
        Ok(())
    }

    /// Makes the peers' topics, and lets each that keeps its position find the binlog's end. Others than
    /// ours come first: their first change would else be one that ours has still to bring.
    ///
    /// # Errors
    /// Ours does not start. A peer that does not is missing from then on.
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

    /// What was measured; `None`: a peer failed, and is missing from now on.
    ///
    /// # Errors
    /// Ours failed.
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
