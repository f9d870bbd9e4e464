//! Refusals from memory. While a template is sold out, most claims come from users without an entry in the gate, and
//! the gate would refuse all of them alike. So the process reads once which users have an entry. It refuses all others
//! itself, for as long as a look at the gate allows it.
//!
//! Within an epoch the gate removes no entry. So a scan has found all users with an entry if it has as many as the gate
//! when a look comes, whatever happened during the scan. A look also compares everything else that `claim.lua` would
//! decide by. It allows refusals for [`REFUSING`], counted from before it was sent, and a look is sent every 40 ms. If
//! a look is late, fails or finds a difference, it allows nothing more: then the gate decides, as for any claim.
//!
//! The gate notes each look that allows refusals. A user admitted meanwhile is answered only when these refusals are
//! over. So no user who was answered with a coupon is refused from memory (docs/decisions/0065, and `sold_out` in the
//! model).

mod memory;
mod scan;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use chrono::{DateTime, Utc};
use coupon::{Epoch, TemplateId, UserId};
use futures::{StreamExt as _, stream::FuturesUnordered};
use redis_gate::{Gate, GateError, GateServer, REFUSING, SoldOutLook};
use tokio::{sync::Notify, time::timeout};
use tokio_util::sync::CancellationToken;

use self::memory::{Attempt, Known, Memory, Micros};
use crate::metric;

/// Time between the beginnings of two looks. If one look is lost, the next one still comes in time.
const LOOK_EVERY: Duration = Duration::from_millis(40);

/// How long a template is watched after the last claim.
const WATCHED_FOR: Duration = Duration::from_secs(1);

/// Refusals by the gate within [`WATCHED_FOR`] from which on a template's users are read. For the gate, reading a
/// thousand users costs about as much as a dozen refusals, so it does not pay for a few stragglers.
const REFUSALS_MIN: u32 = 64;

/// Most templates whose refusals are counted. Beyond it all counts restart, which delays refusals from memory.
const COUNTED_MAX: usize = 4_096;

/// Templates that are sold out, as this process knows them. Clones share it.
#[derive(Clone)]
pub struct SoldOut(Arc<Shared>);

struct Shared {
    /// On a connection of its own, so that looks do not wait behind claims.
    gate: Gate,
    memory: Memory,
    refused: Mutex<HashMap<TemplateId, Refused>>,
    /// Notified when a template is worth a scan.
    wanted: Notify,
    started: Instant,
}

/// A template that is known to be sold out.
type Watched = (TemplateId, crate::sync::Arc<Known>);

/// Refusals of a template by the gate.
#[derive(Debug, Clone, Copy)]
struct Refused {
    epoch: Epoch,
    count: u32,
    since: Micros,
    /// No scan before this moment.
    rests_until: Micros,
}

impl SoldOut {
    /// Creates an empty memory. It is filled while [`SoldOut::watch`] runs.
    pub fn new(gate: &Gate) -> Self {
        Self(Arc::new(Shared {
            gate: gate.apart(),
            memory: Memory::new(),
            refused: Mutex::default(),
            wanted: Notify::new(),
            started: Instant::now(),
        }))
    }

    /// Returns whether the gate would have refused this claim as sold out at some moment within the last [`REFUSING`].
    pub fn refuses(
        &self,
        template: TemplateId,
        user: UserId,
        quantity: u32,
        now: DateTime<Utc>,
    ) -> bool {
        let attempt = Attempt { template, user, quantity, now_ms: now.timestamp_millis() };
        self.0.memory.refuses(&attempt, self.0.now())
    }

    /// Forgets a template, because this process has learned of a change before its next look.
    pub fn forget(&self, template: TemplateId) {
        self.0.memory.forget(template);
    }

    /// Counts a refusal by the gate of this epoch to a user without an entry.
    pub(crate) fn refused_by_gate(&self, template: TemplateId, epoch: Epoch) {
        if self.0.memory.knows(template) {
            return;
        }
        let now = self.0.now();
        let mut refused = self.0.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() >= COUNTED_MAX && !refused.contains_key(&template) {
            refused.clear();
        }
        let counted = refused.entry(template).or_insert(Refused {
            epoch,
            count: 0,
            since: now,
            rests_until: 0,
        });
        if counted.epoch != epoch || now.saturating_sub(counted.since) > micros(WATCHED_FOR) {
            *counted = Refused { epoch, count: 0, since: now, ..*counted };
        }
        counted.count += 1;
        if counted.is_due(now) {
            self.0.wanted.notify_one();
        }
    }

    /// Sets the gauges.
    pub(crate) fn measure(&self) {
        let (templates, bytes) = self.0.memory.size(self.0.now());
        metrics::gauge!(metric::SOLD_OUT_TEMPLATES.name).set(templates as f64);
        metrics::gauge!(metric::SOLD_OUT_BYTES.name).set(bytes as f64);
    }

    /// Sends looks for known templates, and scans the users of others, until `stop`.
    pub async fn watch(&self, stop: CancellationToken) {
        // Boxed, since it is large and lives as long as the process.
        let watching = Box::pin(async { tokio::join!(self.look_on(), self.scan_on()) });
        stop.run_until_cancelled(watching).await;
    }

    /// Sends the looks of each server at every tick. A server whose last looks are under way gets none: it does not
    /// delay those of the others, and late answers would allow nothing.
    async fn look_on(&self) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut busy = HashSet::new();
        let mut looking = FuturesUnordered::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    let mut watched = self.watched();
                    watched.retain(|server, _| !busy.contains(server));
                    for (server, watched) in watched {
                        busy.insert(server.clone());
                        looking.push(async move {
                            self.look_in_time(&watched).await;
                            server
                        });
                    }
                }
                Some(server) = looking.next() => {
                    busy.remove(&server);
                }
            }
        }
    }

    /// Returns the known templates that were claimed from lately, by the server of their gate; forgets the others.
    fn watched(&self) -> HashMap<Option<GateServer>, Vec<Watched>> {
        let memory = &self.0.memory;
        let now = self.0.now();
        let mut watched: HashMap<_, Vec<Watched>> = HashMap::new();
        for (template, known) in memory.all() {
            if now.saturating_sub(known.asked_at()) <= micros(WATCHED_FOR) {
                let server = self.0.gate.server_of(template);
                watched.entry(server).or_default().push((template, known));
            } else {
                memory.forget_this(template, &known);
            }
        }
        watched
    }

    async fn look_in_time(&self, watched: &[Watched]) {
        let why = match timeout(REFUSING, self.look(watched)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => runtime::report(&error),
            Err(_) => format!("no answer within {REFUSING:?}"),
        };
        runtime::seldom!("sold out templates are not looked at", why);
    }

    /// Sends one look for each template.
    async fn look(&self, watched: &[Watched]) -> Result<(), GateError> {
        let looks = watched.iter().map(|(template, known)| SoldOutLook {
            template: *template,
            epoch: known.epoch,
            users: Some(known.users()),
        });
        let looks: Vec<_> = looks.collect();
        let begun = self.0.now();
        let found = self.0.gate.sold_out(&looks).await;
        let mut failed = None;
        for ((template, known), found) in watched.iter().zip(found) {
            match found {
                Ok(found) if found.is_some_and(|gate| known.is(gate)) => {
                    known.allow(begun + micros(REFUSING));
                }
                Ok(_) => self.0.memory.forget_this(*template, known),
                // It allows nothing more, and the next look may come in time.
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Shared {
    fn now(&self) -> Micros {
        micros(self.started.elapsed())
    }
}

impl Refused {
    fn is_due(&self, now: Micros) -> bool {
        self.count >= REFUSALS_MIN
            && now.saturating_sub(self.since) <= micros(WATCHED_FOR)
            && now >= self.rests_until
    }
}

fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
