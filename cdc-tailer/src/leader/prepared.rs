//! Waits before a snapshot until the XA transactions that were prepared before its position have ended. While one is
//! prepared, the tables do not show its rows, and the stream after the position does not contain them either.

use std::{collections::BTreeSet, time::Duration};

use mysql_store::{MySqlConnection, StoreError, settings};
use runtime::Part;
use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::binlog::xid::Xid;

/// Longest wait. A client has abandoned an XA transaction that stays prepared for longer; it may stay for days.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// Wait if this user may not list prepared transactions. An active client ends its second phase sooner.
const UNSEEN_WAIT: Duration = Duration::from_secs(1);

/// Number of remaining transactions that the log names.
const SHOWN_MAX: usize = 10;

/// Interval between queries. Each makes the server walk its XA transactions.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Waits until all transactions that are prepared now have ended. Returns those that remain after [`WAIT_MAX`].
pub(crate) async fn until_ended(
    connection: &mut MySqlConnection,
    part: &Part,
) -> Result<BTreeSet<Xid>, StoreError> {
    let until = Instant::now() + WAIT_MAX;
    let Some(mut left) = prepared(connection).await? else {
        sleep(UNSEEN_WAIT).await;
        return Ok(BTreeSet::new());
    };
    while !left.is_empty() && Instant::now() < until {
        part.not_ready(format!(
            "{} XA transactions are prepared: waiting for their end",
            left.len()
        ));
        sleep(LOOK_EVERY).await;
        let now = prepared(connection).await?.unwrap_or_default();
        left.retain(|xid| now.contains(xid));
    }
    if !left.is_empty() {
        let xids: Vec<String> = left.iter().take(SHOWN_MAX).map(Xid::to_string).collect();
        warn!(
            transactions = left.len(),
            ?xids,
            "XA transactions were prepared before the tables are read, and do not end: when one of them is \
             committed, all tables are read again. End those that `xa recover` shows"
        );
    }
    Ok(left)
}

/// Returns the prepared transactions. One whose commit has begun stays listed until its rows are visible.
async fn prepared(connection: &mut MySqlConnection) -> Result<Option<BTreeSet<Xid>>, StoreError> {
    let listed = settings::prepared(connection).await?;
    let xid = |(format, global, parts): (i64, i64, Vec<u8>)| Xid::of(format, global, &parts);
    Ok(listed.map(|listed| listed.into_iter().filter_map(xid).collect()))
}
