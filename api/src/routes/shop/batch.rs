//! Serves several calls of a shop in one transaction: those that wait while a transaction is under way go together in the
//! next (decision 0063).
//!
//! Only plain cases are served here. Every other call, and every call of a transaction that fails, is left to a transaction
//! of its own, which says exactly what is wrong. So nothing is decided twice, and a fault of one call costs the others of
//! its batch time alone.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use coupon::MerchantId;
use mysql_store::connect;
use runtime::Context;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::{
    problem::Problem,
    shop::{
        batch_queue::{Batched, Waiting},
        batches::ToServe,
    },
    state::App,
};

/// Tasks that serve one queue: while one waits for its commit, the other reads.
const WORKERS: usize = 2;

/// Most calls of one transaction. It locks their coupons for some milliseconds.
const CALLS_MAX: usize = 64;

/// Calls that can be served in one transaction.
pub(crate) trait Together: Batched + Sized {
    /// What is served, in the log.
    const WHAT: &'static str;

    /// Serves those of a merchant's calls that are plain cases, and returns what they changed, by their position. They are
    /// sorted by name.
    fn serve(
        app: &App,
        wanted: &[&Self],
    ) -> impl Future<Output = Result<HashMap<usize, Self::Made>, Problem>> + Send;
}

/// Starts the tasks of all queues, which end when the process is to stop: they hold the landers. Calls that still wait
/// then get transactions of their own.
pub(crate) fn start(app: &App, context: &Context, to_serve: ToServe) {
    start_one(app, context, to_serve.redemptions);
    start_one(app, context, to_serve.payments);
}

fn start_one<T: Together>(app: &App, context: &Context, queue: mpsc::Receiver<Waiting<T>>) {
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..WORKERS {
        context.spawn(T::WHAT, run(app.clone(), Arc::clone(&queue), context.stop_token()));
    }
}

async fn run<T: Together>(
    app: App,
    queue: Arc<Mutex<mpsc::Receiver<Waiting<T>>>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut waiting = Vec::with_capacity(CALLS_MAX);
    let take = async |waiting: &mut Vec<Waiting<T>>| {
        queue.lock().await.recv_many(waiting, CALLS_MAX).await
    };
    while stop.run_until_cancelled(take(&mut waiting)).await.is_some_and(|taken| taken > 0) {
        for batch in batches(waiting.drain(..)) {
            serve(&app, batch).await;
        }
    }
    Ok(())
}

/// Splits the calls by merchant. A call with a name, coupon or claim of an earlier one is left to a transaction of its
/// own, which waits for the first.
fn batches<T: Batched>(
    waiting: impl Iterator<Item = Waiting<T>>,
) -> impl Iterator<Item = Vec<Waiting<T>>> {
    let mut batches: HashMap<MerchantId, Vec<Waiting<T>>> = HashMap::new();
    let mut names = HashSet::new();
    let mut things = HashSet::new();
    for one in waiting {
        let merchant = one.wanted.merchant();
        let is_new = names.insert((merchant, one.wanted.name().to_owned()))
            && one.wanted.things().iter().all(|thing| things.insert(*thing));
        // A dropped call gets `None`. No request waits for a call whose answer is closed.
        if is_new && !one.answer.is_closed() {
            batches.entry(merchant).or_default().push(one);
        }
    }
    batches.into_values()
}

async fn serve<T: Together>(app: &App, mut batch: Vec<Waiting<T>>) {
    // By name, as their rows are created.
    batch.sort_unstable_by(|a, b| a.wanted.name().cmp(b.wanted.name()));
    let wanted: Vec<&T> = batch.iter().map(|one| &one.wanted).collect();
    let mut made = connect::within(T::serve(app, &wanted)).await.unwrap_or_else(|problem| {
        debug!(what = T::WHAT, reason = problem.reason().1, "served one by one");
        HashMap::new()
    });
    if !made.is_empty() {
        info!(what = T::WHAT, calls = made.len(), "served together");
    }
    for (at, one) in batch.into_iter().enumerate() {
        // A client that has gone finds it done when it asks again.
        drop(one.answer.send(made.remove(&at)));
    }
}
