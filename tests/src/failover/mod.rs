//! A primary of MySQL with a replica, behind one address that a promotion moves.

pub mod campaign;
pub mod rush;

use devstack::{
    Flavor, OwnDatabase, Platform, PlatformOptions, Replication, Role, TestServers, if_installed,
};
use mysql_store::migrate;
use testkit::{Proxy, server_of};

use crate::World;

/// The two servers. Processes reach the primary by an address of its own, which a promotion moves.
pub struct DatabasePair {
    pub primary: OwnDatabase,
    pub replica: OwnDatabase,
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
            let settings = replication.settings(flavor, role);
            if_installed(OwnDatabase::start(&name, flavor, &settings).await, &name)
        };
        let primary = start(Role::Primary).await?;
        let replica = start(Role::Replica).await?;
        let front = Proxy::before(&primary.url()).await;
        let link = Proxy::before(&primary.url()).await;
        replica.follow(server_of(&link.instead_of(&primary.url()))).unwrap();
        Some(Self { primary, replica, front, link })
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
        self.replica.until_has_all_of(self.primary.server.address()).unwrap();
    }

    /// Kills the primary, and makes the replica the primary under the same address.
    pub fn fail_over(&mut self) {
        self.primary.server.kill().unwrap();
        self.replica.promote().unwrap();
        self.front.lead_to(self.replica.server.address());
        self.front.cut();
    }
}
