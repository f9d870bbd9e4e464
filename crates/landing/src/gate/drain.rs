//! Waits until all claims that an older gate queued have landed or were rejected. MySQL, Redis and the broker may be
//! away meanwhile; the wait has no time limit.
//!
//! The order of the steps makes it safe:
//!
//! 1. A newer epoch has begun, so the older gate queues no more claims.
//! 2. Wait until the outbox is empty: the relay has published all of it.
//! 3. Only then note the end of the partition.
//! 4. Wait until the claim landers have committed this offset: each claim before it has its answer in MySQL.
//!
//! After step 3 the topic may be recreated, or a broker may lose messages: lost messages are not waited for.
//!
//! An operator may end the wait (`stock::end_drain`): claims still in the queue are then too late, and their clients
//! learn that they are lost.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use coupon::{Epoch, TemplateId};
use metrics::counter;
use mysql_store::StoreError;
use redis_gate::GateError;
use runtime::Backoff;
use thiserror::Error;
use tokio::time::timeout;
use tracing::error;

use crate::{
    gate::{
        drains::{Found, Waiting},
        rebuild::RebuildContext,
    },
    metric,
    queue::QueueError,
};

/// First and longest wait between two checks: an empty queue delays a rebuild by milliseconds, and a long wait polls
/// once a second.
const LOOK_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// Interval at which the lease is renewed and MySQL is asked whether the rebuild is still wanted. This also happens
/// while a call to the broker or Redis hangs, or the drain waits for its turn to check. If the lease ended, another
/// process would restart the rebuild and its wait, so no wait would ever last long enough to be reported.
const RENEW_EVERY: Duration = Duration::from_secs(1);

/// Time after which the wait is reported. A working relay and lander need less.
const ALARM_AFTER: Duration = Duration::from_secs(10);

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    /// No older claim is in the queue.
    Empty,
    /// A newer epoch has begun, or the template is gone.
    Overtaken,
}

/// Why a check failed.
#[derive(Debug, Error)]
enum LookError {
    #[error("MySQL failed")]
    Store(#[from] StoreError),
    #[error("the gate failed")]
    Gate(#[from] GateError),
    #[error("the queue failed")]
    Queue(#[from] QueueError),
}

/// Waits until no claim that was queued before `epoch` began is on its way.
pub(super) async fn drain(context: &RebuildContext<'_>, epoch: Epoch) -> Drained {
    let started = Instant::now();
    let waiting = context.drains.wait(context.template, &context.lease);
    let mut backoff = Backoff::new(LOOK_AGAIN.0, LOOK_AGAIN.1);
    let mut renewed = started;
    let mut end = None;
    loop {
        let looked = {
            let mut looking = pin!(look(context, epoch, &mut end));
            loop {
                if let Ok(looked) = timeout(RENEW_EVERY, &mut looking).await {
                    break looked;
                }
                if let Some(drained) = renew(context, &waiting, epoch).await {
                    return drained;
                }
                renewed = Instant::now();
            }
        };
        match looked {
            Ok(true) => return Drained::Empty,
            Ok(false) => {}
            Err(error) => warn_of(context.template, &error),
        }
        if started.elapsed() >= ALARM_AFTER {
            let template = context.template;
            let waits = started.elapsed();
            let what = if end.is_none() { "its outbox" } else { "its claims in the topic" };
            let text = format!("template {template}, epoch {epoch}: {waits:.0?} for {what}");
            runtime::seldom!("a gate waits for queued claims to land", text);
        }
        if renewed.elapsed() >= RENEW_EVERY {
            if let Some(drained) = renew(context, &waiting, epoch).await {
                return drained;
            }
            renewed = Instant::now();
        }
        backoff.wait().await;
    }
}

/// Waits for its turn, and returns whether the queue is drained. Notes the partition's end once the outbox is empty.
async fn look(
    context: &RebuildContext<'_>,
    epoch: Epoch,
    noted: &mut Option<i64>,
) -> Result<bool, LookError> {
    // The semaphore is never closed.
    let _turn = context.drains.looks.acquire().await;
    let end = match noted {
        Some(end) => end,
        None if has_outbox(context, epoch).await? => return Ok(false),
        None => noted.insert(context.queue.end(context.template).await?),
    };
    Ok(context.queue.reach(context.template).await?.has_passed(end))
}

/// Returns whether the outbox may hold a claim. A key of another type holds none; it is removed as a new epoch would.
async fn has_outbox(context: &RebuildContext<'_>, epoch: Epoch) -> Result<bool, GateError> {
    let gate = context.gate;
    let template = context.template;
    match gate.outbox_len(template).await {
        Err(error) if error.is_of_keys() => {
            error!(template.id = %template, error = runtime::report(&error), "an outbox cannot be read");
            counter!(metric::UNREADABLE.name).increment(1);
            gate.begin(template, epoch).await?;
            Ok(true)
        }
        length => Ok(length? > 0),
    }
}

/// Renews the lease. Returns how the wait ends, if MySQL answers and shows that something other than the queue ends it.
async fn renew(
    context: &RebuildContext<'_>,
    waiting: &Waiting<'_>,
    epoch: Epoch,
) -> Option<Drained> {
    match waiting.renew(context.pool, context.holder).await {
        Ok(Found::Epochs(now, _)) if now != epoch => Some(Drained::Overtaken),
        Ok(Found::Epochs(_, queued)) => (queued == epoch).then_some(Drained::Empty),
        Ok(Found::NoTemplate) => Some(Drained::Overtaken),
        Ok(Found::Unknown) => None,
        Err(error) => {
            warn_of(context.template, &error.into());
            None
        }
    }
}

fn warn_of(template: TemplateId, error: &LookError) {
    let why = format!("template {template}: {}", runtime::report(error));
    runtime::seldom!("whether a queue is drained cannot be seen", why);
}
