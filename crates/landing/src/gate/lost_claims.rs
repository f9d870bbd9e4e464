//! Finds claims that a gate saw land and that MySQL does not have: they were answered with success, and a failover of
//! MySQL lost them. The rebuild that follows sells their units again; here they are recorded, so that their users, support
//! and on-call can find them.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use coupon::{ClaimId, Epoch};
use metrics::counter;
use mysql_store::{
    MySqlConnection, StoreError, connect, look_up, lost_claim, lost_claim::LostClaim,
    primary_server, stock,
};
use redis_gate::RequestState;
use tracing::{error, warn};

use crate::{
    gate::{
        goal::Aim,
        load,
        rebuild::{RebuildContext, RebuildError},
    },
    metric,
};

/// Longest time for one gate. A million entries take a few seconds, during which the gate stays closed if its epoch was
/// raised already.
const SEARCH_MAX: Duration = Duration::from_secs(20);

/// Interval between renewals of the lease: a small part of its duration.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Searches the gate before its rebuild removes the entries, if MySQL may have lost what it knows.
pub(super) async fn search(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
) -> Result<(), RebuildError> {
    let Some(epoch) = doubtful_epoch(connection, context).await? else { return Ok(()) };
    let began = Instant::now();
    let mut cursor = 0;
    let mut found = 0_usize;
    let mut renewed = began;
    loop {
        let (next, landed) = landed_from(context, epoch, cursor).await?;
        found += record_missing(connection, &landed).await?;
        // A commit each: for every page it would be most of the time.
        if renewed.elapsed() >= RENEW_EVERY {
            load::renew(connection, context).await?;
            renewed = Instant::now();
        }
        cursor = next;
        if cursor == 0 || began.elapsed() >= SEARCH_MAX {
            break;
        }
    }
    let template = context.template;
    if cursor != 0 {
        let seconds = SEARCH_MAX.as_secs();
        warn!(template.id = %template, seconds, "the search for lost claims was ended before the last user");
    }
    if found > 0 {
        error!(template.id = %template, gate.epoch = %epoch, found, "MySQL has lost claims that had landed");
    }
    Ok(())
}

/// Returns the gate's epoch if the gate was found wrong, or if its epoch shows a failover.
async fn doubtful_epoch(
    connection: &mut MySqlConnection,
    context: &RebuildContext<'_>,
) -> Result<Option<Epoch>, RebuildError> {
    let meta = match context.gate.meta(context.template).await {
        Err(error) if error.is_of_keys() => return Ok(None),
        meta => meta?,
    };
    let stock = connect::within(stock::get(connection, context.template)).await?;
    let (Some(meta), Some(stock)) = (meta, stock) else { return Ok(None) };
    let is_doubtful = context.aim == Aim::Replace
        || primary_server::may_be_of_lost_history(meta.epoch, stock.epoch);
    Ok(is_doubtful.then_some(meta.epoch))
}

/// Reads the claims of some users that the gate saw land, and the next cursor. Entries that cannot be read say nothing.
async fn landed_from(
    context: &RebuildContext<'_>,
    epoch: Epoch,
    cursor: u64,
) -> Result<(u64, Vec<LostClaim>), RebuildError> {
    let template = context.template;
    let (next, read) = match context.gate.entries_from(template, epoch, cursor).await {
        Err(error) if error.is_of_keys() => return Ok((0, Vec::new())),
        read => read?,
    };
    let mut landed = Vec::new();
    for (user, entry) in read.into_iter().filter_map(|(_, entry)| entry) {
        let of_user = entry.requests.iter().filter(|one| one.state == RequestState::Landed);
        landed.extend(of_user.map(|one| LostClaim { id: one.id, template, user }));
    }
    Ok((next, landed))
}

/// Records those of these claims, which were answered with success, that have no row. Returns how many there are.
pub async fn record_missing(
    connection: &mut MySqlConnection,
    claims: &[LostClaim],
) -> Result<usize, StoreError> {
    if claims.is_empty() {
        return Ok(0);
    }
    let ids: Vec<ClaimId> = claims.iter().map(|one| one.id).collect();
    let there: HashSet<ClaimId> = connect::within(look_up::with_row(connection, &ids)).await?;
    let mut found = 0;
    for lost in claims.iter().filter(|one| !there.contains(&one.id)) {
        found += 1;
        if connect::within(lost_claim::record(connection, *lost)).await? {
            counter!(metric::LOST_CLAIMS.name).increment(1);
            let LostClaim { id, template, user } = lost;
            error!(claim.id = %id, template.id = %template, user.id = %user, "a claim that was answered with success is lost");
        }
    }
    Ok(found)
}
