//! [`Run`]: which run of a Redis server this is, and whether the server is fit for a gate.

use std::{collections::HashMap, fmt};

use redis::aio::MultiplexedConnection;

use crate::GateError;

/// One run of a Redis server: its run id and its replication id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run(String);

impl Run {
    /// A run by its text, for parsers without a server.
    pub(crate) fn named(text: &str) -> Self {
        Self(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The settings that every master of a gate's cluster must have, and what it would do otherwise. They may have been
/// renamed or forbidden to us: then they are not checked.
const OF_A_CLUSTER: [(&str, &str, &str); 2] = [
    ("cluster-require-full-coverage", "no", "stops when another master is away"),
    ("cluster-allow-reads-when-down", "no", "answers while it is cut off from the others"),
];

/// Reads the run of a server, if it is fit for a gate. `is_cluster` says whether the address is that of a cluster.
pub(super) async fn read_run(
    connection: &mut MultiplexedConnection,
    is_cluster: bool,
) -> Result<Run, GateError> {
    let unreachable = |source| GateError::Unreachable { source: Some(source) };
    let info: String = redis::cmd("INFO").query_async(connection).await.map_err(unreachable)?;
    fit_run(&info, is_cluster)
}

/// Checks the settings of a master of a cluster.
pub(super) async fn check_settings(
    connection: &mut MultiplexedConnection,
) -> Result<(), GateError> {
    let mut ask = redis::cmd("CONFIG");
    ask.arg("GET").arg("cluster-*");
    match ask.query_async(connection).await {
        Ok(settings) => fit_settings(&settings),
        Err(source) if source.is_io_error() => Err(GateError::Unreachable { source: Some(source) }),
        Err(_) => Ok(()),
    }
}

fn fit_settings(settings: &HashMap<String, String>) -> Result<(), GateError> {
    for (name, right, wrong) in OF_A_CLUSTER {
        if settings.get(name).is_some_and(|value| value != right) {
            return Err(GateError::Unfit(format!(
                "a master of the gate's cluster {wrong}: run `config set {name} {right}` on every node"
            )));
        }
    }
    Ok(())
}

/// Reads the run from the text of INFO, if the server is fit for a gate.
fn fit_run(info: &str, is_cluster: bool) -> Result<Run, GateError> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
            .map_or("", str::trim)
    };
    if field("cluster_enabled") == "1" && !is_cluster {
        return Err(GateError::Unfit(
            "the gate's Redis is a node of a cluster: write GATE_REDIS_URL as \
             redis+cluster://host:port,host:port (rediss+cluster:// with TLS)"
                .to_owned(),
        ));
    }
    if field("role") != "master" {
        return Err(GateError::Unfit(format!(
            "the gate's Redis is a {}: point GATE_REDIS_URL at the master",
            field("role")
        )));
    }
    if field("maxmemory_policy") != "noeviction" {
        return Err(GateError::Unfit(format!(
            "the gate's Redis evicts keys ({}): run `config set maxmemory-policy noeviction`",
            field("maxmemory_policy")
        )));
    }
    let run_id = field("run_id");
    let replication_id = field("master_replid");
    if run_id.is_empty() || replication_id.is_empty() {
        return Err(GateError::Unfit("the gate's Redis does not report its run id".to_owned()));
    }
    Ok(Run(format!("{run_id}/{replication_id}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_a_master_that_never_evicts() {
        let info = "run_id:a\r\nrole:master\r\nmaster_replid:b\r\nmaxmemory_policy:noeviction\r\n\
                    cluster_enabled:0\r\n";
        assert_eq!(fit_run(info, false).unwrap(), Run("a/b".to_owned()));
        for (from, to) in [
            ("master\r", "slave\r"),
            ("noeviction", "allkeys-lru"),
            ("run_id", "x"),
            ("enabled:0", "enabled:1"),
        ] {
            let run = fit_run(&info.replace(from, to), false);
            assert!(matches!(run, Err(GateError::Unfit(_))), "{to}");
        }
        fit_run(&info.replace("enabled:0", "enabled:1"), true).unwrap();
    }

    #[test]
    fn a_master_of_a_cluster_serves_its_slots_alone_and_only_while_it_is_not_cut_off() {
        let settings = |coverage: &str, reads: &str| {
            HashMap::from([
                ("cluster-require-full-coverage".to_owned(), coverage.to_owned()),
                ("cluster-allow-reads-when-down".to_owned(), reads.to_owned()),
            ])
        };
        fit_settings(&settings("no", "no")).unwrap();
        fit_settings(&HashMap::new()).unwrap();
        for (coverage, reads) in [("yes", "no"), ("no", "yes")] {
            let unfit = fit_settings(&settings(coverage, reads)).unwrap_err().to_string();
            assert!(unfit.contains("config set cluster-"), "{unfit}");
        }
    }
}
