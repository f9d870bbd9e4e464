//! Many gates at one look: which of them lack a key that they had, and which have one that they had not. One command
//! asks for the keys of hundreds, so what nothing happens at costs next to nothing.

use coupon::{Epoch, TemplateId};

use crate::{Gate, GateError};

/// Gates that one command asks for: some tens of microseconds of Redis' time.
const GATES_AT_ONCE: usize = 250;

/// A gate as it was when it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whose.
    pub template: TemplateId,
    /// Of which epoch.
    pub epoch: Epoch,
    /// Whether it had entries of users.
    pub has_users: bool,
}

/// A gate that had nothing in flight when it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Still {
    /// Whose.
    pub template: TemplateId,
    /// Of which epoch; absent: there was no gate.
    pub epoch: Option<Epoch>,
}

impl Gate {
    /// Those of some gates that have lost a key since. What a key holds is not looked at.
    ///
    /// # Errors
    /// No answer.
    pub async fn lost(&self, gates: &[Standing]) -> Result<Vec<TemplateId>, GateError> {
        let keys = |gate: &Standing| {
            let keys = self.keys(gate.template);
            let users = gate.has_users.then(|| keys.users(gate.epoch));
            (gate.template, std::iter::once(keys.meta()).chain(users).collect())
        };
        self.differing(&gates.iter().map(keys).collect::<Vec<_>>(), true).await
    }

    /// Those of some gates that have admissions in flight by now, or are there and were not.
    ///
    /// # Errors
    /// No answer.
    pub async fn stirred(&self, gates: &[Still]) -> Result<Vec<TemplateId>, GateError> {
        let keys = |gate: &Still| {
            let keys = self.keys(gate.template);
            let key = gate.epoch.map_or_else(|| keys.meta(), |epoch| keys.inflight(epoch));
            (gate.template, vec![key])
        };
        self.differing(&gates.iter().map(keys).collect::<Vec<_>>(), false).await
    }

    /// Those whose keys are not all there, or that have one although none should be: found by halves, so that it costs a
    /// few commands for each that differs and one for all the others.
    async fn differing(
        &self,
        gates: &[(TemplateId, Vec<String>)],
        should_be: bool,
    ) -> Result<Vec<TemplateId>, GateError> {
        let live = self.redis.live().await?;
        let mut open: Vec<_> = gates.chunks(GATES_AT_ONCE).collect();
        let mut differing = Vec::new();
        while let Some(run) = open.pop() {
            let keys: Vec<&String> = run.iter().flat_map(|(_, keys)| keys).collect();
            let wanted = if should_be { keys.len() } else { 0 };
            let result =
                redis::cmd("EXISTS").arg(keys).query_async(&mut live.connection.clone()).await;
            let found: usize = self.checked("exists", &live, result).await?;
            match run {
                _ if found == wanted => {}
                [(template, _)] => differing.push(*template),
                run => {
                    let (first, second) = run.split_at(run.len() / 2);
                    open.extend([first, second]);
                }
            }
        }
        Ok(differing)
    }
}
