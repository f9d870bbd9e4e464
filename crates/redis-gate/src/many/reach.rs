//! [`Reach`]: which gates can be reached now, for work on all of them.

use std::{collections::HashMap, sync::Arc};

use coupon::TemplateId;
use redis_address::Node;

use crate::{Gate, GateError, GateRedis, Run, connection::any, keys::Keys};

/// The servers that answered, or failed, when they were asked together.
pub struct Reach {
    redis: GateRedis,
    prefix: Arc<str>,
    runs: HashMap<Node, Result<Run, GateError>>,
}

impl Gate {
    /// Asks all servers at once whether they answer. A caller with work at many gates then leaves out those that are
    /// away, instead of waiting for each of them.
    ///
    /// # Errors
    /// No server answers.
    pub async fn reach(&self) -> Result<Reach, GateError> {
        let answers = self.redis.live_each().await.into_iter();
        let runs: HashMap<_, _> =
            answers.map(|(node, live)| (node, live.map(|live| live.run))).collect();
        any(runs.values().cloned())?;
        Ok(Reach { redis: self.redis.clone(), prefix: self.prefix().into(), runs })
    }

    /// Returns the run of the server that has the gate of `template`.
    ///
    /// # Errors
    /// The server cannot be reached or is not fit.
    pub async fn run_of(&self, template: TemplateId) -> Result<Run, GateError> {
        Ok(self.live(template).await?.run)
    }
}

impl Reach {
    /// Returns whether the server of a template's gate answered.
    ///
    /// # Errors
    /// It did not, or the template's slot has no server now.
    pub fn to(&self, template: TemplateId) -> Result<(), GateError> {
        let node = self.redis.node_of(&Keys::new(&self.prefix, template).meta());
        match node.and_then(|node| self.runs.get(&node)) {
            Some(run) => run.clone().map(drop),
            None => Err(GateError::Unreachable { source: None }),
        }
    }

    /// Returns whether the server of a template's gate answered.
    pub fn has(&self, template: TemplateId) -> bool {
        self.to(template).is_ok()
    }
}
