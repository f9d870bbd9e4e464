//! Checks many gates at once for keys that are missing or new. One command covers hundreds of gates, so idle gates cost
//! next to nothing.

use coupon::{Epoch, TemplateId};

use crate::{Gate, GateError};

/// Gates per command; takes Redis some tens of microseconds.
const GATES_AT_ONCE: usize = 250;

/// A gate as of its last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckedGate {
    pub template: TemplateId,
    pub epoch: Epoch,
    /// Whether it had users' entries.
    pub has_users: bool,
}

/// A gate that had nothing in flight or queued at its last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuietGate {
    pub template: TemplateId,
    /// Absent: there was no gate.
    pub epoch: Option<Epoch>,
}

impl Gate {
    /// Returns those of `gates` that have lost a key since. The contents of keys are not checked.
    ///
    /// # Errors
    /// No answer.
    pub async fn lost(&self, gates: &[CheckedGate]) -> Result<Vec<TemplateId>, GateError> {
        let keys = |gate: &CheckedGate| {
            let keys = self.keys(gate.template);
            let users = gate.has_users.then(|| keys.users(gate.epoch));
            (gate.template, std::iter::once(keys.meta()).chain(users).collect())
        };
        self.differing(&gates.iter().map(keys).collect::<Vec<_>>(), true).await
    }

    /// Returns those of `gates` that have admissions in flight or queued now, or that exist now and did not before.
    ///
    /// # Errors
    /// No answer.
    pub async fn stirred(&self, gates: &[QuietGate]) -> Result<Vec<TemplateId>, GateError> {
        let keys = |gate: &QuietGate| {
            let keys = self.keys(gate.template);
            let stirred = gate.epoch.map_or_else(
                || vec![keys.meta()],
                |epoch| vec![keys.inflight(epoch), keys.queued(epoch)],
            );
            (gate.template, stirred)
        };
        self.differing(&gates.iter().map(keys).collect::<Vec<_>>(), false).await
    }

    /// Returns the gates that lack a key, if `should_exist`; otherwise those that have one. It searches by bisection, so
    /// the cost is a few commands for each such gate and one for all the others.
    async fn differing(
        &self,
        gates: &[(TemplateId, Vec<String>)],
        should_exist: bool,
    ) -> Result<Vec<TemplateId>, GateError> {
        let live = self.redis.live().await?;
        let mut unsearched: Vec<_> = gates.chunks(GATES_AT_ONCE).collect();
        let mut differing = Vec::new();
        while let Some(part) = unsearched.pop() {
            let keys: Vec<&String> = part.iter().flat_map(|(_, keys)| keys).collect();
            let wanted = if should_exist { keys.len() } else { 0 };
            let result =
                redis::cmd("EXISTS").arg(keys).query_async(&mut live.connection.clone()).await;
            let found: usize = self.checked("exists", &live, result).await?;
            match part {
                _ if found == wanted => {}
                [(template, _)] => differing.push(*template),
                part => {
                    let (first, second) = part.split_at(part.len() / 2);
                    unsearched.extend([first, second]);
                }
            }
        }
        Ok(differing)
    }
}
