//! [`OwnCluster`]: a Redis Cluster for a single test.

use std::fs;
use std::path::PathBuf;

use tokio::process::Command;

use crate::tier::full_only;
use crate::{Error, OwnRedis, Result, SlotMove, paths, process::ports, servers::redis};

/// The fewest masters that a cluster can have.
const MASTERS: usize = 3;

/// Lines of redis-cli's output that an error quotes.
const TAIL: usize = 10;

/// Time until the replica of an unresponsive master replaces it. Short, as tests wait for it.
const NODE_TIMEOUT_MS: &str = "1000";

/// The first slot of each initial master, as `redis-cli` deals them.
const FIRST_SLOTS: [u16; MASTERS] = [0, 5_461, 10_923];

/// What a gate needs of every node: a node keeps all its keys, and serves its slots while another master is away.
const FIT_FOR_A_GATE: &[&str] =
    &["--maxmemory-policy", "noeviction", "--cluster-require-full-coverage", "no"];

/// Three masters with a replica each. Dropping the value removes them and their data.
#[derive(Debug)]
pub struct OwnCluster {
    /// The initial masters, then their replicas.
    pub nodes: Vec<OwnRedis>,
    /// Arguments of every server.
    settings: Vec<String>,
    dir: PathBuf,
}

impl OwnCluster {
    /// Starts the cluster, in folders whose names begin with `name`. No other running test may use that name.
    /// `settings` are arguments of every server and override ours.
    ///
    /// # Errors
    /// As [`Process::start`](crate::Process::start); or `redis-cli` cannot create the cluster.
    pub async fn start(name: &str, settings: &[&str]) -> Result<Self> {
        full_only("starts a Redis Cluster");
        let dir = paths::own_folder(name)?;
        let mut nodes = Vec::new();
        for number in 0..2 * MASTERS {
            nodes.push(Self::node(&format!("{name}-{number}"), settings).await?);
        }
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        let cluster = Self { nodes, settings, dir };
        let addresses = cluster.nodes.iter().map(|node| node.server.address().to_string());
        let addresses: Vec<_> = addresses.collect();
        let mut create = vec!["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"];
        create.extend(addresses.iter().map(String::as_str));
        cluster.redis_cli(&create).await?;
        cluster.until_whole().await?;
        Ok(cluster)
    }

    /// Starts a cluster that is fit for a gate. As [`OwnCluster::start`].
    ///
    /// # Errors
    /// As [`OwnCluster::start`].
    pub async fn start_gate(name: &str) -> Result<Self> {
        Self::start(name, FIT_FOR_A_GATE).await
    }

    /// The index of the initial master that has the slot, until slots move or masters die.
    pub fn first_master_of(&self, slot: u16) -> usize {
        FIRST_SLOTS.partition_point(|first| *first <= slot) - 1
    }

    /// Waits until every node reports that all slots have a master, and every replica has its data.
    ///
    /// # Errors
    /// This takes longer than a minute.
    pub async fn until_whole(&self) -> Result<()> {
        let is_joined = |said: &str| {
            let copied = said.contains("role:master") || said.contains("master_link_status:up");
            copied && said.contains("cluster_state:ok")
        };
        for node in &self.nodes {
            redis::until(&node.server, is_joined).await?;
        }
        Ok(())
    }

    /// Adds a master without slots; its folder is called `name` and a number.
    ///
    /// # Errors
    /// As [`OwnCluster::start`].
    pub async fn join_another(&mut self, name: &str) -> Result<()> {
        let settings: Vec<&str> = self.settings.iter().map(String::as_str).collect();
        let node = Self::node(&format!("{name}-{}", self.nodes.len()), &settings).await?;
        let [new, member] = [&node, &self.nodes[0]].map(|node| node.server.address().to_string());
        self.redis_cli(&["--cluster", "add-node", &new, &member]).await?;
        self.nodes.push(node);
        let all = format!("cluster_known_nodes:{}\r", self.nodes.len());
        for node in &self.nodes {
            let knows_all = |said: &str| said.contains(&all) && said.contains("cluster_state:ok");
            redis::until(&node.server, knows_all).await?;
        }
        Ok(())
    }

    /// Starts a server that can join a cluster but has not joined one yet.
    async fn node(name: &str, settings: &[&str]) -> Result<OwnRedis> {
        // The default, the server's port + 10000, may exceed the highest port.
        let port = ports::free()?.to_string();
        let ours = [
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            NODE_TIMEOUT_MS,
            "--cluster-port",
            &port,
            "--repl-diskless-sync-delay",
            "0",
        ];
        OwnRedis::view(name, &[&ours, settings].concat()).await
    }

    /// The URL of the cluster. One node, the last, is enough to find the others.
    pub fn url(&self) -> String {
        let last = self.nodes.last().map(|node| node.server.address().to_string());
        format!("redis+cluster://{}", last.unwrap_or_default())
    }

    /// Moves the first `slots` slots, keys included, from one master to another. `from` and `to` are indexes
    /// into `nodes`.
    ///
    /// # Errors
    /// One of them is not a master, or does not run.
    pub async fn reshard(&self, from: usize, to: usize, slots: u16) -> Result<()> {
        let [from, to] = [from, to].map(|place| self.nodes[place].server.address());
        let member = from.to_string();
        let slots = slots.to_string();
        let from = redis::node_id(from).await?;
        let to = redis::node_id(to).await?;
        let masters = ["--cluster-from", &from, "--cluster-to", &to];
        let reshard = ["--cluster", "reshard", &member, "--cluster-slots", &slots, "--cluster-yes"];
        self.redis_cli(&[&reshard[..], &masters].concat()).await
    }

    /// Begins to move one slot, as an operator does by hand: keys follow one by one.
    ///
    /// # Errors
    /// One of the nodes is not a master, or does not run.
    pub async fn begin_move(&self, slot: u16, from: usize, to: usize) -> Result<SlotMove> {
        let [from, to] = [from, to].map(|place| self.nodes[place].server.address());
        SlotMove::begin(slot, from, to).await
    }

    async fn redis_cli(&self, arguments: &[&str]) -> Result<()> {
        let name = "redis-cli --cluster".to_owned();
        let mut command = Command::new(paths::program("redis-cli")?);
        let output = command.args(arguments).output().await;
        let output = output.map_err(|source| Error::Spawn { name: name.clone(), source })?;
        let log = self.dir.join("redis-cli.log");
        fs::write(&log, &output.stdout).map_err(Error::file("write", &log))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stdout);
        let tail = said.lines().rev().take(TAIL).collect::<Vec<_>>();
        let tail = tail.into_iter().rev().collect::<Vec<_>>().join("\n");
        Err(Error::Failed { name, status: output.status, log, tail })
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        // A destructor cannot report errors; the next run overwrites leftovers.
        drop(fs::remove_dir_all(&self.dir));
    }
}
