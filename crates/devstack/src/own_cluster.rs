//! [`OwnCluster`]: a Redis Cluster of one test alone.

use std::fs;
use std::path::PathBuf;

use tokio::process::Command;

use crate::{Error, OwnView, Result, paths, ports, redis};

/// Masters: as few as a cluster can have.
const MASTERS: usize = 3;

/// Lines of what redis-cli said last, for an error.
const TAIL: usize = 10;

/// After how long a silent master's replica takes its place: a test waits for it.
const NODE_TIMEOUT_MS: &str = "1000";

/// Three masters with a replica each. Dropped, it is gone with its data.
#[derive(Debug)]
pub struct OwnCluster {
    /// The masters at the start, and then the replicas.
    pub nodes: Vec<OwnView>,
    dir: PathBuf,
}

impl OwnCluster {
    /// Starts it; its folders begin with `name`, which no other running test may use. `settings` are
    /// arguments of every server that win over ours.
    ///
    /// # Errors
    /// As [`Process::start`](crate::Process::start); `redis-cli` cannot make it a cluster.
    pub async fn start(name: &str, settings: &[&str]) -> Result<Self> {
        let (dir, mut nodes) = (paths::own_folder(name)?, Vec::new());
        for number in 0..2 * MASTERS {
            nodes.push(Self::node(&format!("{name}-{number}"), settings).await?);
        }
        let cluster = Self { nodes, dir };
        let addresses = cluster.nodes.iter().map(|node| node.server.address().to_string());
        let addresses: Vec<_> = addresses.collect();
        let mut create = vec!["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"];
        create.extend(addresses.iter().map(String::as_str));
        cluster.redis_cli(&create).await?;
        cluster.until_whole().await?;
        Ok(cluster)
    }

    /// Waits until every slot has a master, by the word of every node, and every replica its data.
    ///
    /// # Errors
    /// It does not come to that in a minute.
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

    /// A master more, without slots; its folder bears `name` and its number.
    ///
    /// # Errors
    /// As [`OwnCluster::start`].
    pub async fn join_another(&mut self, name: &str) -> Result<()> {
        let node = Self::node(&format!("{name}-{}", self.nodes.len()), &[]).await?;
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

    /// A server that can belong to a cluster, and does not yet.
    async fn node(name: &str, settings: &[&str]) -> Result<OwnView> {
        // By default it would be ten thousand above the other, beyond the last port perhaps.
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
        OwnView::start(name, &[&ours, settings].concat()).await
    }

    /// The address of the cluster: one node stands for all, the last.
    pub fn url(&self) -> String {
        let last = self.nodes.last().map(|node| node.server.address().to_string());
        format!("redis+cluster://{}", last.unwrap_or_default())
    }

    /// Moves the first `slots` slots of a master to another one, keys included; both by their places.
    ///
    /// # Errors
    /// One is not a master, or is not there.
    pub async fn reshard(&self, from: usize, to: usize, slots: u16) -> Result<()> {
        let [from, to] = [from, to].map(|place| self.nodes[place].server.address());
        let (member, slots) = (from.to_string(), slots.to_string());
        let (from, to) = (redis::node_id(from).await?, redis::node_id(to).await?);
        let masters = ["--cluster-from", &from, "--cluster-to", &to];
        let reshard = ["--cluster", "reshard", &member, "--cluster-slots", &slots, "--cluster-yes"];
        self.redis_cli(&[&reshard[..], &masters].concat()).await
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
        // Nobody is left to tell; what stays is overwritten by the next run.
        drop(fs::remove_dir_all(&self.dir));
    }
}
