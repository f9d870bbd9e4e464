//! What the topics tell: of each line of changes the first occurrences, in their order.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;
use topic::{Event, Message, StockMovementRow, TableReader, UserCouponRow, decode};

use crate::{
    STATE_MAX,
    server_binlog::{Change, Line, ServerBinlog, Table, changes_of},
    tail::{Tail, pair},
};

/// How long a topic that is read to its end is waited for.
const LOOK: Duration = Duration::from_millis(100);

/// Messages taken at a time.
const BATCH: usize = 10_000;

/// Differences that are told of.
const TOLD: usize = 10;

/// The topics, read on and on.
pub struct Heard {
    readers: [(Table, TableReader); 2],
    first: HashMap<Line, Vec<Change>>,
    seen: HashSet<(Line, Change)>,
    /// Of each coupon the newest version that was told, by a snapshot too.
    newest: HashMap<i64, i64>,
    /// Messages that told what others had told.
    pub duplicates: usize,
    /// Rows that a snapshot read.
    pub read: usize,
}

impl Heard {
    /// Begins at the beginning of topics that exist.
    pub async fn open(tail: &Tail) -> Self {
        let open = async |topic: &str| TableReader::open(tail.brokers(), topic).await.unwrap();
        let readers = [
            (Table::Coupons, open(&tail.names.user_coupon()).await),
            (Table::Movements, open(&tail.names.stock_movement()).await),
        ];
        let (first, seen, newest) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { readers, first, seen, newest, duplicates: 0, read: 0 }
    }

    /// Waits until `more` changes are told.
    ///
    /// # Panics
    /// They are not within [`STATE_MAX`].
    pub async fn until_more(&mut self, more: usize) {
        let (deadline, enough) = (Instant::now() + STATE_MAX, self.seen.len() + more);
        while self.seen.len() < enough {
            assert!(Instant::now() < deadline, "{} of {enough} changes told", self.seen.len());
            // Not all that comes while it listens: there may be no end of it before the load's.
            let told = self.next().await;
            self.take(told);
        }
    }

    /// How many changes of a table are told, each counted once.
    pub fn count_of(&self, table: Table) -> usize {
        changes_of(table, &self.first)
    }

    /// Takes what is there, and what comes in a moment.
    async fn listen(&mut self) {
        loop {
            let told = self.next().await;
            if told.is_empty() {
                return;
            }
            self.take(told);
        }
    }

    /// What comes next in each topic; nothing: in none of them a message in a moment.
    async fn next(&mut self) -> Vec<(Line, Change)> {
        let mut told = Vec::new();
        for (table, reader) in &mut self.readers {
            if let Ok(batch) = tokio::time::timeout(LOOK, reader.next_batch(BATCH)).await {
                told.extend(batch.unwrap().iter().map(|message| read(*table, message)));
            }
        }
        told
    }

    /// Waits until each coupon that the server holds is told, in that version or a later one.
    ///
    /// # Panics
    /// They are not within [`STATE_MAX`].
    pub async fn until_rows_are_told(&mut self, tail: &Tail) {
        let held = tail.sql("select id, version from user_coupon");
        let held: Vec<(i64, i64)> = held.lines().map(pair).collect();
        let deadline = Instant::now() + STATE_MAX;
        loop {
            self.listen().await;
            let is_told = |(id, version): &&(i64, i64)| {
                self.newest.get(id).is_some_and(|newest| newest >= version)
            };
            let missing: Vec<_> = held.iter().filter(|row| !is_told(row)).collect();
            if missing.is_empty() {
                return;
            }
            let some = &missing[..missing.len().min(TOLD)];
            assert!(Instant::now() < deadline, "{} rows are not told: {some:?}", missing.len());
        }
    }

    /// Forgets what was told up to here, and what a snapshot has read.
    pub async fn forget(&mut self) {
        self.listen().await;
        self.first.clear();
        self.seen.clear();
        self.read = 0;
    }

    fn take(&mut self, told: Vec<(Line, Change)>) {
        for (line, change) in told {
            if line.0 == Table::Coupons {
                let known = self.newest.entry(change.id).or_insert(change.version);
                *known = change.version.max(*known);
            }
            if change.op == "r" {
                self.read += 1;
            } else if self.seen.insert((line, change)) {
                self.first.entry(line).or_default().push(change);
            } else {
                self.duplicates += 1;
            }
        }
    }

    /// Waits until as much is told as was committed; returns what is told otherwise, empty: nothing.
    pub async fn until_told(&mut self, binlog: &ServerBinlog) -> String {
        let deadline = Instant::now() + STATE_MAX;
        loop {
            self.listen().await;
            if self.seen.len() >= binlog.count || Instant::now() >= deadline {
                return self.differences(&binlog.committed);
            }
        }
    }

    fn differences(&self, committed: &HashMap<Line, Vec<Change>>) -> String {
        let lines =
            committed.keys().chain(self.first.keys().filter(|l| !committed.contains_key(*l)));
        let nothing = Vec::new();
        let differ = lines.filter_map(|line| {
            let right = committed.get(line).unwrap_or(&nothing);
            let told = self.first.get(line).unwrap_or(&nothing);
            let at = (0..right.len().max(told.len())).find(|i| right.get(*i) != told.get(*i))?;
            let (right, told) = (right.get(at), told.get(at));
            Some(format!("{line:?}, change {at}: committed is {right:?}, told is {told:?}\n"))
        });
        differ.take(TOLD).collect()
    }
}

/// The change that a message tells of, and the line it is in.
fn read(table: Table, message: &Message) -> (Line, Change) {
    let payload = message.payload.as_ref().expect("an event");
    let (op, key, id, version, mark) = match table {
        Table::Coupons => {
            let event: Event<UserCouponRow> = decode(payload).unwrap();
            let row = event.after.or(event.before).unwrap();
            let mark = row.order_ref.and_then(|mark| mark.parse().ok()).unwrap_or(0);
            (event.op.letter(), row.user_id, row.id, row.version, mark)
        }
        Table::Movements => {
            let event: Event<StockMovementRow> = decode(payload).unwrap();
            let row = event.after.or(event.before).unwrap();
            (event.op.letter(), row.template_id, row.template_id, row.seq, row.delta)
        }
    };
    assert_eq!(message.key, key.to_string().as_bytes(), "the message's key");
    ((table, key), Change { op, id, version, mark })
}
