//! Whether semi-synchronous replication keeps what it is set up for.

use std::{collections::HashMap, time::Duration};

use sqlx::MySqlConnection;

use crate::StoreError;

/// Shortest sensible timeout: a person notices and acts within it.
const TIMEOUT_MIN: Duration = Duration::from_hours(24);

/// Returns what would let a failover lose answered claims although this server waits for a replica: sentences with the
/// remedy. Empty if it waits for none.
pub async fn semi_sync_gaps(connection: &mut MySqlConnection) -> Result<Vec<String>, StoreError> {
    let variables: Vec<(String, String)> =
        sqlx::query_as("show global variables like 'rpl\\_semi\\_sync\\_%'")
            .fetch_all(connection)
            .await
            .map_err(StoreError::query("read the settings of semi-synchronous replication"))?;
    Ok(gaps(&variables.into_iter().collect()))
}

/// MariaDB calls the server that waits `master`, MySQL calls it `source`.
fn gaps(variables: &HashMap<String, String>) -> Vec<String> {
    let mut gaps = Vec::new();
    for role in ["master", "source"] {
        let name = |what: &str| format!("rpl_semi_sync_{role}_{what}");
        let value = |what: &str| variables.get(&name(what)).map_or("", String::as_str);
        if !matches!(value("enabled"), "ON" | "1") {
            continue;
        }
        if value("wait_point") != "AFTER_SYNC" {
            gaps.push(format!(
                "{} is {}: users see commits that a failover may lose; set it to AFTER_SYNC",
                name("wait_point"),
                value("wait_point")
            ));
        }
        let timeout = value("timeout").parse().map_or(Duration::ZERO, Duration::from_millis);
        if timeout < TIMEOUT_MIN {
            gaps.push(format!(
                "{} is {} ms: after that the server commits without its replica, and a failover may lose answered claims; \
                 set it to {}",
                name("timeout"),
                value("timeout"),
                TIMEOUT_MIN.as_millis()
            ));
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(role: &str, enabled: &str, wait_point: &str, timeout: &str) -> Vec<String> {
        let set = [("enabled", enabled), ("wait_point", wait_point), ("timeout", timeout)];
        let set =
            set.map(|(name, value)| (format!("rpl_semi_sync_{role}_{name}"), value.to_owned()));
        gaps(&set.into_iter().collect())
    }

    #[test]
    fn a_server_that_waits_for_its_replica_must_wait_before_commits_are_visible_and_for_long() {
        for role in ["master", "source"] {
            assert!(of(role, "ON", "AFTER_SYNC", "86400000").is_empty());
            assert!(of(role, "OFF", "AFTER_COMMIT", "10000").is_empty(), "it waits for none");
            let gaps = of(role, "ON", "AFTER_COMMIT", "10000");
            assert!(gaps[0].contains("wait_point is AFTER_COMMIT"), "{gaps:?}");
            assert!(gaps[1].contains("timeout is 10000 ms"), "{gaps:?}");
        }
        assert!(gaps(&HashMap::new()).is_empty());
    }
}
