//! Contents of the topics: the first occurrence of each change in order, and the rows of the tables as the
//! changes describe them.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use tokio::time::Instant;
use topic::{
    Event, HEADER_RESTATED, Message, StockMovementRow, TableReader, UserCouponRow, decode,
};

use crate::{
    STATE_MAX,
    server_binlog::{Change, Line, ServerBinlog, Table, changes_of},
    tail::Tail,
};

/// Longest wait for another message at the end of a topic.
const LOOK: Duration = Duration::from_millis(100);

/// A row of a table: a coupon's id, version and mark, or a movement's template, number and delta.
type Row = [i64; 3];

const BATCH: usize = 10_000;

/// Stands for `op` of a row that was read anew behind a definition.
const RESTATED: &str = "restated";

/// Differences that a failure reports.
const REPORTED: usize = 10;

/// The topics, read incrementally.
pub struct TopicContents {
    readers: [(Table, TableReader); 2],
    first: HashMap<Line, Vec<Change>>,
    seen: HashSet<(Line, Change)>,
    /// The newest published state of each coupon, from snapshots too; `None` if it is deleted.
    newest: HashMap<i64, (i64, Option<Row>)>,
    /// Each published state of a coupon, and each published movement.
    rows: HashSet<(Table, Row)>,
    /// Messages that repeat an earlier one.
    pub duplicates: usize,
    /// Rows that a snapshot read.
    pub read: usize,
    /// Rows that were read anew behind a definition that may have changed them.
    pub restated: usize,
}

impl TopicContents {
    /// Starts at the beginning of existing topics.
    pub async fn open(tail: &Tail) -> Self {
        let open = async |topic: &str| TableReader::open(tail.brokers(), topic).await.unwrap();
        let readers = [
            (Table::Coupons, open(&tail.names.user_coupon()).await),
            (Table::Movements, open(&tail.names.stock_movement()).await),
        ];
        let first = HashMap::new();
        let seen = HashSet::new();
        let newest = HashMap::new();
        let rows = HashSet::new();
        Self { readers, first, seen, newest, rows, duplicates: 0, read: 0, restated: 0 }
    }

    /// Reads the topic of coupons from its beginning: it was made anew. No row in it is known any more.
    pub async fn begin_anew(&mut self, tail: &Tail) {
        let reader = TableReader::open(tail.brokers(), &tail.names.user_coupon()).await.unwrap();
        self.readers[0] = (Table::Coupons, reader);
        self.rows.retain(|(table, _)| *table != Table::Coupons);
    }

    /// Waits until `more` further changes are published.
    ///
    /// # Panics
    /// Nothing new is published for [`STATE_MAX`].
    pub async fn until_more(&mut self, more: usize) {
        let enough = self.seen.len() + more;
        let mut patience = Patience::default();
        while self.seen.len() < enough {
            assert!(
                patience.has(self.seen.len()),
                "{} of {enough} changes published",
                self.seen.len()
            );
            // One batch only: reading until a pause might not end before the load does.
            let published = self.next().await;
            self.take(published);
        }
    }

    /// Returns the number of distinct changes of a table that were published.
    pub fn count_of(&self, table: Table) -> usize {
        changes_of(table, &self.first)
    }

    /// Reads until no message arrives within [`LOOK`].
    async fn listen(&mut self) {
        loop {
            let published = self.next().await;
            if published.is_empty() {
                return;
            }
            self.take(published);
        }
    }

    /// Returns the next batch of each topic; empty if none has a message within [`LOOK`].
    async fn next(&mut self) -> Vec<(Line, Change)> {
        let mut published = Vec::new();
        for (table, reader) in &mut self.readers {
            if let Ok(batch) = tokio::time::timeout(LOOK, reader.next_batch(BATCH)).await {
                published.extend(batch.unwrap().iter().map(|message| read(*table, message)));
            }
        }
        published
    }

    /// Waits until each row in the tables is published in its current state. Then drops rows that the tables no
    /// longer hold.
    ///
    /// # Panics
    /// Nothing new is published for [`STATE_MAX`].
    pub async fn until_rows_are_published(&mut self, tail: &Tail) {
        let held = [(Table::Coupons, COUPONS), (Table::Movements, MOVEMENTS)];
        let held = held.map(|(table, select)| (table, rows(&tail.sql(select))));
        let mut patience = Patience::default();
        loop {
            self.listen().await;
            let all = held.iter().flat_map(|(table, rows)| rows.iter().map(|row| (*table, *row)));
            let missing: Vec<_> = all.filter(|row| !self.rows.contains(row)).collect();
            if missing.is_empty() {
                break;
            }
            let some = &missing[..missing.len().min(REPORTED)];
            let more_come = patience.has(missing.len());
            assert!(more_come, "{} rows are not published: {some:?}", missing.len());
        }
        let coupons = held[0].1.iter();
        self.newest = coupons.map(|row| (row[0], (row[1], Some(*row)))).collect();
        let all = held.iter().flat_map(|(table, rows)| rows.iter().map(|row| (*table, *row)));
        self.rows = all.collect();
    }

    /// Asserts that the table of coupons holds exactly the newest published states.
    ///
    /// # Panics
    /// It does not.
    pub fn assert_table(&self, tail: &Tail) {
        let held: HashSet<Row> = rows(&tail.sql(COUPONS)).into_iter().collect();
        let published: HashSet<Row> = self.newest.values().filter_map(|(_, row)| *row).collect();
        let wrong: Vec<_> = held.symmetric_difference(&published).take(REPORTED).collect();
        assert!(wrong.is_empty(), "either published or in the table, not both: {wrong:?}");
    }

    /// Drops all changes read so far, and the count of snapshot rows.
    pub async fn forget(&mut self) {
        self.listen().await;
        self.first.clear();
        self.seen.clear();
        self.read = 0;
    }

    fn take(&mut self, published: Vec<(Line, Change)>) {
        for (line, change) in published {
            let Change { op, id, version, mark } = change;
            let row = [id, version, mark];
            let is_there = op != "d";
            if is_there {
                self.rows.insert((line.0, row));
            }
            if line.0 == Table::Coupons {
                let state = (version, is_there.then_some(row));
                let known = self.newest.entry(id).or_insert(state);
                // A deletion has the version of the row that it deletes.
                if known.0 < version || known.0 == version && !is_there {
                    *known = state;
                }
            }
            if op == RESTATED {
                self.restated += 1;
            } else if op == "r" {
                self.read += 1;
            } else if self.seen.insert((line, change)) {
                self.first.entry(line).or_default().push(change);
            } else {
                self.duplicates += 1;
            }
        }
    }

    /// Waits until as many changes are published as were committed; returns the differences, empty if there are
    /// none.
    pub async fn until_published(&mut self, binlog: &ServerBinlog) -> String {
        let mut patience = Patience::default();
        loop {
            self.listen().await;
            if self.seen.len() >= binlog.count || !patience.has(self.seen.len()) {
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
            let published = self.first.get(line).unwrap_or(&nothing);
            let at = (0..right.len().max(published.len()))
                .find(|i| right.get(*i) != published.get(*i))?;
            let right = right.get(at);
            let published = published.get(at);
            Some(format!(
                "{line:?}, change {at}: committed is {right:?}, published is {published:?}\n"
            ))
        });
        differ.take(REPORTED).collect()
    }
}

/// Query for coupons; a missing mark is 0.
const COUPONS: &str = "select id, version, coalesce(order_ref, 0) from user_coupon";

/// Query for movements.
const MOVEMENTS: &str = "select template_id, seq, delta from stock_movement";

/// A timeout of [`STATE_MAX`] that restarts with each new item: a loaded machine is slow, but lost items never
/// come.
struct Patience {
    known: usize,
    until: Instant,
}

impl Default for Patience {
    fn default() -> Self {
        Self { known: usize::MAX, until: Instant::now() + STATE_MAX }
    }
}

impl Patience {
    /// Whether time is left, given the current number of known items.
    fn has(&mut self, known: usize) -> bool {
        if known != self.known {
            *self = Self { known, ..Self::default() };
        }
        Instant::now() < self.until
    }
}

/// Parses rows of three numbers from a client's output.
fn rows(printed: &str) -> Vec<Row> {
    let row = |line: &str| {
        let mut numbers = line.split('\t').map(|number| number.parse().unwrap_or(0));
        [(); 3].map(|()| numbers.next().unwrap_or(0))
    };
    printed.lines().map(row).collect()
}

/// Returns the change in a message, and the line it belongs to.
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
    let op = if message.header(HEADER_RESTATED) == Some(b"definition") { RESTATED } else { op };
    ((table, key), Change { op, id, version, mark })
}
