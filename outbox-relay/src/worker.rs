//! A worker: holds a name and makes rounds at the outboxes that have claims.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
};

use coupon::TemplateId;
use futures::{StreamExt as _, stream::FuturesUnordered};
use metrics::gauge;
use runtime::Part;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    leased_names::{Name, Names},
    metrics::WORKERS,
    outboxes::Waiting,
    pace::Pace,
    relay::Relay,
};

/// Outboxes that one worker serves at the same time: one that waits for its broker must not hold up the others.
const OUTBOXES_AT_ONCE: usize = 16;

/// How many workers of this process hold a name.
pub(crate) struct HeldNames {
    /// Locked while it is shown: of two workers that begin at once, the later number must be shown last.
    count: Mutex<u16>,
    of: u16,
    health: Part,
}

impl HeldNames {
    /// Counts `of` workers, none of which holds a name yet.
    pub(crate) fn new(health: Part, of: u16) -> Self {
        Self { count: Mutex::new(0), of, health }
    }

    fn one_more(&self) {
        self.change(|count| count + 1);
    }

    fn one_less(&self) {
        self.change(|count| count - 1);
    }

    fn change(&self, changed: impl FnOnce(u16) -> u16) {
        let mut held = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        *held = changed(*held);
        let count = *held;
        gauge!(WORKERS.name).set(f64::from(count));
        if count == self.of {
            self.health.ready();
        } else {
            self.health.not_ready(format!("{count} of {} workers hold a name", self.of));
        }
    }
}

/// One worker.
pub(crate) struct Worker {
    relay: Arc<Relay>,
    names: Names,
    waiting: watch::Receiver<Waiting>,
    held: Arc<HeldNames>,
}

impl Worker {
    pub(crate) fn new(
        relay: Arc<Relay>,
        names: Names,
        waiting: watch::Receiver<Waiting>,
        held: Arc<HeldNames>,
    ) -> Self {
        Self { relay, names, waiting, held }
    }

    /// Works until `stop`, then finishes the rounds under way. A worker that lost its name begins again under
    /// another.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let names = self.names.clone();
        let mut next = names.hold(&stop).await;
        while let Some(name) = next.take() {
            self.held.one_more();
            match name {
                Name::Leased(name) => tokio::select! {
                    () = names.lost(&name) => {}
                    () = self.work(&name, &stop) => names.release(&name).await,
                },
                Name::Spare(name) => next = self.work_unleased(&name, &stop).await,
            }
            self.held.one_less();
            if next.is_none() {
                next = names.hold(&stop).await;
            }
        }
    }

    /// Works until `stop`, or until MySQL gives leases again. Then it first finishes the rounds under way;
    /// entries left pending are taken over as from a worker that died. Returns the name to continue under.
    async fn work_unleased(&mut self, name: &str, stop: &CancellationToken) -> Option<Name> {
        let names = self.names.clone();
        let end = stop.child_token();
        let returned = async {
            let next = end.run_until_cancelled(names.returned()).await;
            end.cancel();
            next.flatten()
        };
        let ((), next) = tokio::join!(self.work(name, &end), returned);
        next
    }

    /// Makes rounds until `stop`. Dropped in a round, it leaves entries pending, which are published again.
    async fn work(&mut self, name: &str, stop: &CancellationToken) {
        let relay = &self.relay;
        let waiting = &mut self.waiting;
        let mut idle: BTreeMap<TemplateId, Pace> = BTreeMap::new();
        let mut busy: BTreeSet<TemplateId> = BTreeSet::new();
        let mut rounds = FuturesUnordered::new();
        while !stop.is_cancelled() {
            let filled = Arc::clone(&*waiting.borrow_and_update());
            idle.retain(|template, _| filled.contains(template));
            for template in filled.iter().filter(|template| !busy.contains(*template)) {
                idle.entry(*template).or_insert_with(|| Pace::new(Instant::now()));
            }
            let now = Instant::now();
            let room = OUTBOXES_AT_ONCE - busy.len();
            let mut due: Vec<_> =
                idle.iter().map(|(template, pace)| (pace.due, *template)).collect();
            due.retain(|(at, _)| *at <= now);
            due.sort_unstable();
            for (_, template) in due.into_iter().take(room) {
                if let Some(pace) = idle.remove(&template) {
                    busy.insert(template);
                    rounds.push(async move { (template, relay.round(name, template, pace).await) });
                }
            }
            let has_room = busy.len() < OUTBOXES_AT_ONCE;
            let next = idle.values().map(|pace| pace.due).min().filter(|_| has_room);
            tokio::select! {
                () = stop.cancelled() => {}
                Some((template, pace)) = rounds.next() => {
                    busy.remove(&template);
                    idle.insert(template, pace);
                }
                () = until(next) => {}
                // The sender lives until the stop.
                _ = waiting.changed() => {}
            }
        }
        while rounds.next().await.is_some() {}
    }
}

/// Waits until a moment; for ever if there is none.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use runtime::Health;

    use super::*;

    #[test]
    fn of_workers_that_begin_at_once_the_last_one_makes_the_relay_ready() {
        for _ in 0..2_000 {
            let health = Health::default();
            let held = HeldNames::new(health.part("workers"), 2);
            thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| held.one_more());
                }
            });
            assert!(health.unready().is_empty(), "{:?}", health.unready());
        }
    }
}
