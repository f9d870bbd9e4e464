//! The contents of `/readyz` and `/status`: each part of a process reports its readiness, role and status.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde_json::Value;

/// Readiness, role and status of each part of a process. Clones share one state.
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

/// The handle by which one part reports to `/readyz` and `/status`.
#[derive(Debug, Clone)]
pub struct Part {
    name: &'static str,
    health: Health,
}

impl Health {
    /// Adds a part, which is not ready yet.
    pub fn part(&self, name: &'static str) -> Part {
        let part = Part { name, health: self.clone() };
        part.not_ready("starting");
        part
    }

    /// Returns the parts that are not ready, with their reasons. Empty means the process is ready.
    pub fn unready(&self) -> BTreeMap<&'static str, String> {
        self.each(|state| state.not_ready.clone())
    }

    /// Returns the roles of parts that are ready in one of several roles.
    pub fn roles(&self) -> BTreeMap<&'static str, &'static str> {
        self.each(|state| state.role)
    }

    /// Returns the status objects that parts have reported.
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
    /// Reports the part as ready.
    pub fn ready(&self) {
        self.health.change(self.name, |state| (state.not_ready, state.role) = (None, None));
    }

    /// Reports the part as ready in a role, e.g. as standby.
    pub fn ready_as(&self, role: &'static str) {
        self.health.change(self.name, |state| (state.not_ready, state.role) = (None, Some(role)));
    }

    /// Reports the part as not ready, with the reason.
    pub fn not_ready(&self, why: impl Into<String>) {
        let why = Some(why.into());
        self.health.change(self.name, |state| (state.not_ready, state.role) = (why, None));
    }

    /// Sets the part's status for people: one JSON object.
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
