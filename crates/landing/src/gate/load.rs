//! Copies what MySQL knows about the users of a template into a loading gate, page by page.

use std::time::{Duration, Instant};

use coupon::{Epoch, TemplateId, UserId};
use mysql_store::{MySqlConnection, connect, lease, look_up, stock};
use redis_gate::{Gate, GateError, LOAD_USERS_MAX};
use runtime::Backoff;

use crate::gate::rebuild::{LEASE, RebuildError, Site};

/// Longest wait of a load for memory of the older epoch that Redis is still freeing, and the pauses between attempts.
/// Freeing a million entries takes Redis about a second.
const MEMORY_MAX: Duration = Duration::from_secs(5);
const MEMORY_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Loads the taken numbers. Returns whether the gate was loading this epoch until the end.
pub(super) async fn numbers(
    connection: &mut MySqlConnection,
    site: &Site<'_>,
    epoch: Epoch,
) -> Result<bool, RebuildError> {
    let (gate, template) = (site.gate, site.template);
    let first = stock::taken_numbers_after(connection, template, UserId(-1));
    let mut users = connect::within(first).await?;
    while let Some((last, _)) = users.last() {
        // Reads the next page while this one loads; both take about as long.
        let (loading, next) = tokio::join!(
            load_page(gate, template, epoch, &users),
            connect::within(stock::taken_numbers_after(connection, template, *last)),
        );
        if !loading? {
            return Ok(false);
        }
        users = next?;
        connect::within(lease::take(connection, &site.lease, site.holder, LEASE)).await?;
    }
    Ok(true)
}

/// Loads the users whose keys were rejected: the gate would admit such a key again. Comes after [`numbers`], since a
/// user who holds numbers is looked up in any case. Returns whether the gate was loading this epoch until the end.
pub(super) async fn rejected(
    connection: &mut MySqlConnection,
    site: &Site<'_>,
    epoch: Epoch,
) -> Result<bool, RebuildError> {
    let (gate, template) = (site.gate, site.template);
    let mut after = UserId(-1);
    loop {
        let page = look_up::rejected_users_after(connection, template, after);
        let users = connect::within(page).await?;
        let Some(last) = users.last() else { return Ok(true) };
        after = *last;
        if !load_rejected_page(gate, template, epoch, &users).await? {
            return Ok(false);
        }
        connect::within(lease::take(connection, &site.lease, site.holder, LEASE)).await?;
    }
}

async fn load_page(
    gate: &Gate,
    template: TemplateId,
    epoch: Epoch,
    users: &[(UserId, Vec<u8>)],
) -> Result<bool, GateError> {
    let mut patience = Patience::new();
    for chunk in users.chunks(LOAD_USERS_MAX) {
        loop {
            match gate.load(template, epoch, chunk).await {
                Ok(true) => break,
                Ok(false) => return Ok(false),
                Err(error) => patience.bear(error).await?,
            }
        }
    }
    Ok(true)
}

async fn load_rejected_page(
    gate: &Gate,
    template: TemplateId,
    epoch: Epoch,
    users: &[UserId],
) -> Result<bool, GateError> {
    let mut patience = Patience::new();
    for chunk in users.chunks(LOAD_USERS_MAX) {
        loop {
            match gate.load_rejected(template, epoch, chunk).await {
                Ok(true) => break,
                Ok(false) => return Ok(false),
                Err(error) => patience.bear(error).await?,
            }
        }
    }
    Ok(true)
}

/// The wait of one page for memory.
struct Patience {
    started: Instant,
    backoff: Backoff,
}

impl Patience {
    fn new() -> Self {
        let backoff = Backoff::new(MEMORY_PAUSE.0, MEMORY_PAUSE.1);
        Self { started: Instant::now(), backoff }
    }

    /// Waits a while if `error` is only that Redis has no memory yet.
    async fn bear(&mut self, error: GateError) -> Result<(), GateError> {
        if !error.is_out_of_memory() || self.started.elapsed() >= MEMORY_MAX {
            return Err(error);
        }
        self.backoff.wait().await;
        Ok(())
    }
}
