//! A database whose commits take long, by MariaDB's own setting: a commit waits for others that never come.

use std::time::Duration;

use anyhow::Result;
use mysql_store::{connect, verify};

use crate::stage::BareServers;

/// A number of transactions that never wait together, so that each waits the whole time.
const NEVER: u32 = 100_000;

/// Makes every commit take this much longer, until it is called with zero.
///
/// # Errors
/// The database refuses the setting.
pub async fn set_commit_delay(servers: &BareServers, delay: Duration) -> Result<()> {
    let company = if delay.is_zero() { 0 } else { NEVER };
    let mut connection = connect::single(&servers.stack.endpoints().database_url).await?;
    for (name, value) in [
        ("binlog_commit_wait_usec", delay.as_micros()),
        ("binlog_commit_wait_count", u128::from(company)),
    ] {
        verify::execute(&mut connection, &format!("set global {name} = {value}")).await?;
    }
    Ok(())
}
