//! [`OwnPair`]: a Redis master with a replica and a sentinel, for a single test.

use crate::{OwnRedis, OwnSentinel, Result, servers::redis};

/// The sentinel's name for the master.
const NAME: &str = "pair";

/// A master, its replica, and a sentinel that promotes the replica once the master has been unresponsive for
/// 0.5 s.
#[derive(Debug)]
pub struct OwnPair {
    /// The initial master.
    pub master: OwnRedis,
    /// The initial replica.
    pub replica: OwnRedis,
    /// Monitors both.
    pub sentinel: OwnSentinel,
}

impl OwnPair {
    /// Starts them, in folders whose names begin with `name`. No other running test may use that name.
    /// `settings` are arguments of both servers and override ours.
    ///
    /// # Errors
    /// As [`Process::start`](crate::Process::start).
    pub async fn start(name: &str, settings: &[&str]) -> Result<Self> {
        let of_master = [settings, &["--repl-diskless-sync-delay", "0"]].concat();
        let master = OwnRedis::view(&format!("{name}-master"), &of_master).await?;
        let at = master.server.address();
        let replicaof = format!("{} {}", at.ip(), at.port());
        let of_replica = [settings, &["--replicaof", &replicaof]].concat();
        let replica = OwnRedis::view(&format!("{name}-replica"), &of_replica).await?;
        // A sentinel asks a master for its replicas at once, and then only every ten seconds.
        redis::until(&replica.server, |info| info.contains("master_link_status:up")).await?;
        let sentinel = OwnSentinel::start(&format!("{name}-sentinel"), NAME, at, &[]).await?;
        Ok(Self { master, replica, sentinel })
    }

    /// The URL of the current master, whichever server that is.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/{NAME}", self.sentinel.server.address())
    }
}
