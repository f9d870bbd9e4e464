//! [`OwnPair`]: a Redis master with its replica and a sentinel, of one test alone.

use crate::{OwnSentinel, OwnView, Result, redis};

/// What the sentinel calls the master.
const NAME: &str = "pair";

/// A master, a replica that holds what it holds, and a sentinel that promotes the replica once the master has
/// been silent for half a second.
#[derive(Debug)]
pub struct OwnPair {
    /// The master at the start.
    pub master: OwnView,
    /// Its replica at the start.
    pub replica: OwnView,
    /// Who watches both.
    pub sentinel: OwnSentinel,
}

impl OwnPair {
    /// Starts them; their folders begin with `name`, which no other running test may use. `settings` are
    /// arguments of both servers that win over ours.
    ///
    /// # Errors
    /// As [`Process::start`](crate::Process::start).
    pub async fn start(name: &str, settings: &[&str]) -> Result<Self> {
        let of_master = [settings, &["--repl-diskless-sync-delay", "0"]].concat();
        let master = OwnView::start(&format!("{name}-master"), &of_master).await?;
        let at = master.server.address();
        let replicaof = format!("{} {}", at.ip(), at.port());
        let of_replica = [settings, &["--replicaof", &replicaof]].concat();
        let replica = OwnView::start(&format!("{name}-replica"), &of_replica).await?;
        // A sentinel asks a master for its replicas at once, and then every ten seconds.
        redis::until(&replica.server, |info| info.contains("master_link_status:up")).await?;
        let sentinel = OwnSentinel::start(&format!("{name}-sentinel"), NAME, at, &[]).await?;
        Ok(Self { master, replica, sentinel })
    }

    /// The address of the master, whoever it is.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/{NAME}", self.sentinel.server.address())
    }
}
