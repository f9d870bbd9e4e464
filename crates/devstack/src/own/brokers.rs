//! [`OwnBrokers`]: a Kafka cluster for a single test.

use std::fs;
use std::path::PathBuf;

use crate::process::probe::kafka_brokers;
use crate::tier::full_only;
use crate::{Error, Options, Process, Result, at_last, paths, servers::kafka};

/// The fewest nodes that can lose one and still keep two copies of each write.
const NODES: u32 = 3;

/// Three brokers, each also a controller. Any one at a time may be killed and restarted. Dropping the value
/// removes them and their data.
#[derive(Debug)]
pub struct OwnBrokers {
    pub servers: Vec<Process>,
    dir: PathBuf,
}

impl OwnBrokers {
    /// Starts them without data, in a folder called `name`, and waits until each lists all. No other running
    /// test may use that name.
    ///
    /// # Errors
    /// As [`Process::start`].
    ///
    /// # Panics
    /// They answer, but do not all list each other within 30 s.
    pub async fn start(name: &str) -> Result<Self> {
        full_only("starts a Kafka cluster");
        let dir = paths::own_folder(name)?;
        let dirs: Vec<PathBuf> = (1..=NODES).map(|number| dir.join(number.to_string())).collect();
        let servers = kafka::prepare_cluster(&dirs, &Options::default())?;
        let mut cluster = Self { servers, dir };
        // Together: one alone is no majority and answers nothing.
        for server in &mut cluster.servers {
            server.spawn()?;
        }
        cluster.ready().await?;
        Ok(cluster)
    }

    /// Waits until each of them, all started, lists all.
    ///
    /// # Errors
    /// As [`Process::ready`].
    ///
    /// # Panics
    /// They answer, but do not all list each other within 30 s.
    pub async fn ready(&mut self) -> Result<()> {
        for server in &mut self.servers {
            // They share the machine's cores, so each may take longer in proportion to their number.
            for _ in 1..NODES {
                match server.ready().await {
                    Err(Error::NotReady { .. }) => {}
                    _ => break,
                }
            }
            server.ready().await?;
            let address = server.address();
            at_last(async || match kafka_brokers(address).await {
                NODES => Ok(()),
                fewer => Err(format!("{address} lists {fewer} brokers")),
            })
            .await;
        }
        Ok(())
    }

    /// The brokers' addresses, as `KAFKA_BROKERS` takes them.
    pub fn brokers(&self) -> String {
        let addresses = self.servers.iter().map(|server| server.address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }
}

impl Drop for OwnBrokers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // A destructor cannot report errors; the next run removes leftovers.
            drop(server.discard());
        }
        drop(fs::remove_dir_all(&self.dir));
    }
}
