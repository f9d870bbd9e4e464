//! Settles landed admissions at the gates: in batches, and after the answer, so that no claim waits for it. If a settle
//! is lost, the resolver makes up for it.

use std::{collections::HashMap, time::Duration};

use coupon::{ClaimId, Epoch, TemplateId, UserId};
use futures::{StreamExt as _, stream};
use redis_gate::{Gate, GateError};
use runtime::FailPoints;
use tokio::sync::mpsc;
use tracing::warn;

/// Most admissions in one call of `settle.lua`: about a millisecond of the gate's time.
pub(crate) const SETTLE_MAX: usize = 256;

/// Calls of `settle.lua` under way at a time. Sent together, the calls for many templates share a turn of the gate's
/// server: a read, an append to its file and a write, which cost more than the script does.
pub(crate) const SETTLES_AT_ONCE: usize = 32;

/// Most admissions that may wait to be settled. Beyond that, the resolver settles them.
pub(crate) const QUEUED_MAX: usize = 65_536;

/// Calls in total when no answer comes, and the pause before each repetition.
pub(crate) const TRIES: u32 = 3;
pub(crate) const PAUSE: Duration = Duration::from_millis(200);

/// The sending end: landed admissions are reported here.
#[derive(Clone)]
pub struct Settler {
    queue: mpsc::Sender<Landed>,
}

struct Landed {
    template: TemplateId,
    epoch: Epoch,
    user: UserId,
    id: ClaimId,
}

impl Settler {
    /// Creates the reporting end, and the task that settles until every reporting end is dropped. Its fail point is
    /// `settler.before_settle`.
    pub fn new(gate: Gate, points: FailPoints) -> (Self, impl Future<Output = ()>) {
        let (queue, landed) = mpsc::channel(QUEUED_MAX);
        (Self { queue }, settle_all(gate, landed, points))
    }

    /// Returns the number of admissions that wait to be settled.
    pub(crate) fn queued(&self) -> usize {
        self.queue.max_capacity() - self.queue.capacity()
    }

    /// Reports that an admission landed.
    pub fn landed(&self, template: TemplateId, epoch: Epoch, user: UserId, id: ClaimId) {
        if self.queue.try_send(Landed { template, epoch, user, id }).is_err() {
            warn!(claim.id = %id, "not settled: the queue is full; the resolver will");
        }
    }
}

async fn settle_all(gate: Gate, mut queue: mpsc::Receiver<Landed>, points: FailPoints) {
    let mut landed = Vec::with_capacity(SETTLE_MAX);
    while queue.recv_many(&mut landed, SETTLE_MAX).await > 0 {
        let mut by_gate: HashMap<(TemplateId, Epoch), Vec<(UserId, ClaimId)>> = HashMap::new();
        for one in landed.drain(..) {
            by_gate.entry((one.template, one.epoch)).or_default().push((one.user, one.id));
        }
        let gate = &gate;
        // The gates of a master that is away are left to the resolver, so that those of the others need not wait.
        if let Ok(reach) = gate.reach().await {
            by_gate.retain(|(template, _), _| reach.has(*template));
        }
        let points = &points;
        let settle_one = async |((template, epoch), admissions): (_, Vec<_>)| {
            if points.reach("settler.before_settle").await.is_err() {
                return;
            }
            if let Err(error) = settle(gate, template, epoch, &admissions).await {
                let why = format!("template {template}: {}", runtime::report(&error));
                runtime::seldom!("admissions are not settled; the resolver will", why);
            }
        };
        stream::iter(by_gate).for_each_concurrent(SETTLES_AT_ONCE, settle_one).await;
    }
}

/// Settles admissions, and repeats the call if no answer comes.
///
/// # Errors
/// The gate did not settle them.
pub(crate) async fn settle(
    gate: &Gate,
    template: TemplateId,
    epoch: Epoch,
    admissions: &[(UserId, ClaimId)],
) -> Result<(), GateError> {
    let mut tries = 1;
    loop {
        match gate.settle(template, epoch, admissions).await {
            Ok(_) => return Ok(()),
            Err(GateError::Unknown { .. } | GateError::Unreachable { .. }) if tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(error) => return Err(error),
        }
    }
}
