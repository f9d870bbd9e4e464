//! [`OwnPair`]: a Redis master with its replica and a sentinel, of one test alone.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::child::LOOK_EVERY;
use crate::{Error, OwnSentinel, OwnView, Result};

/// What the sentinel calls the master.
const NAME: &str = "pair";

/// Longest wait for a replica's first copy of an empty master.
const COPIED_WITHIN: Duration = Duration::from_secs(60);

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
        let deadline = Instant::now() + COPIED_WITHIN;
        while !is_copy(replica.server.address()).await.unwrap_or(false) {
            if Instant::now() >= deadline {
                return Err(Error::NotReady {
                    name: "redis replica".to_owned(),
                    seconds: COPIED_WITHIN.as_secs(),
                    way_out: String::new(),
                    log: replica.server.log(),
                    tail: String::new(),
                });
            }
            sleep(LOOK_EVERY).await;
        }
        let sentinel = OwnSentinel::start(&format!("{name}-sentinel"), NAME, at, &[]).await?;
        Ok(Self { master, replica, sentinel })
    }

    /// The address of the master, whoever it is.
    pub fn url(&self) -> String {
        format!("redis+sentinel://{}/{NAME}", self.sentinel.server.address())
    }
}

/// Whether a replica has had all of its master's data.
async fn is_copy(replica: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(replica).await?;
    stream.write_all(b"INFO replication\r\nQUIT\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.contains("master_link_status:up"))
}
