//! Copies what MySQL knows about the users of a template into a loading gate, page by page.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use coupon::{Epoch, Lapses, Template, TemplateId, UserId};
use mysql_store::{
    MySqlConnection, connect, lease, look_up, returns,
    stock::{self, Movement, MovementPages},
};
use redis_gate::{Gate, GateError, LOAD_USERS_MAX};
use runtime::Backoff;

use crate::gate::rebuild::{LEASE, RebuildContext, RebuildError};

/// Longest wait of a load for memory of the older epoch that Redis is still freeing, and the pauses between attempts.
/// Freeing a million entries takes Redis about a second.
const MEMORY_MAX: Duration = Duration::from_secs(5);
const MEMORY_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Loads the taken numbers. Returns whether the gate was loading this epoch until the end.
pub(super) async fn numbers(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
) -> Result<bool, RebuildError> {
    let (gate, template) = (context.gate, context.template);
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
        connect::within(lease::take(connection, &context.lease, context.holder, LEASE)).await?;
    }
    Ok(true)
}

/// Loads the users whose keys were rejected: the gate would admit such a key again. Comes after [`numbers`], since a
/// user who holds numbers is looked up in any case. Returns whether the gate was loading this epoch until the end.
pub(super) async fn rejected(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
) -> Result<bool, RebuildError> {
    let (gate, template) = (context.gate, context.template);
    let mut after = UserId(-1);
    loop {
        let page = look_up::rejected_users_after(connection, template, after);
        let users = connect::within(page).await?;
        let Some(last) = users.last() else { return Ok(true) };
        after = *last;
        if !load_rejected_page(gate, template, epoch, &users).await? {
            return Ok(false);
        }
        connect::within(lease::take(connection, &context.lease, context.holder, LEASE)).await?;
    }
}

/// Loads the users whose coupons of the template all came back: they hold no numbers, but their keys have answers. Comes
/// after [`numbers`]. Returns whether the gate was loading this epoch until the end.
pub(super) async fn returned_users(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
) -> Result<bool, RebuildError> {
    let (gate, template) = (context.gate, context.template);
    let mut after = UserId(-1);
    loop {
        let page = stock::returned_users_after(connection, template, after);
        let users = connect::within(page).await?;
        let Some(last) = users.last() else { return Ok(true) };
        after = *last;
        if !load_rejected_page(gate, template, epoch, &users).await? {
            return Ok(false);
        }
        connect::within(lease::take(connection, &context.lease, context.holder, LEASE)).await?;
    }
}

/// Loads how often users let holds lapse, and returns the last movement of each count that contains more than `first`.
/// `None`: the gate is not loading this epoch any more.
pub(super) async fn lapses(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    first: i64,
) -> Result<Option<HashMap<UserId, i64>>, RebuildError> {
    let mut counted = HashMap::new();
    let mut after = UserId(-1);
    loop {
        let page = returns::lapses_after(connection, context.template, after);
        let users = connect::within(page).await?;
        let Some(last) = users.last() else { return Ok(Some(counted)) };
        after = last.user;
        counted.extend(users.iter().filter(|one| one.seq > first).map(|one| (one.user, one.seq)));
        let counts: Vec<(UserId, i64)> = users.iter().map(|one| (one.user, one.count)).collect();
        for chunk in counts.chunks(LOAD_USERS_MAX) {
            let mut patience = Patience::new();
            loop {
                match context.gate.load_lapses(context.template, epoch, chunk).await {
                    Ok(true) => break,
                    Ok(false) => return Ok(None),
                    Err(error) => patience.bear(error).await?,
                }
            }
        }
        connect::within(lease::take(connection, &context.lease, context.holder, LEASE)).await?;
    }
}

/// Applies to the loading gate what movements of this range, exclusive and inclusive, gave back. `counted` says which lapses
/// the loaded counts already contain. Returns whether the gate was loading this epoch until the end.
pub(super) async fn returned_since(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    (template, (first, last)): (&Template, (i64, i64)),
    counted: &HashMap<UserId, i64>,
) -> Result<bool, RebuildError> {
    let counts = template.hold.lapses_allowed > 0;
    let mut movements = Vec::new();
    let mut pages = MovementPages::after(template.id, first);
    while movements.last().map_or(first, |movement: &Movement| movement.seq) < last {
        let Some(page) = connect::within(pages.next(connection)).await? else { break };
        movements.extend(page);
    }
    movements.retain(|movement| movement.seq <= last);
    for mut movement in movements {
        for returned in &mut movement.returned {
            let contains = |seq: &i64| *seq >= movement.seq;
            if !counts || counted.get(&returned.user).is_some_and(contains) {
                returned.lapses = Lapses::Add(0);
            }
        }
        if movement.returned.is_empty() {
            continue;
        }
        // Not repeated after an error: lapses that were counted would be counted again. The whole rebuild is.
        if !context.gate.load_returned(template.id, epoch, &movement.returned).await? {
            return Ok(false);
        }
    }
    Ok(true)
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
