//! What `/readyz` answers: each part of a process says whether it is ready, and why not.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The readiness of a process, part by part. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Health {
    parts: Arc<Mutex<BTreeMap<&'static str, Option<String>>>>,
}

/// One part's handle on its line in `/readyz`.
#[derive(Debug, Clone)]
pub struct Part {
    name: &'static str,
    health: Health,
}

impl Health {
    /// Adds a part, not ready yet.
    pub fn part(&self, name: &'static str) -> Part {
        let part = Part { name, health: self.clone() };
        part.not_ready("starting");
        part
    }

    /// The parts that are not ready, with their reasons; empty: ready.
    pub fn unready(&self) -> BTreeMap<&'static str, String> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().filter_map(|(name, why)| Some((*name, why.clone()?))).collect()
    }

    fn set(&self, name: &'static str, why: Option<String>) {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner).insert(name, why);
    }
}

impl Part {
    /// The part works.
    pub fn ready(&self) {
        self.health.set(self.name, None);
    }

    /// The part does not work, and why.
    pub fn not_ready(&self, why: impl Into<String>) {
        self.health.set(self.name, Some(why.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_once_every_part_is() {
        let health = Health::default();
        let (gate, mysql) = (health.part("gate"), health.part("mysql"));
        gate.ready();
        assert_eq!(health.unready().len(), 1);
        mysql.ready();
        assert!(health.unready().is_empty());
        gate.not_ready("redis does not answer");
        assert_eq!(health.unready()["gate"], "redis does not answer");
    }
}
