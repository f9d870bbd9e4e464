//! A primary of MySQL with a replica, behind one address that a promotion moves.

pub mod campaign;
pub mod rush;

use std::net::SocketAddr;

use devstack::{Flavor, OwnDatabase, Platform, PlatformOptions, TestServers, if_installed};
use mysql_store::migrate;
use testkit::{Proxy, server_of, sql};

use crate::World;

/// Longest time in seconds for a replica to catch up.
const REPLICA_SECONDS: u32 = 60;

/// What each kind of server calls it.
struct Words {
    /// Query for all transactions that a server has executed.
    executed: &'static str,
    /// Function that waits for transactions.
    wait: &'static str,
    stop_receiving: &'static str,
    status: &'static str,
    /// Field of the status that has the received transactions.
    received: &'static str,
    stop: &'static str,
}

const MARIADB: Words = Words {
    executed: "select @@gtid_binlog_pos",
    wait: "master_gtid_wait",
    stop_receiving: "stop slave io_thread",
    status: "show slave status",
    received: "Gtid_IO_Pos",
    stop: "stop slave; reset slave all",
};

const MYSQL: Words = Words {
    executed: "select replace(@@global.gtid_executed, '\\n', '')",
    wait: "wait_for_executed_gtid_set",
    stop_receiving: "stop replica io_thread",
    status: "show replica status",
    received: "Retrieved_Gtid_Set",
    stop: "stop replica; reset replica all",
};

/// When the primary commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// A promotion may lose the newest commits.
    Asynchronous,
    /// Behind the replica's acknowledgement, and before the commit is visible; without a replica, not at all.
    SemiSynchronous,
}

/// The two servers. Processes reach the primary by an address of its own, which a promotion moves.
pub struct DatabasePair {
    pub primary: OwnDatabase,
    pub replica: OwnDatabase,
    flavor: Flavor,
    /// Where processes connect.
    front: Proxy,
    /// Where the replica reads the primary's binlog.
    link: Proxy,
}

impl DatabasePair {
    /// Starts both. `None`, after reporting it, if MySQL is not installed.
    pub async fn start(name: &str, flavor: Flavor, replication: Replication) -> Option<Self> {
        let start = async |role: Role| {
            let name = format!("{name}-{role:?}-{}", flavor.name()).to_lowercase();
            let settings = settings(flavor, replication, role);
            if_installed(OwnDatabase::start(&name, flavor, &settings).await, &name)
        };
        let primary = start(Role::Primary).await?;
        let replica = start(Role::Replica).await?;
        let front = Proxy::before(&primary.url()).await;
        let link = Proxy::before(&primary.url()).await;
        let pair = Self { primary, replica, flavor, front, link };
        pair.replicate();
        Some(pair)
    }

    /// Starts a whole platform on the address of the primary, and the shared other servers. `change` modifies its
    /// processes one by one.
    pub async fn world(&self, name: &str, change: impl FnOnce(&mut Platform)) -> World {
        self.world_with(name, |options| options, change).await
    }

    /// Like [`DatabasePair::world`], with options modified by `options`.
    pub async fn world_with(
        &self,
        name: &str,
        options: impl FnOnce(PlatformOptions) -> PlatformOptions,
        change: impl FnOnce(&mut Platform),
    ) -> World {
        let mut scope = TestServers::shared().scope(name);
        let primary = scope.endpoints.clone();
        let on_primary = devstack::Endpoints { database_url: self.primary.url(), ..primary };
        let url = on_primary.url_of_database(&scope.database);
        scope.endpoints.database_url = self.front.instead_of(&url);
        migrate::run(&scope.endpoints.database_url).await.unwrap();
        World::start_as_with(scope, options, change).await
    }

    /// Returns the URL of a world's database on the replica.
    pub fn on_replica(&self, world_url: &str) -> String {
        let from = server_of(world_url).to_string();
        world_url.replacen(&from, &server_of(&self.replica.url()).to_string(), 1)
    }

    /// Ends replication; the primary goes on alone.
    pub fn cut_replication(&self) {
        self.link.close();
    }

    /// Ends what reaches the primary under its address, as a network that isolates it does.
    pub fn isolate_primary(&self) {
        self.cut_replication();
        self.front.cut();
    }

    /// Waits until the replica has all that the primary has.
    pub fn until_replicated(&self) {
        let words = self.words();
        let position = sql(&self.primary.url(), words.executed);
        let wait = format!("select {}('{}', {REPLICA_SECONDS})", words.wait, position.trim());
        assert_eq!(sql(&self.replica.url(), &wait).trim(), "0", "the replica has everything");
    }

    /// Kills the primary, and makes the replica the primary under the same address.
    pub fn fail_over(&mut self) {
        self.primary.server.kill().unwrap();
        self.promote();
        self.front.lead_to(self.replica_address());
        self.front.cut();
    }

    fn replica_address(&self) -> SocketAddr {
        server_of(&self.replica.url())
    }

    /// Makes the replica independent, once it has applied what it has received.
    pub fn promote(&self) {
        let url = self.replica.url();
        let words = self.words();
        sql(&url, words.stop_receiving);
        let status = sql(&url, &format!("{}\\G", words.status));
        let field = |line: &str| {
            Some(line.trim().strip_prefix(words.received)?.strip_prefix(": ")?.to_owned())
        };
        let received = status.lines().find_map(field).unwrap_or_default();
        sql(&url, &format!("select {}('{received}', {REPLICA_SECONDS})", words.wait));
        sql(&url, words.stop);
    }

    fn words(&self) -> &'static Words {
        match self.flavor {
            Flavor::Mariadb => &MARIADB,
            Flavor::Mysql => &MYSQL,
        }
    }

    fn replicate(&self) {
        let port = server_of(&self.link.instead_of(&self.primary.url())).port();
        // The reset removes a server's own first-start transactions, which would be another history.
        let statements = match self.flavor {
            Flavor::Mariadb => format!(
                "reset master; change master to master_host = '127.0.0.1', master_port = {port}, \
                 master_user = 'coupon', master_password = 'coupon', master_use_gtid = slave_pos, \
                 master_connect_retry = 1; start slave"
            ),
            Flavor::Mysql => format!(
                "reset binary logs and gtids; change replication source to \
                 source_host = '127.0.0.1', source_port = {port}, source_user = 'coupon', \
                 source_password = 'coupon', source_auto_position = 1, get_source_public_key = 1, \
                 source_connect_retry = 1; start replica"
            ),
        };
        sql(&self.replica.url(), &statements);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Primary,
    Replica,
}

/// Settings of a server. A replica must not wait for replicas of its own: it would apply nothing.
fn settings(flavor: Flavor, replication: Replication, role: Role) -> Vec<&'static str> {
    let id = match role {
        Role::Primary => "--server-id=1",
        Role::Replica => "--server-id=2",
    };
    let base: &[&str] = match flavor {
        Flavor::Mariadb => &[id, "--log-slave-updates=ON"],
        Flavor::Mysql => &[id],
    };
    // As long as no replica answers, nothing is committed: a fallback would lose answers.
    let semi: &[&str] = match (flavor, replication, role) {
        (_, Replication::Asynchronous, _) => &[],
        (Flavor::Mariadb, Replication::SemiSynchronous, Role::Primary) => &[
            "--rpl-semi-sync-master-enabled=ON",
            "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
            "--rpl-semi-sync-master-timeout=86400000",
        ],
        (Flavor::Mariadb, Replication::SemiSynchronous, Role::Replica) => {
            &["--rpl-semi-sync-slave-enabled=ON"]
        }
        (Flavor::Mysql, Replication::SemiSynchronous, Role::Primary) => &[
            "--plugin-load-add=semisync_source.so",
            "--loose-rpl-semi-sync-source-enabled=ON",
            "--loose-rpl-semi-sync-source-timeout=86400000",
        ],
        (Flavor::Mysql, Replication::SemiSynchronous, Role::Replica) => {
            &["--plugin-load-add=semisync_replica.so", "--loose-rpl-semi-sync-replica-enabled=ON"]
        }
    };
    [base, semi].concat()
}
