//! Replication between two database servers: what each kind of server calls it, and how a replica comes to take its
//! primary's place.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum as _;

use crate::servers::datadir::{PASSWORD, USER};
use crate::servers::{Flavor, client};
use crate::{Error, Result};

/// Longest time in seconds for a replica to apply what it lacks. A test's takes a moment; the minute is a stack's,
/// whose new replica begins with the first transaction.
const REPLICA_SECONDS: u32 = 60;
/// Longest wait until a replica receives and applies: it tries to connect once a second.
const FOLLOWS_WITHIN: Duration = Duration::from_secs(30);
/// Pause between two looks at a replica. Each starts a client.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// When the primary commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Replication {
    /// Behind the replica's acknowledgement, and before the commit is visible; without a replica, not at all.
    #[default]
    #[value(name = "semi-sync")]
    SemiSynchronous,
    /// A promotion may lose the newest commits.
    #[value(name = "async")]
    Asynchronous,
}

/// What a server is to the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Primary,
    Replica,
}

impl Role {
    /// Name of the process, record, log and folder of a stack's server.
    pub(crate) const fn name(self, flavor: Flavor) -> &'static str {
        match (self, flavor) {
            (Self::Primary, _) => flavor.name(),
            (Self::Replica, Flavor::Mariadb) => "mariadb-replica",
            (Self::Replica, Flavor::Mysql) => "mysql-replica",
        }
    }
}

impl Replication {
    /// The kind of this name: `semi-sync` or `async`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::from_str(name, false).ok()
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SemiSynchronous => "semi-sync",
            Self::Asynchronous => "async",
        }
    }

    /// Arguments of a server in this role. A replica must not wait for replicas of its own: it would apply nothing.
    pub fn settings(self, flavor: Flavor, role: Role) -> Vec<&'static str> {
        let id = match role {
            Role::Primary => "--server-id=1",
            Role::Replica => "--server-id=2",
        };
        // A MySQL logs what it replicates by default.
        let base: &[&str] = match flavor {
            Flavor::Mariadb => &[id, "--log-slave-updates=ON"],
            Flavor::Mysql => &[id],
        };
        // As long as no replica answers, nothing is committed: a fallback would lose answers.
        let semi: &[&str] = match (flavor, self, role) {
            (_, Self::Asynchronous, _) => &[],
            (Flavor::Mariadb, Self::SemiSynchronous, Role::Primary) => &[
                "--rpl-semi-sync-master-enabled=ON",
                "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
                "--rpl-semi-sync-master-timeout=86400000",
            ],
            (Flavor::Mariadb, Self::SemiSynchronous, Role::Replica) => {
                &["--rpl-semi-sync-slave-enabled=ON"]
            }
            (Flavor::Mysql, Self::SemiSynchronous, Role::Primary) => &[
                "--plugin-load-add=semisync_source.so",
                "--loose-rpl-semi-sync-source-enabled=ON",
                "--loose-rpl-semi-sync-source-timeout=86400000",
            ],
            (Flavor::Mysql, Self::SemiSynchronous, Role::Replica) => &[
                "--plugin-load-add=semisync_replica.so",
                "--loose-rpl-semi-sync-replica-enabled=ON",
            ],
        };
        [base, semi].concat()
    }
}

/// What each kind of server calls it.
#[derive(Debug)]
pub struct ReplicationWords {
    /// Query for all transactions that a server has executed.
    pub executed: &'static str,
    /// Empties the binlog, and begins the numbers of transactions anew.
    pub begin_anew: &'static str,
    /// Makes a stopped replica, whose own numbers have begun anew, forget what it has received.
    pub forget_received: &'static str,
    /// Begins to receive and apply.
    pub start: &'static str,
    /// Ends both.
    pub stop: &'static str,
    stop_receiving: &'static str,
    /// Forgets the primary.
    forget_primary: &'static str,
    /// Function that waits for transactions; 0 if they came.
    wait: &'static str,
    status: &'static str,
    /// Field of the status that has the received transactions.
    received: &'static str,
    /// Fields that are `Yes` while a replica receives, and while it applies.
    runs: [&'static str; 2],
}

/// Fields of either server's status that say why a replica does not receive or apply.
const WHY_NOT: [&str; 2] = ["Last_IO_Error", "Last_SQL_Error"];

static MARIADB: ReplicationWords = ReplicationWords {
    executed: "select @@gtid_binlog_pos",
    begin_anew: "reset master",
    forget_received: "set global gtid_slave_pos = ''",
    start: "start slave",
    stop: "stop slave",
    stop_receiving: "stop slave io_thread",
    forget_primary: "reset slave all",
    wait: "master_gtid_wait",
    status: "show slave status",
    received: "Gtid_IO_Pos",
    runs: ["Slave_IO_Running", "Slave_SQL_Running"],
};

static MYSQL: ReplicationWords = ReplicationWords {
    executed: "select replace(@@global.gtid_executed, '\\n', '')",
    begin_anew: "reset binary logs and gtids",
    forget_received: "reset replica",
    start: "start replica",
    stop: "stop replica",
    stop_receiving: "stop replica io_thread",
    forget_primary: "reset replica all",
    wait: "wait_for_executed_gtid_set",
    status: "show replica status",
    received: "Retrieved_Gtid_Set",
    runs: ["Replica_IO_Running", "Replica_SQL_Running"],
};

impl Flavor {
    /// What this kind of server calls replication.
    pub fn words(self) -> &'static ReplicationWords {
        match self {
            Self::Mariadb => &MARIADB,
            Self::Mysql => &MYSQL,
        }
    }
}

/// A database server that follows another one, or is about to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    pub(crate) flavor: Flavor,
    pub(crate) address: SocketAddr,
}

impl Follower {
    /// Makes a server without data of its own a replica, from the primary's first transaction on.
    pub(crate) fn follow(self, primary: SocketAddr) -> Result<()> {
        let words = self.flavor.words();
        let to = self.change_to(primary);
        // A server's own first transactions, of its first start, would be another history.
        self.run(&format!("{}; {to}; {}", words.begin_anew, words.start))
    }

    /// Goes on where it was, or begins to follow. Returns once it has everything.
    pub(crate) fn go_on(self, primary: SocketAddr) -> Result<()> {
        if self.status()?.is_empty() {
            self.follow(primary)?;
        } else {
            // The primary may have got another port meanwhile.
            let words = self.flavor.words();
            self.run(&format!("{}; {}; {}", words.stop, self.change_to(primary), words.start))?;
        }
        self.until_follows()?;
        self.until_has_all_of(primary)
    }

    /// Waits until it has executed all that the primary has.
    pub(crate) fn until_has_all_of(self, primary: SocketAddr) -> Result<()> {
        let executed = client::value(primary, self.flavor.words().executed)?;
        self.until_executed(&executed)
    }

    /// Whether it has a primary.
    pub(crate) fn has_primary(self) -> Result<bool> {
        Ok(!self.status()?.is_empty())
    }

    /// Receives no more, and waits until it has applied what it has received.
    pub(crate) fn apply_received(self) -> Result<()> {
        let words = self.flavor.words();
        self.run(words.stop_receiving)?;
        let status = self.status()?;
        self.until_executed(status.get(words.received).map_or("", String::as_str))
    }

    /// Ends replication, and forgets the primary. A server that has none stays as it is.
    pub(crate) fn become_independent(self) -> Result<()> {
        let words = self.flavor.words();
        if !self.has_primary()? {
            return Ok(());
        }
        self.run(&format!("{}; {}", words.stop, words.forget_primary))
    }

    fn until_executed(self, transactions: &str) -> Result<()> {
        let wait = self.flavor.words().wait;
        let query = format!("select {wait}('{transactions}', {REPLICA_SECONDS})");
        if client::value(self.address, &query)? == "0" {
            return Ok(());
        }
        Err(Error::Behind { seconds: REPLICA_SECONDS, why: why_not(&self.status()?) })
    }

    fn until_follows(self) -> Result<()> {
        let runs = self.flavor.words().runs;
        let deadline = Instant::now() + FOLLOWS_WITHIN;
        loop {
            let status = self.status()?;
            if runs.iter().all(|field| status.get(*field).is_some_and(|value| value == "Yes")) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Error::DoesNotFollow { why: why_not(&status) });
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    fn status(self) -> Result<BTreeMap<String, String>> {
        client::row(self.address, self.flavor.words().status)
    }

    /// The statement that names the primary. Private servers all have the same user.
    fn change_to(self, primary: SocketAddr) -> String {
        let port = primary.port();
        match self.flavor {
            Flavor::Mariadb => format!(
                "change master to master_host = '127.0.0.1', master_port = {port}, \
                 master_user = '{USER}', master_password = '{PASSWORD}', \
                 master_use_gtid = slave_pos, master_connect_retry = 1"
            ),
            Flavor::Mysql => format!(
                "change replication source to source_host = '127.0.0.1', source_port = {port}, \
                 source_user = '{USER}', source_password = '{PASSWORD}', \
                 source_auto_position = 1, get_source_public_key = 1, source_connect_retry = 1"
            ),
        }
    }

    fn run(self, statements: &str) -> Result<()> {
        client::run(self.address, statements)
    }
}

/// What the server says about a replica that stands still; a sentence if it says nothing.
fn why_not(status: &BTreeMap<String, String>) -> String {
    let said = WHY_NOT.iter().filter_map(|field| status.get(*field));
    let said: Vec<&str> = said.map(String::as_str).filter(|said| !said.is_empty()).collect();
    if said.is_empty() { "it reports no error".to_owned() } else { said.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_semi_synchronous_primary_waits_and_servers_have_different_ids() {
        for flavor in [Flavor::Mariadb, Flavor::Mysql] {
            let settings = |replication: Replication, role| replication.settings(flavor, role);
            let primary = settings(Replication::SemiSynchronous, Role::Primary);
            let waits = |settings: &[&str]| settings.iter().any(|one| one.contains("timeout"));
            assert!(waits(&primary), "{primary:?}");
            assert!(!waits(&settings(Replication::SemiSynchronous, Role::Replica)));
            assert!(!waits(&settings(Replication::Asynchronous, Role::Primary)));
            assert_ne!(primary[0], settings(Replication::SemiSynchronous, Role::Replica)[0]);
        }
    }

    #[test]
    fn kinds_of_replication_are_read_as_they_are_written() {
        for kind in [Replication::SemiSynchronous, Replication::Asynchronous] {
            assert_eq!(Replication::named(kind.name()), Some(kind));
        }
        assert_eq!(Replication::named("none"), None);
    }
}
