//! What `/readyz` and `/status` answer: each part of a process says whether it is ready, why not, in
//! which role, and how it stands.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

/// The readiness of a process, part by part. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Health {
    parts: Arc<Mutex<BTreeMap<&'static str, State>>>,
}

#[derive(Debug, Default)]
struct State {
    not_ready: Option<String>,
    role: Option<&'static str>,
    told: Option<Value>,
}

/// One part's handle on its line in `/readyz` and `/status`.
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
        self.each(|state| state.not_ready.clone())
    }

    /// The parts that are ready in a role of which there are several.
    pub fn roles(&self) -> BTreeMap<&'static str, &'static str> {
        self.each(|state| state.role)
    }

    /// What parts tell of themselves.
    pub fn status(&self) -> BTreeMap<&'static str, Value> {
        self.each(|state| state.told.clone())
    }

    fn each<T>(&self, say: impl Fn(&State) -> Option<T>) -> BTreeMap<&'static str, T> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.iter().filter_map(|(name, state)| Some((*name, say(state)?))).collect()
    }

    fn change(&self, name: &'static str, change: impl FnOnce(&mut State)) {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        change(parts.entry(name).or_default());
    }
}

impl Part {
    /// The part works.
    pub fn ready(&self) {
        self.health.change(self.name, |state| (state.not_ready, state.role) = (None, None));
    }

    /// The part works as what it is for now, e.g. a standby.
    pub fn ready_as(&self, role: &'static str) {
        self.health.change(self.name, |state| (state.not_ready, state.role) = (None, Some(role)));
    }

    /// The part does not work, and why.
    pub fn not_ready(&self, why: impl Into<String>) {
        let why = Some(why.into());
        self.health.change(self.name, |state| (state.not_ready, state.role) = (why, None));
    }

    /// How the part stands, for people: one JSON object.
    pub fn tell(&self, status: Value) {
        self.health.change(self.name, |state| state.told = Some(status));
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
        gate.ready_as("standby");
        assert!(health.unready().is_empty());
        assert_eq!(health.roles()["gate"], "standby");
        gate.ready();
        assert!(health.roles().is_empty());
    }
}
