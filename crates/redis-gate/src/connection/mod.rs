//! The gate's Redis: one server, or the masters of a cluster, each with a connection that knows the run of its server.
//!
//! A Redis that restarts from an old file has lost admissions without an error. Therefore each new connection reads the
//! run id and the replication id before its first command. Every script compares them with the gate's, and a gate of
//! another run counts as not loaded.
//!
//! A server may also get another replication id while it runs, for example when its first replica joins. Older
//! connections would then disagree with newer ones for ever, and their processes would rebuild each other's gates. So a
//! connection reads the ids again every second.
//!
//! All keys of a gate are in one slot of a cluster, so every script runs on the master of its template. Each master has
//! a run of its own, and nothing waits for another master: one that dies costs the templates of its slots only. While a
//! slot moves, its masters refuse calls whose keys are not all there, and a refusal is never followed to the other
//! master (`ASK`): the gate is closed. After the move it is of another run, and a new epoch begins.

mod run;
mod server;
mod slots;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::join_all;
use redis_address::{Node, RedisAddress};
use tokio::sync::OnceCell;

pub use self::run::Run;
pub(crate) use self::server::{Live, Server};

use self::slots::Slots;
use crate::GateError;

/// A server of the gate's Redis: all gates on it are reached, or none is.
pub type GateServer = Node;

/// The gate's Redis; clones share one multiplexed connection to each of its servers.
#[derive(Clone)]
pub struct GateRedis {
    slots: Arc<Slots>,
    servers: Arc<Mutex<HashMap<Node, Arc<Server>>>>,
}

/// Checks whether the gate's Redis answers, for the health of a process that can start without it.
pub struct GateProbe {
    url: String,
    redis: OnceCell<GateRedis>,
}

impl GateProbe {
    /// Makes a probe. It connects at the first check.
    pub fn new(url: &str) -> Self {
        Self { url: url.to_owned(), redis: OnceCell::new() }
    }

    /// Checks once.
    ///
    /// # Errors
    /// The address is wrong, or no server answers and is fit.
    pub async fn check(&self) -> Result<(), GateError> {
        let redis = self.redis.get_or_try_init(|| GateRedis::connect(&self.url)).await?;
        redis.check().await
    }
}

impl GateRedis {
    /// Connects and checks that every server that answers is fit for a gate: a master that never evicts. A cluster needs
    /// one such server; the others may be away.
    ///
    /// # Errors
    /// The address is not a Redis address, no server answers, or one is not fit.
    pub async fn connect(url: &str) -> Result<Self, GateError> {
        let address = RedisAddress::parse(url)
            .map_err(|error| GateError::Unfit(format!("GATE_REDIS_URL {error}")))?;
        let slots = Arc::new(Slots::read(address).await?);
        let redis = Self { slots, servers: Arc::default() };
        let answers = redis.live_each().await;
        for (_, live) in &answers {
            if let Err(unfit @ GateError::Unfit(_)) = live {
                return Err(unfit.clone());
            }
        }
        any(answers.into_iter().map(|(_, live)| live))?;
        Ok(redis)
    }

    /// Checks that a server answers and takes writes. Without one no gate admits a claim; while some are away, the others'
    /// gates do.
    ///
    /// # Errors
    /// None does: why the first of them does not.
    pub async fn check(&self) -> Result<(), GateError> {
        let servers = self.live_each().await.into_iter();
        let asked = servers.map(async |(_, live)| live?.may_write().await);
        any(join_all(asked).await.into_iter())
    }

    /// Returns the server that has a key; `None` while no master of the cluster has its slot.
    pub(crate) fn node_of(&self, key: &str) -> Option<Node> {
        let node = self.slots.node_of(key);
        if node.is_none() {
            self.slots.doubt();
        }
        node
    }

    /// Returns the connection to the server that has a key; connects if there is none.
    pub(crate) async fn live(&self, key: &str) -> Result<Live, GateError> {
        let node = self.node_of(key).ok_or(GateError::Unreachable { source: None })?;
        self.server(&node).live().await
    }

    /// Asks every server at once for its connection.
    pub(crate) async fn live_each(&self) -> Vec<(Node, Result<Live, GateError>)> {
        let nodes = self.slots.nodes().into_iter();
        join_all(nodes.map(async |node| {
            let live = self.server(&node).live().await;
            (node, live)
        }))
        .await
    }

    pub(crate) fn server(&self, node: &Node) -> Arc<Server> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = servers.get(node) {
            return Arc::clone(server);
        }
        // A server that joins often takes the place of another.
        let nodes = self.slots.nodes();
        servers.retain(|known, _| nodes.contains(known));
        let server = Arc::new(Server::new(Arc::clone(&self.slots), node.clone()));
        servers.insert(node.clone(), Arc::clone(&server));
        server
    }

    /// Returns whether the server still has slots.
    pub(crate) fn has(&self, node: &Node) -> bool {
        self.slots.nodes().contains(node)
    }

    /// Returns the same Redis with connections of its own.
    pub(crate) fn apart(&self) -> Self {
        Self { slots: Arc::clone(&self.slots), servers: Arc::default() }
    }
}

/// Fails with the first error if all of them are errors.
pub(crate) fn any<T>(answers: impl Iterator<Item = Result<T, GateError>>) -> Result<(), GateError> {
    let mut first = None;
    for answer in answers {
        match answer {
            Ok(_) => return Ok(()),
            Err(error) => {
                first.get_or_insert(error);
            }
        }
    }
    Err(first.unwrap_or(GateError::Unreachable { source: None }))
}
