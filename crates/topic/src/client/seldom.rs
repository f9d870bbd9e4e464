//! Log lines of the Kafka client about lost connections: each client writes one for each broker and attempt.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Interval between two lines of one kind, over all clients of the process. `/readyz` reports the outage too.
const SAY_EVERY: Duration = Duration::from_mins(1);

/// Facilities of lines about connections, which repeat.
const OF_CONNECTIONS: [&str; 2] = ["FAIL", "ERROR"];

/// Mark of a line about TLS. Only such lines say why a certificate was not accepted.
const OF_TLS: &str = "SSL";

/// When a line of each kind was last written.
#[derive(Default)]
struct Said(HashMap<(&'static str, bool), Instant>);

static SAID: Mutex<Option<Said>> = Mutex::new(None);

/// Returns whether a line is to be written now.
pub(crate) fn is_due(facility: &str, line: &str) -> bool {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.get_or_insert_default().is_due(facility, line, Instant::now())
}

impl Said {
    fn is_due(&mut self, facility: &str, line: &str, now: Instant) -> bool {
        let Some(facility) = OF_CONNECTIONS.into_iter().find(|known| *known == facility) else {
            return true;
        };
        let kind = (facility, line.contains(OF_TLS));
        let last = self.0.get(&kind);
        let is_due = last.is_none_or(|last| now.saturating_duration_since(*last) >= SAY_EVERY);
        if is_due {
            self.0.insert(kind, now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_connections_come_once_a_minute_and_all_others_always() {
        let mut said = Said::default();
        let start = Instant::now();
        let mut count = |facility: &str, line: &str| {
            let at = |second| start + Duration::from_secs(second);
            (0..120).filter(|second| said.is_due(facility, line, at(*second))).count()
        };
        assert_eq!(count("FAIL", "k:9092: Connect failed: Connection refused"), 2);
        assert_eq!(count("FAIL", "k:9092: SSL handshake failed"), 2, "another kind");
        assert_eq!(count("ERROR", "1/1 brokers are down"), 2);
        assert_eq!(count("CONFWARN", "a setting"), 120);
    }
}
