//! Reports to gates how queued claims ended, and which gates are wrong. A report is made once, and no landing waits for
//! it; the resolver makes up for lost reports.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use coupon::{Admission, ClaimId, Epoch, RejectReason, TemplateId, UserId};
use futures::{StreamExt as _, stream};
use mysql_store::{MySqlPool, connect};
use redis_gate::{Gate, GateError, GateRedis};
use tokio::sync::mpsc;

use crate::{
    gate::{movements, rebuild::RebuildError},
    lander::settler::{self, PAUSE, QUEUED_MAX, SETTLE_MAX, SETTLES_AT_ONCE, TRIES},
    queued::{end::QueuedEnd, metric},
};

/// Pause after a failed connect. Reports in between are left to the resolver.
const CONNECT_PAUSE: Duration = Duration::from_secs(1);

/// Reason recorded for a wrong gate, in its meta and in the keeper's log.
const TAKEN: &str = "a user's number that MySQL gave before";

/// The sending end. Clones report to the same [`Reporter`].
#[derive(Clone)]
pub struct GateReports {
    queue: mpsc::Sender<Report>,
}

/// The task that sends the reports to the gates; [`Reporter::run`] is its loop.
pub struct Reporter {
    gate_url: String,
    prefix: String,
    /// To read movements that a gate lacks.
    pool: MySqlPool,
    queue: mpsc::Receiver<Report>,
    gate: Option<Gate>,
    failed_at: Option<Instant>,
}

type GateOf = (TemplateId, Epoch);

/// One report.
enum Report {
    Landed(GateOf, UserId, ClaimId),
    Never {
        gate: GateOf,
        user: UserId,
        id: ClaimId,
        /// Whether the stock did not suffice, perhaps because of a cut that the gate does not contain yet.
        short: bool,
    },
    Wrong(GateOf),
}

impl Report {
    fn template(&self) -> TemplateId {
        match self {
            Self::Landed((template, _), ..)
            | Self::Never { gate: (template, _), .. }
            | Self::Wrong((template, _)) => *template,
        }
    }
}

impl GateReports {
    /// Creates both ends. The gate at `gate_url`, whose keys begin with `prefix`, may be away.
    pub fn new(gate_url: &str, prefix: &str, pool: MySqlPool) -> (Self, Reporter) {
        let (sender, queue) = mpsc::channel(QUEUED_MAX);
        let gate_url = gate_url.to_owned();
        let prefix = prefix.to_owned();
        let reporter = Reporter { gate_url, prefix, pool, queue, gate: None, failed_at: None };
        (Self { queue: sender }, reporter)
    }

    /// Reports how a claim ended. A claim without a row is not released: it is lost with its epoch.
    pub(super) fn ended(&self, admission: &Admission, end: QueuedEnd) {
        let claim = &admission.claim;
        let gate = (admission.claim.template_id, admission.epoch);
        let user = claim.user_id;
        let id = claim.id;
        let never = |short| Report::Never { gate, user, id, short };
        self.send(match end {
            QueuedEnd::Landed | QueuedEnd::LandedBefore => Report::Landed(gate, user, id),
            QueuedEnd::Rejected(RejectReason::SoldOut | RejectReason::InsufficientStock) => {
                never(true)
            }
            QueuedEnd::Rejected(_)
            | QueuedEnd::RejectedBefore
            | QueuedEnd::Elsewhere
            | QueuedEnd::Fenced => never(false),
            QueuedEnd::TooLate
            | QueuedEnd::UnknownTemplate
            | QueuedEnd::Unlandable
            | QueuedEnd::Duplicate => return,
        });
    }

    /// Reports that the gate of this epoch gave out a number that was taken. Its keeper begins a new epoch.
    pub(super) fn wrong(&self, template: TemplateId, epoch: Epoch) {
        tracing::error!(
            template.id = %template,
            gate.epoch = %epoch,
            "a gate gave out a number that was taken: it begins a new epoch"
        );
        self.send(Report::Wrong((template, epoch)));
    }

    fn send(&self, report: Report) {
        if self.queue.try_send(report).is_err() {
            unreported(1, "the queue is full");
        }
    }
}

impl Reporter {
    /// Reports until every sending end is dropped and nothing waits.
    pub async fn run(mut self) {
        let mut reports = Vec::with_capacity(SETTLE_MAX);
        while self.queue.recv_many(&mut reports, SETTLE_MAX).await > 0 {
            match self.connected().await {
                Ok(gate) => self.tell(&gate, reports.drain(..)).await,
                Err(why) => unreported(reports.drain(..).len(), &why),
            }
        }
    }

    /// Returns the gate, or why there is none now.
    async fn connected(&mut self) -> Result<Gate, String> {
        if let Some(gate) = &self.gate {
            return Ok(gate.clone());
        }
        if self.failed_at.is_some_and(|at| at.elapsed() < CONNECT_PAUSE) {
            return Err("the gate did not answer a moment ago".to_owned());
        }
        match GateRedis::connect(&self.gate_url).await {
            Ok(redis) => {
                let gate = Gate::new(redis, &self.prefix);
                self.gate = Some(gate.clone());
                Ok(gate)
            }
            Err(error) => {
                self.failed_at = Some(Instant::now());
                Err(runtime::report(&error))
            }
        }
    }

    async fn tell(&self, gate: &Gate, reports: impl Iterator<Item = Report>) {
        let mut landed: HashMap<GateOf, Vec<(UserId, ClaimId)>> = HashMap::new();
        let mut never = Vec::new();
        let mut short_ones = BTreeSet::new();
        let mut wrong = BTreeSet::new();
        // The gates of a master that is away are left to the resolver, so that those of the others need not wait.
        let reach = gate.reach().await.ok();
        let is_reached = |report: &Report| {
            let is_reached = reach.as_ref().is_none_or(|reach| reach.has(report.template()));
            if !is_reached {
                unreported(1, "a master of the gate's cluster is away");
            }
            is_reached
        };
        for report in reports.filter(is_reached) {
            match report {
                Report::Landed(at, user, id) => landed.entry(at).or_default().push((user, id)),
                Report::Never { gate: at, user, id, short } => {
                    if short {
                        short_ones.insert(at.0);
                    }
                    never.push((at, user, id));
                }
                Report::Wrong(at) => {
                    wrong.insert(at);
                }
            }
        }
        let settle_one = async |((template, epoch), admissions): (_, Vec<_>)| {
            let settled = settler::settle(gate, template, epoch, &admissions).await;
            heard(admissions.len(), settled);
        };
        stream::iter(landed).for_each_concurrent(SETTLES_AT_ONCE, settle_one).await;
        let behind = self.catch_up(gate, short_ones).await;
        for ((template, epoch), user, id) in never {
            // A gate without the cut would give the released stock to another claim, which would be rejected too.
            if !behind.contains(&template) {
                let release = || gate.release(template, epoch, user, id);
                heard(1, repeated(release).await.map(|_| ()));
            }
        }
        for (template, epoch) in wrong {
            heard(1, repeated(|| gate.mark_unreadable(template, epoch, TAKEN)).await);
        }
    }

    /// Sends the gates of `templates` the movements that they lack. Returns those where it failed.
    async fn catch_up(&self, gate: &Gate, templates: BTreeSet<TemplateId>) -> BTreeSet<TemplateId> {
        let mut behind = BTreeSet::new();
        for template in templates {
            let caught_up: Result<(), RebuildError> = async {
                let mut connection = connect::acquire(&self.pool).await?;
                movements::catch_up(&mut connection, gate, template).await
            }
            .await;
            if let Err(error) = caught_up {
                unreported(1, &runtime::report(&error));
                behind.insert(template);
            }
        }
        behind
    }
}

/// Makes a call that takes effect once, and repeats it if no answer comes.
async fn repeated<T, F>(mut call: impl FnMut() -> F) -> Result<T, GateError>
where
    F: Future<Output = Result<T, GateError>>,
{
    let mut tries = 1;
    loop {
        match call().await {
            Err(GateError::Unknown { .. } | GateError::Unreachable { .. }) if tries < TRIES => {
                tries += 1;
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

fn heard(claims: usize, told: Result<(), GateError>) {
    if let Err(error) = told {
        unreported(claims, &runtime::report(&error));
    }
}

fn unreported(claims: usize, why: &str) {
    metrics::counter!(metric::UNREPORTED.name).increment(claims as u64);
    runtime::seldom!("gates are not told how queued claims ended; the resolver will", why);
}
