//! [`OwnBrokers`]: a Kafka cluster of one test alone.

use std::fs;
use std::path::PathBuf;

use crate::probe::kafka_brokers;
use crate::{Error, Options, Process, Result, at_last, kafka, paths};

/// Nodes: as few as can lose one and still keep two copies of what is written.
const NODES: u32 = 3;

/// Three brokers, each a controller too. Any of them may be killed and started again, one at a time. Dropped, they
/// are gone with their data.
#[derive(Debug)]
pub struct OwnBrokers {
    /// The servers.
    pub servers: Vec<Process>,
    dir: PathBuf,
}

impl OwnBrokers {
    /// Starts them without data and waits until each knows all; their folder bears `name`, which no other running
    /// test may use.
    ///
    /// # Errors
    /// As [`Process::start`].
    ///
    /// # Panics
    /// They answer, and do not find each other in half a minute.
    pub async fn start(name: &str) -> Result<Self> {
        let dir = paths::own_folder(name)?;
        let dirs: Vec<PathBuf> = (1..=NODES).map(|number| dir.join(number.to_string())).collect();
        let servers = kafka::prepare_cluster(&dirs, &Options::default())?;
        let mut cluster = Self { servers, dir };
        // Together: one alone is no majority, and answers nothing.
        for server in &mut cluster.servers {
            server.spawn()?;
        }
        for server in &mut cluster.servers {
            // They share the machine's cores, and may take as much longer as they are more than one.
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
        Ok(cluster)
    }

    /// Where they are.
    pub fn brokers(&self) -> String {
        let addresses = self.servers.iter().map(|server| server.address().to_string());
        addresses.collect::<Vec<_>>().join(",")
    }
}

impl Drop for OwnBrokers {
    fn drop(&mut self) {
        for server in &mut self.servers {
            // Nobody is left to tell; what stays is removed by the next run.
            drop(server.kill());
        }
        drop(fs::remove_dir_all(&self.dir));
    }
}
