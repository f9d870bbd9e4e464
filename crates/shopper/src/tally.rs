//! Counts of a crowd's answers.

use verifier::{History, Record};

/// Answers by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests sent, including retries and duplicates, and the ends of claims that were followed.
    pub requests: u64,
    /// Landed claims, each counted once.
    pub landed: u64,
    /// Answered 202: their end comes later, and counts as an answer of its own.
    pub accepted: u64,
    /// Answers that repeated an earlier one.
    pub replays: u64,
    /// Refused because no stock, or too little, was left.
    pub sold_out: u64,
    /// Refused because of the limit per user.
    pub over_limit: u64,
    /// Answered "not now": sent again.
    pub passing: u64,
    /// Not answered: sent again.
    pub unknown: u64,
    /// Any other answer.
    pub other: u64,
}

impl Tally {
    /// Counts a history's answers.
    pub fn of(history: &History) -> Self {
        let mut tally = Self::default();
        history.records.iter().for_each(|record| tally.count(record));
        tally
    }

    fn count(&mut self, record: &Record) {
        self.requests += 1;
        let kind = match (record.status, record.code.as_deref()) {
            (None, _) => &mut self.unknown,
            (Some(202), _) => &mut self.accepted,
            (Some(201), _) if record.replayed => &mut self.replays,
            (Some(201), _) => &mut self.landed,
            (Some(409), Some("SOLD_OUT" | "INSUFFICIENT_STOCK")) => &mut self.sold_out,
            (Some(409), Some("LIMIT_REACHED")) => &mut self.over_limit,
            (Some(_), _) if !record.is_refused() => &mut self.passing,
            (Some(_), _) => &mut self.other,
        };
        *kind += 1;
    }
}
