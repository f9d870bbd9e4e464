//! What a server leaves out of its binlog.

use sqlx::{Executor, MySqlConnection, Row};

use super::{Flavor, variables};
use crate::StoreError;

/// Changes that the server leaves out of its binlog.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BinlogGaps {
    /// `binlog_do_db`: if any, only their changes are logged.
    pub only: Vec<String>,
    /// `binlog_ignore_db`.
    pub without: Vec<String>,
    /// Whether it is a replica that does not log what it replicates.
    pub is_silent_replica: bool,
}

/// Reads what the server leaves out of its binlog. Requires REPLICATION CLIENT (MariaDB: BINLOG MONITOR).
pub async fn binlog_gaps(
    connection: &mut MySqlConnection,
    flavor: Flavor,
) -> Result<BinlogGaps, StoreError> {
    let failed = || StoreError::query("read the binlog's filters");
    // MariaDB 10.11 has no variables of the filters.
    let status = match flavor {
        Flavor::MariaDb => "show master status",
        Flavor::MySql => "show binary log status",
    };
    let row = connection.fetch_one(status).await.map_err(failed())?;
    let names = |column: usize| {
        let text: String = row.try_get(column).map_err(failed())?;
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        Ok::<_, StoreError>(names.map(str::to_owned).collect())
    };
    let only = names(2)?;
    let without = names(3)?;
    let variables = variables(connection).await?;
    let logs_replicated = ["log_replica_updates", "log_slave_updates"]
        .iter()
        .any(|name| variables.get(*name).is_some_and(|value| value == "ON"));
    let is_silent_replica = !logs_replicated && is_replica(connection, flavor).await?;
    Ok(BinlogGaps { only, without, is_silent_replica })
}

/// Returns whether the server replicates another one. Without the privilege to see that, a MariaDB counts as one while
/// replication runs.
async fn is_replica(connection: &mut MySqlConnection, flavor: Flavor) -> Result<bool, StoreError> {
    let failed = || StoreError::query("read whether the server is a replica");
    let status = match flavor {
        Flavor::MariaDb => "show all slaves status",
        Flavor::MySql => "show replica status",
    };
    match connection.fetch_all(status).await {
        Ok(sources) => Ok(!sources.is_empty()),
        Err(sqlx::Error::Database(_)) if flavor == Flavor::MariaDb => {
            let running: (String, String) =
                sqlx::query_as("show global status like 'slaves_running'")
                    .fetch_one(connection)
                    .await
                    .map_err(failed())?;
            Ok(running.1 != "0")
        }
        Err(error) => Err(failed()(error)),
    }
}
