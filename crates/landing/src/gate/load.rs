//! Copies the users of a template from MySQL into a loading gate, page by page.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use coupon::{Epoch, Lapses, Template, UserId};
use mysql_store::{
    MySqlConnection, connect, lease, look_up, returns,
    stock::{Movement, MovementPages},
    taken_numbers::{NumberPage, NumberPages},
};
use redis_gate::{GateError, LOAD_USERS_MAX};
use runtime::Backoff;

use crate::gate::rebuild::{LEASE, RebuildContext, RebuildError};

/// Longest wait of a load for memory of the older epoch that Redis is still freeing, and the pauses between attempts.
/// Freeing a million entries takes Redis about a second.
const MEMORY_MAX: Duration = Duration::from_secs(5);
const MEMORY_PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// Loads the taken numbers, and users who have returned all their coupons: they hold no numbers, but their keys have
/// answers. Returns whether the gate was loading this epoch until the end.
pub(super) async fn numbers(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
) -> Result<bool, RebuildError> {
    let gate = context.gate;
    let template = context.template;
    let mut pages = NumberPages::of(template);
    let mut page = connect::within(pages.next(connection)).await?;
    while let Some(NumberPage { taken, returned }) = page {
        let load = async {
            Ok::<_, GateError>(
                in_chunks(&taken, |chunk| gate.load(template, epoch, chunk)).await?
                    && in_chunks(&returned, |chunk| gate.load_rejected(template, epoch, chunk))
                        .await?,
            )
        };
        // Reads the next page while this one loads; both take about as long.
        let (loading, next) = tokio::join!(load, connect::within(pages.next(connection)));
        if !loading? {
            return Ok(false);
        }
        page = next?;
        renew(connection, context).await?;
    }
    Ok(true)
}

/// Users without numbers whose keys have answers in MySQL: the gate would admit such a key again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// Those with a rejected claim. Who holds numbers is looked up in any case.
    Rejected,
    /// All of them: without a limit nobody holds numbers.
    All,
}

/// Loads these users, after [`numbers`]. Returns whether the gate was loading this epoch until the end.
pub(super) async fn answered(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    which: Answered,
) -> Result<bool, RebuildError> {
    let mut after = UserId(-1);
    loop {
        let template = context.template;
        let users = connect::within(async {
            match which {
                Answered::Rejected => {
                    look_up::rejected_users_after(connection, template, after).await
                }
                Answered::All => look_up::answered_users_after(connection, template, after).await,
            }
        });
        let users = users.await?;
        let Some(last) = users.last() else { return Ok(true) };
        after = *last;
        if !without_numbers(connection, context, epoch, &users).await? {
            return Ok(false);
        }
    }
}

/// Loads a page of users who hold no numbers, and renews the lease.
async fn without_numbers(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    users: &[UserId],
) -> Result<bool, RebuildError> {
    let RebuildContext { gate, template, .. } = *context;
    if !in_chunks(users, |chunk| gate.load_rejected(template, epoch, chunk)).await? {
        return Ok(false);
    }
    renew(connection, context).await?;
    Ok(true)
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
        let load = |chunk| context.gate.load_lapses(context.template, epoch, chunk);
        if !in_chunks(&counts, load).await? {
            return Ok(None);
        }
        renew(connection, context).await?;
    }
}

/// Applies to the loading gate the returns of the movements after `first` up to `last`. `counted` says which
/// lapses the loaded counts already contain. Returns whether the gate was loading this epoch until the end.
pub(super) async fn returned_since(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
    epoch: Epoch,
    template: &Template,
    first: i64,
    last: i64,
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
        // Not repeated after an error, because lapses could be counted twice. The whole rebuild is repeated instead.
        if !context.gate.load_returned(template.id, epoch, &movement.returned).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Loads a page in calls of at most [`LOAD_USERS_MAX`] users, and waits while Redis has no free memory yet. Returns
/// whether the gate was loading this epoch until the end.
async fn in_chunks<'a, T, F>(page: &'a [T], load: impl Fn(&'a [T]) -> F) -> Result<bool, GateError>
where
    F: Future<Output = Result<bool, GateError>>,
{
    let mut memory = MemoryWait::new();
    for chunk in page.chunks(LOAD_USERS_MAX) {
        loop {
            match load(chunk).await {
                Ok(true) => break,
                Ok(false) => return Ok(false),
                Err(error) => memory.wait(error).await?,
            }
        }
    }
    Ok(true)
}

/// Renews the rebuild's lease, between two pages.
pub(super) async fn renew(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
) -> Result<(), RebuildError> {
    connect::within(lease::take(connection, &context.lease, context.holder, LEASE)).await?;
    Ok(())
}

/// The wait of one page for memory.
struct MemoryWait {
    started: Instant,
    backoff: Backoff,
}

impl MemoryWait {
    fn new() -> Self {
        let backoff = Backoff::new(MEMORY_PAUSE.0, MEMORY_PAUSE.1);
        Self { started: Instant::now(), backoff }
    }

    /// Waits a while if `error` is only that Redis has no memory yet.
    async fn wait(&mut self, error: GateError) -> Result<(), GateError> {
        if !error.is_out_of_memory() || self.started.elapsed() >= MEMORY_MAX {
            return Err(error);
        }
        self.backoff.wait().await;
        Ok(())
    }
}
