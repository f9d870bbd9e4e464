//! Binlog positions, and landmarks that show whether the history there is the one that was read.

use std::{path::Path, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::binlog::{
    event::{HEADER_LENGTH, Header, Role},
    gtid::{Gtid, GtidSet},
    pending::{Pending, Phase},
};

/// A position between two transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Position {
    /// The transactions before it, from which a reader resumes.
    pub(crate) gtids: GtidSet,
    /// The binlog file in which it was seen.
    pub(crate) file: Arc<File>,
    /// The offset in that file.
    pub(crate) offset: u64,
    /// The transaction that ends there; `None` if none was seen.
    pub(crate) last: Option<Last>,
    pub(crate) pending: Pending,
}

/// A binlog file of one server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct File {
    /// Identity of the server; empty if unknown.
    pub(crate) server: String,
    /// Empty if unknown.
    pub(crate) name: String,
}

/// An offset in a binlog file up to which everything was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadTo {
    pub(crate) file: Arc<File>,
    pub(crate) offset: u64,
}

/// The last transaction before a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    pub(crate) gtid: Gtid,
    /// MariaDB: server and sequence of the previous transaction in its domain; `None` if it was the first.
    pub(crate) before: Option<(u32, u64)>,
    pub(crate) landmark: Landmark,
}

/// Distinguishes a transaction from another that reuses its GTID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Landmark {
    /// Offset of its first event.
    pub(crate) start: u32,
    /// When its last rows, or its only statement, were written: seconds since 1970. A replica writes the same.
    pub(crate) written: u32,
    /// CRC32 of its first and its last event, as the server wrote them.
    pub(crate) sum: u32,
}

/// Builds a transaction's landmark from its events.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tracker {
    landmark: Landmark,
    /// CRC32 of the first event.
    begun: u32,
}

impl Tracker {
    /// Processes an event as the server wrote it, header and body.
    pub(crate) fn look(&mut self, header: &Header, event: &[u8]) {
        debug_assert!(event.len() >= HEADER_LENGTH, "the header was read of it");
        match Role::of(header.kind) {
            Role::Begins => {
                let start = header.end.saturating_sub(header.length);
                self.begun = crc32fast::hash(event);
                self.landmark = Landmark { start, ..Landmark::default() };
            }
            Role::Rows => self.landmark.written = header.timestamp,
            Role::MayEnd => {
                let mut sum = crc32fast::Hasher::new_with_initial(self.begun);
                sum.update(event);
                self.landmark.sum = sum.finalize();
                if self.landmark.written == 0 {
                    self.landmark.written = header.timestamp;
                }
            }
            Role::Other => {}
        }
    }

    /// Returns the landmark; complete only after the last event of a transaction.
    pub(crate) fn landmark(&self) -> Landmark {
        self.landmark
    }
}

impl Position {
    /// Creates a position whose file and last transaction are unknown.
    pub(crate) fn of(gtids: GtidSet) -> Self {
        Self { gtids, file: Arc::default(), offset: 0, last: None, pending: Pending::default() }
    }

    /// Advances past a transaction.
    pub(crate) fn pass(
        &mut self,
        gtid: Gtid,
        file: Arc<File>,
        end: u32,
        landmark: Landmark,
        phase: Option<&Phase>,
    ) {
        self.pending.pass(&gtid, phase);
        let before = self.gtids.add(&gtid);
        self.file = file;
        self.offset = u64::from(end);
        self.last = Some(Last { gtid, before, landmark });
    }

    /// Returns how far it is in the server's files.
    pub(crate) fn read_to(&self) -> ReadTo {
        ReadTo { file: Arc::clone(&self.file), offset: self.offset }
    }

    /// Returns the position before the last transaction.
    pub(crate) fn before(&self, last: &Last) -> GtidSet {
        let mut gtids = self.gtids.clone();
        match (&mut gtids, last.gtid, last.before) {
            (GtidSet::MariaDb(domains), Gtid::MariaDb { domain, .. }, Some(before)) => {
                domains.insert(domain, before);
            }
            _ => gtids.remove(&last.gtid),
        }
        gtids
    }
}

/// Returns the number in a name like `binlog.000042`.
pub(crate) fn file_number(file: &str) -> u64 {
    let extension = Path::new(file).extension().and_then(|extension| extension.to_str());
    extension.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::gtid::Flavor;

    #[test]
    fn the_position_before_the_last_transaction_is_the_one_that_was_passed() {
        let mut position = Position::of(GtidSet::parse(Flavor::MariaDb, "0-1-5,7-2-9").unwrap());
        for (gtid, before) in [("0-3-6", "0-1-5,7-2-9"), ("8-1-1", "0-3-6,7-2-9")] {
            let gtid = Gtid::parse(Flavor::MariaDb, gtid).unwrap();
            position.pass(gtid, Arc::default(), 100, Landmark::default(), None);
            let last = position.last.unwrap();
            assert_eq!(position.before(&last).to_string(), before);
        }
        assert_eq!(position.gtids.to_string(), "0-3-6,7-2-9,8-1-1");

        let uuid = "d4c17f0c-4f11-11ea-93e3-325d3e1cd1c8";
        let set = format!("{uuid}:1-7:9");
        let mut position = Position::of(GtidSet::parse(Flavor::MySql, &set).unwrap());
        let gtid = Gtid::parse(Flavor::MySql, &format!("{uuid}:8")).unwrap();
        position.pass(gtid, Arc::default(), 100, Landmark::default(), None);
        let before = position.before(&position.last.unwrap());
        assert_eq!(before.to_string(), set);
    }

    #[test]
    fn a_landmark_is_of_the_first_and_the_last_event_and_of_the_time_of_the_rows() {
        let header = |kind, timestamp, end| Header {
            timestamp,
            kind,
            server_id: 1,
            length: 50,
            end,
            flags: 0,
        };
        let landmark = |events: &[(u8, u32, u8)]| {
            let mut tracker = Tracker::default();
            for (end, (kind, timestamp, byte)) in (1..).zip(events) {
                tracker.look(&header(*kind, *timestamp, end * 50), &[*byte; 30]);
            }
            tracker.landmark()
        };
        let whole = [(162, 9, 1), (19, 5, 2), (23, 5, 3), (2, 6, 4), (24, 7, 5), (16, 9, 6)];
        let seen = landmark(&whole);
        assert_eq!((seen.start, seen.written), (0, 7));
        let mut other = whole;
        other[5].2 = 7;
        assert_ne!(landmark(&other).sum, seen.sum);
        assert_eq!(landmark(&[(162, 9, 1), (16, 8, 6)]), Landmark { written: 8, ..seen });
    }

    #[test]
    fn a_binlog_file_has_its_number_behind_the_dot() {
        assert_eq!(file_number("my.binlog.000042"), 42);
        assert_eq!(file_number(""), 0);
    }
}
