//! Status of the leader: metrics, `/status`, and a warning before the server removes binlog that the checkpoint needs.

use std::time::Duration;

use runtime::{Part, Secret};
use serde_json::json;
use tokio::sync::watch;
use tracing::{error, info};

use crate::{
    binlog::position::{Position, ReadTo, file_number},
    leader::{
        binlog_backlog::{self, PolledFiles},
        checkpoint::Checkpoint,
        snapshot::SnapshotProgress,
    },
    metrics,
    publish::count,
};

/// Divisor of the binlog's expiry: a checkpoint of half that age causes a warning, which leaves half of the time to
/// act.
const WARN_SHARE: u32 = 2;

/// Reports on one leadership.
pub(crate) struct LeaderStatus {
    files: PolledFiles,
    written: watch::Receiver<Option<Checkpoint>>,
    /// Rows in the snapshot's tables, as estimated by the server.
    pub(crate) rows_guessed: u64,
    warned: bool,
}

/// Values to report.
pub(crate) struct Facts<'a> {
    pub(crate) server_id: u32,
    /// Everything up to here is acknowledged.
    pub(crate) safe: &'a Position,
    /// How far the server's files are done with.
    pub(crate) read_to: ReadTo,
    /// When that position covered all changes.
    pub(crate) as_of_ms: i64,
    pub(crate) now_ms: i64,
    pub(crate) unacknowledged: usize,
    pub(crate) queue_bytes: usize,
    pub(crate) snapshot: Option<&'a SnapshotProgress>,
    pub(crate) holds_seat: bool,
}

impl LeaderStatus {
    pub(crate) fn new(database_url: Secret, written: watch::Receiver<Option<Checkpoint>>) -> Self {
        let files = binlog_backlog::watch(database_url);
        Self { files, written, rows_guessed: 0, warned: false }
    }

    /// Updates the metrics and the status, and warns of an old checkpoint.
    pub(crate) fn report(&mut self, facts: &Facts<'_>, part: &Part) {
        let files = self.files.borrow().clone();
        let behind =
            files.as_ref().and_then(|seen| binlog_backlog::bytes_behind(seen, &facts.read_to));
        let expiry = files.as_ref().and_then(|seen| seen.expiry);
        let gtid = facts.safe.gtids.to_string();
        let age = self.checkpoint_age(facts, &gtid);
        self.warn_in_time(age, expiry);

        ::metrics::gauge!(metrics::LEADS.name).set(1.0);
        if let Some(bytes) = behind {
            ::metrics::gauge!(metrics::LAG_BYTES.name).set(number(bytes));
        }
        ::metrics::gauge!(metrics::POSITION.name).set(number(facts.safe.offset));
        ::metrics::gauge!(metrics::POSITION_FILE.name)
            .set(number(file_number(&facts.safe.file.name)));
        ::metrics::gauge!(metrics::CHECKPOINT_AGE.name)
            .set(age.map_or(0.0, |age| age.as_secs_f64()));
        let kept = expiry.unwrap_or_default();
        ::metrics::gauge!(metrics::BINLOG_EXPIRY.name).set(kept.as_secs_f64());
        let left = facts.snapshot.map_or(0, |progress| progress.tables().len());
        ::metrics::gauge!(metrics::SNAPSHOT_TABLES_LEFT.name).set(count(left));
        let progress = facts.snapshot.map_or(1.0, |progress| self.ratio(progress));
        ::metrics::gauge!(metrics::SNAPSHOT_PROGRESS.name).set(progress);

        ::metrics::gauge!(metrics::PREPARED_BEFORE.name)
            .set(count(facts.safe.pending.unread.len()));

        part.set_status(json!({
            "role": "leader",
            "holds_seat": facts.holds_seat,
            "server": facts.safe.file.server,
            "server_id": facts.server_id,
            "gtid": gtid,
            "file": facts.safe.file.name,
            "offset": facts.safe.offset,
            "as_of_ms": facts.as_of_ms,
            "lag_bytes": behind,
            "unacknowledged_transactions": facts.unacknowledged,
            "queue_bytes": facts.queue_bytes,
            "checkpoint": {
                "gtid": self.written.borrow().as_ref().map(|written| written.gtid().to_owned()),
                "age_seconds": age.map(|age| age.as_secs()),
            },
            "binlog_expiry_seconds": expiry.map(|expiry| expiry.as_secs()),
            "prepared_before_snapshot": facts.safe.pending.unread.len(),
            "snapshot": facts.snapshot.map(|progress| json!({
                "tables_left": progress.tables(),
                "rows": progress.rows(),
                "rows_guessed": self.rows_guessed,
            })),
        }));
    }

    /// Returns the age of the oldest binlog that a successor would need; `None` before the first checkpoint.
    fn checkpoint_age(&self, facts: &Facts<'_>, gtid: &str) -> Option<Duration> {
        let written = self.written.borrow();
        let written = written.as_ref()?;
        // On an idle server the position does not age.
        let as_of_ms = if written.gtid() == gtid { facts.as_of_ms } else { written.as_of_ms };
        Some(Duration::from_millis((facts.now_ms - as_of_ms).max(0).unsigned_abs()))
    }

    fn warn_in_time(&mut self, age: Option<Duration>, expiry: Option<Duration>) {
        let (Some(age), Some(expiry)) = (age, expiry) else { return };
        let is_old = age >= expiry / WARN_SHARE;
        if is_old && !self.warned {
            error!(
                checkpoint.age_seconds = age.as_secs(),
                binlog.expiry_seconds = expiry.as_secs(),
                "the checkpoint is older than half of what the server keeps of its binlog; if the \
                 server removes what comes after it, all tables will be read anew: raise \
                 binlog_expire_logs_seconds, end the XA transactions that `xa recover` shows, if any, and see why \
                 this tailer does not get on"
            );
        } else if self.warned && !is_old {
            info!(checkpoint.age_seconds = age.as_secs(), "the checkpoint is young again");
        }
        self.warned = is_old;
    }

    fn ratio(&self, progress: &SnapshotProgress) -> f64 {
        let guessed = self.rows_guessed.max(progress.rows()).max(1);
        number(progress.rows()) / number(guessed)
    }
}

/// Converts a number for a gauge; exact up to 2^53.
fn number(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use topic::Acknowledged;

    use super::*;
    use crate::binlog::gtid::{Flavor, GtidSet};

    /// The server's binlog retention. Half of it is 50 s.
    const EXPIRY: Option<Duration> = Some(Duration::from_secs(100));

    fn status(written: Option<Checkpoint>) -> LeaderStatus {
        let files = watch::Sender::new(None);
        let written = watch::Sender::new(written);
        LeaderStatus {
            files: files.subscribe(),
            written: written.subscribe(),
            rows_guessed: 0,
            warned: false,
        }
    }

    fn position(gtids: &str) -> Position {
        let gtids = GtidSet::parse(Flavor::MariaDb, gtids).unwrap();
        Position::of(gtids)
    }

    fn facts(safe: &Position, as_of_ms: i64, now_ms: i64) -> Facts<'_> {
        Facts {
            server_id: 2,
            safe,
            read_to: safe.read_to(),
            as_of_ms,
            now_ms,
            unacknowledged: 0,
            queue_bytes: 0,
            snapshot: None,
            holds_seat: true,
        }
    }

    #[test]
    fn a_checkpoint_is_warned_of_from_half_of_the_expiry_on_and_not_before() {
        let mut status = status(None);
        let warned = |age_ms| {
            status.warn_in_time(Some(Duration::from_millis(age_ms)), EXPIRY);
            status.warned
        };
        let ages = [0, 49_999, 50_000, 99_000, 250_000, 49_999, 50_000];
        assert_eq!(ages.map(warned), [false, false, true, true, true, false, true]);
    }

    #[test]
    fn nothing_is_warned_of_while_age_or_expiry_are_not_known() {
        let mut status = status(None);
        status.warn_in_time(None, EXPIRY);
        status.warn_in_time(Some(Duration::MAX), None);
        assert!(!status.warned);
        // The warning stays while the server briefly does not answer.
        status.warn_in_time(Some(Duration::from_secs(60)), EXPIRY);
        status.warn_in_time(Some(Duration::from_secs(60)), None);
        assert!(status.warned);
    }

    #[test]
    fn a_checkpoint_ages_with_transactions_that_it_lacks_and_not_with_silence() {
        let [old, new] = ["0-1-5", "0-1-6"].map(position);
        let written = Checkpoint::new(&old, &old.file, 1_000, Acknowledged::new(), None);
        let age = |written: Option<&Checkpoint>, safe: &Position, as_of_ms, now_ms| {
            let gtid = safe.gtids.to_string();
            status(written.cloned()).checkpoint_age(&facts(safe, as_of_ms, now_ms), &gtid)
        };
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(age(None, &new, 60_000, 61_000), None, "none is written");
        assert_eq!(age(Some(&written), &new, 60_000, 61_000), ms(60_000), "it lacks a transaction");
        assert_eq!(age(Some(&written), &old, 60_000, 61_000), ms(1_000), "there is no other");
        assert_eq!(age(Some(&written), &old, 62_000, 61_000), ms(0), "the server's clock is ahead");
    }
}
