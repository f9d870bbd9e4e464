//! Tells the gates which admissions landed: batched, and after the answer, so that no claim waits for
//! it. What is lost here is found by the resolver.

use std::{collections::HashMap, time::Duration};

use coupon::{ClaimId, Epoch, TemplateId, UserId};
use redis_gate::{Gate, GateError};
use runtime::FailPoints;
use tokio::sync::mpsc;
use tracing::warn;

/// Admissions in one call of `settle.lua`: about a millisecond of the gate's time.
const SETTLE_MAX: usize = 256;

/// Admissions that may wait to be settled. Beyond it they are left to the resolver.
const QUEUED_MAX: usize = 65_536;

/// How often a call that got no answer is made again, and the wait before each.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// Where landed admissions are reported.
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
    /// The reporting end, and the task that settles until every reporting end is gone.
    /// Its fail point is `settler.before_settle`.
    pub fn new(gate: Gate, points: FailPoints) -> (Self, impl Future<Output = ()>) {
        let (queue, landed) = mpsc::channel(QUEUED_MAX);
        (Self { queue }, settle_all(gate, landed, points))
    }

    /// Admissions that wait to be settled.
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
        for ((template, epoch), admissions) in by_gate {
            if points.reach("settler.before_settle").await.is_err() {
                continue;
            }
            if let Err(error) = settle(&gate, template, epoch, &admissions).await {
                warn!(template.id = %template, error = %error, "not settled; the resolver will");
            }
        }
    }
}

async fn settle(
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
