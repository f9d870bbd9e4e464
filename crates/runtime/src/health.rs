//! The contents of `/readyz` and `/status`: each part of a process reports its readiness, role and status.
//!
//! A part belongs to the process itself, or is a server that it needs ([`Health::server`]). Each part shows since when
//! it is up or down. A server also shows its address and sets `process_up_to`, and its outages are logged: at once, and
//! then each minute. A spare server ([`Health::spare_server`]) that is down makes the process *degraded*, not unready:
//! it can still serve its callers.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use chrono::{DateTime, Utc};
use metrics::gauge;
use serde_json::{Value, json};

use crate::{
    Clock, Outage,
    metric::{READY, UP_TO},
};

/// Reason of a part that has not reported yet.
const STARTING: &str = "starting";

/// Readiness, role and status of each part of a process. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Health {
    parts: Arc<Mutex<BTreeMap<&'static str, State>>>,
}

#[derive(Debug)]
struct State {
    not_ready: Option<String>,
    /// When it last became ready, or not ready.
    since: DateTime<Utc>,
    role: Option<&'static str>,
    status: Option<Value>,
    server: Option<Server>,
}

#[derive(Debug)]
struct Server {
    address: String,
    is_spare: bool,
    outage: Outage,
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
        self.add(name, None)
    }

    /// Adds a server that the process requires. `address` is shown and must not contain a password
    /// ([`crate::address`]).
    pub fn server(&self, name: &'static str, address: &str) -> Part {
        self.add(name, Some((address, false)))
    }

    /// Adds a server without which the process can still serve its callers.
    pub fn spare_server(&self, name: &'static str, address: &str) -> Part {
        self.add(name, Some((address, true)))
    }

    /// Returns the parts that are not ready, with their reasons. Empty means the process is ready. Spare servers do not
    /// count.
    pub fn unready(&self) -> BTreeMap<&'static str, String> {
        self.each(|state| state.not_ready.clone().filter(|_| !state.is_spare()))
    }

    /// Returns the spare servers that are down, with their reasons.
    pub fn degraded(&self) -> BTreeMap<&'static str, String> {
        self.each(|state| state.not_ready.clone().filter(|_| state.is_spare()))
    }

    /// Returns the roles of parts that are ready in one of several roles.
    pub fn roles(&self) -> BTreeMap<&'static str, &'static str> {
        self.each(|state| state.role)
    }

    /// Returns the status objects that parts have reported.
    pub fn status(&self) -> BTreeMap<&'static str, Value> {
        self.each(|state| state.status.clone())
    }

    /// Returns for each part whether it is up, since when, why not, and a server's address.
    pub fn parts(&self) -> BTreeMap<&'static str, Value> {
        self.each(|state| {
            Some(json!({
                "up": state.not_ready.is_none(),
                "since": state.since.to_rfc3339_opts(chrono::SecondsFormat::Millis, true),
                "why": state.not_ready,
                "address": state.server.as_ref().map(|server| server.address.as_str()),
            }))
        })
    }

    /// Returns the word for all parts together: `ready`, `degraded` or `not ready`.
    pub fn word(&self) -> &'static str {
        match (self.unready().is_empty(), self.degraded().is_empty()) {
            (false, _) => "not ready",
            (true, false) => "degraded",
            (true, true) => "ready",
        }
    }

    fn add(&self, name: &'static str, server: Option<(&str, bool)>) -> Part {
        let server = server.map(|(address, is_spare)| {
            let outage = Outage::of(format!("{name} at {address} cannot be used"));
            Server { address: address.to_owned(), is_spare, outage }
        });
        let role = None;
        let status = None;
        let since = Clock::system().now();
        let state = State { not_ready: Some(STARTING.to_owned()), since, role, status, server };
        let mut parts = self.lock();
        state.measure(name);
        parts.insert(name, state);
        measure_ready(&parts);
        drop(parts);
        Part { name, health: self.clone() }
    }

    fn each<T>(&self, say: impl Fn(&State) -> Option<T>) -> BTreeMap<&'static str, T> {
        let parts = self.lock();
        parts.iter().filter_map(|(name, state)| Some((*name, say(state)?))).collect()
    }

    /// Changes a part. Updates the gauges when it becomes ready or not ready.
    fn change(&self, name: &'static str, change: impl FnOnce(&mut State)) {
        let mut parts = self.lock();
        let Some(state) = parts.get_mut(name) else { return };
        let was_ready = state.not_ready.is_none();
        change(state);
        if let Some(server) = &state.server {
            match &state.not_ready {
                Some(why) => server.outage.failed(why),
                None => server.outage.over(),
            }
        }
        if was_ready != state.not_ready.is_none() {
            state.since = Clock::system().now();
            state.measure(name);
            measure_ready(&parts);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<&'static str, State>> {
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_spare(&self) -> bool {
        self.server.as_ref().is_some_and(|server| server.is_spare)
    }

    fn measure(&self, name: &'static str) {
        let Some(server) = &self.server else { return };
        let up = if self.not_ready.is_none() { 1.0 } else { 0.0 };
        gauge!(UP_TO.name, "server" => name, "address" => server.address.clone()).set(up);
    }
}

fn measure_ready(parts: &BTreeMap<&'static str, State>) {
    let is_ready = parts.values().all(|state| state.not_ready.is_none() || state.is_spare());
    gauge!(READY.name).set(if is_ready { 1.0 } else { 0.0 });
}

impl Part {
    /// Reports the part as ready.
    pub fn ready(&self) {
        self.health.change(self.name, |state| (state.not_ready, state.role) = (None, None));
    }

    /// Returns whether the part reported itself ready.
    pub fn is_ready(&self) -> bool {
        self.health.lock().get(self.name).is_some_and(|state| state.not_ready.is_none())
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
    pub fn set_status(&self, status: Value) {
        if let Some(state) = self.health.lock().get_mut(self.name) {
            state.status = Some(status);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_ready_once_every_part_is() {
        let health = Health::default();
        let gate = health.part("gate");
        let mysql = health.part("mysql");
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

    #[test]
    fn a_spare_server_that_is_down_degrades_a_process_and_says_since_when() {
        let health = Health::default();
        let mysql = health.server("mysql", "db:3306");
        let kafka = health.spare_server("kafka", "k:9092");
        assert_eq!(health.word(), "not ready");
        mysql.ready();
        assert_eq!(health.word(), "degraded");
        kafka.ready();
        assert_eq!(health.word(), "ready");
        kafka.not_ready("no broker answers");
        assert_eq!(health.degraded()["kafka"], "no broker answers");
        assert!(health.unready().is_empty());
        let parts = health.parts();
        let since = parts["kafka"]["since"].clone();
        assert_eq!(parts["kafka"]["address"], "k:9092");
        assert_eq!((&parts["kafka"]["up"], &parts["mysql"]["up"]), (&json!(false), &json!(true)));
        kafka.not_ready("still none");
        assert_eq!(health.parts()["kafka"]["since"], since, "it has been down all the time");
    }
}
