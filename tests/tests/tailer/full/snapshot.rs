//! A snapshot of many chunks that is killed in the middle while rows change resumes where it was.
//!
//! A session holds the table's lock and lets the snapshot's reader through chunk by chunk, so a test can wait for
//! the middle, however fast the machine is.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Lines, Write as _},
    ops::RangeInclusive,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use pipeline_tests::{
    tail::{Tail, log, row, until_leading},
    until,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use testkit::{client, insert_coupons};
use topic::{Event, Message, Op, StockMovementRow, UserCouponRow, decode};

/// Rows of a chunk, as in cdc-tailer/src/leader/snapshot.rs.
const CHUNK: i64 = 2_000;

/// Coupons that exist before the first tailer: ten chunks and part of another. Lower ids are free.
const FIRST: i64 = 1_001;
const LAST: i64 = FIRST + 10 * CHUNK + 500;

/// Movements of two templates: a chunk ends in the middle of the second template's.
const MOVEMENTS: [i64; 2] = [1_500, 3_000];

/// Each change affects one of this many coupons.
const CHANGED: i64 = 50;

/// Changes while the rest is read.
const CHANGES: i64 = 10;

#[tokio::test]
async fn a_snapshot_killed_in_the_middle_goes_on_behind_its_last_chunk_while_rows_change() {
    let mut tail = Tail::on_shared_servers("chunks").await;
    tail.insert(FIRST..=LAST);
    insert_movements(&tail);
    tail.make_topics().await;
    let mut gate = Gate::close(&tail);
    tail.tailer().spawn().unwrap();
    until_held(&tail).await;
    // All coupons are read after this change, none before.
    gate.session.run(&change(0));
    gate.let_through(&tail, 3 * CHUNK).await;
    // Rows already read, rows not yet read, and new rows before and after the current position.
    gate.session.run(&change(1));
    gate.session.run(&insert(1..=100));
    gate.session.run(&insert(LAST + 1..=LAST + 100));
    let saved = until(async || saved(&tail).await, |id| *id >= FIRST + 2 * CHUNK - 1).await;
    let read = tail.count().await;
    assert!((3 * CHUNK..LAST - FIRST).contains(&read), "{read} rows are read: not the middle");
    tail.tailer().kill().unwrap();
    gate.open();

    tail.tailer().spawn().unwrap();
    for rest in 2..2 + CHANGES {
        tail.sql(&change(rest));
    }
    until_leading(tail.tailer()).await;
    tail.sql(&change(2 + CHANGES));
    tail.until_complete().await;
    assert!(log(tail.tailer()).contains("going on"), "{}", log(tail.tailer()));
    let coupons: Vec<Event<UserCouponRow>> = events(&tail.coupon_messages().await);
    assert_coupons_read(&coupons, saved);
    assert_as_in_table(&tail, coupons);
    assert_movements_read_once(&tail).await;
    tail.assert_complete().await;
    tail.end();
}

/// Asserts that coupons in the checkpoint were read once, the others at least once, and new coupons below the range
/// only came as changes.
fn assert_coupons_read(coupons: &[Event<UserCouponRow>], saved: i64) {
    let mut read: HashMap<i64, usize> = HashMap::new();
    for event in coupons.iter().filter(|event| event.op == Op::Read) {
        *read.entry(event.after.as_ref().unwrap().id).or_default() += 1;
    }
    for id in 1..=LAST {
        let times = read.get(&id).copied().unwrap_or(0);
        let right = match id {
            ..FIRST => times == 0,
            id if id <= saved => times == 1,
            _ => (1..=2).contains(&times),
        };
        assert!(right, "coupon {id} was read {times} times, the checkpoint had them up to {saved}");
    }
}

/// Asserts that the newest published version of each coupon is the one in the table.
fn assert_as_in_table(tail: &Tail, coupons: Vec<Event<UserCouponRow>>) {
    let mut newest: HashMap<i64, UserCouponRow> = HashMap::new();
    for row in coupons.into_iter().filter_map(|event| event.after) {
        if newest.get(&row.id).is_none_or(|known| known.version <= row.version) {
            newest.insert(row.id, row);
        }
    }
    let held = tail.sql("select id, version, user_id, order_ref from user_coupon");
    assert_eq!(newest.len(), held.lines().count());
    for line in held.lines() {
        let id: i64 = line.split('\t').next().unwrap().parse().unwrap();
        let UserCouponRow { version, user_id, order_ref, .. } = &newest[&id];
        let order_ref = order_ref.as_deref().unwrap_or("NULL");
        assert_eq!(format!("{id}\t{version}\t{user_id}\t{order_ref}"), line);
    }
}

/// Asserts that movements were read once: they were in the checkpoint before the kill.
async fn assert_movements_read_once(tail: &Tail) {
    let messages = tail.messages(&tail.names.stock_movement()).await;
    let movements: Vec<Event<StockMovementRow>> = events(&messages);
    assert!(movements.iter().all(|event| event.op == Op::Read));
    let read = movements.into_iter().filter_map(|event| event.after);
    let read: Vec<_> = read.map(|row| (row.template_id, row.seq)).collect();
    // Different keys may be out of order, since they are in different partitions.
    for (template, count) in (1..).zip(MOVEMENTS) {
        let of_one: Vec<i64> = read.iter().filter(|(of, _)| *of == template).map(|r| r.1).collect();
        assert_eq!(of_one, (1..=count).collect::<Vec<_>>(), "movements of template {template}");
    }
}

fn events<R: DeserializeOwned>(messages: &[Message]) -> Vec<Event<R>> {
    messages.iter().map(|message| decode(message.payload.as_ref().unwrap()).unwrap()).collect()
}

/// Waits until a checkpoint says that no snapshot is in progress.
pub(crate) async fn until_none_is_saved(tail: &Tail) {
    let is_over = |saved: &Option<Value>| saved.as_ref().is_some_and(|it| it["snapshot"].is_null());
    until(async || checkpoint(tail).await, is_over).await;
}

/// Returns the last checkpoint.
async fn checkpoint(tail: &Tail) -> Option<Value> {
    let checkpoints = tail.messages(&tail.names.checkpoint()).await;
    let last = checkpoints.last().and_then(|message| message.payload.as_deref());
    last.map(|text| serde_json::from_slice(text).unwrap())
}

/// Returns the last coupon that the checkpoint records as published; 0 if the snapshot is not that far.
async fn saved(tail: &Tail) -> i64 {
    let checkpoint = checkpoint(tail).await.unwrap_or_default();
    let snapshot = &checkpoint["snapshot"];
    match snapshot["tables"][0].as_str() {
        Some("user_coupon") => snapshot["after"][0].as_i64().unwrap_or(0),
        _ => 0,
    }
}

/// Waits until a session waits for the table.
async fn until_held(tail: &Tail) {
    let waiting = "select count(*) from information_schema.processlist \
                   where db = database() and state like 'waiting for table%'";
    until(async || tail.sql(waiting), |waiting| waiting.trim() != "0").await;
}

/// A statement that changes one coupon in fifty, different ones for each `rest`.
fn change(rest: i64) -> String {
    format!(
        "update user_coupon set version = version + 1, order_ref = 'change {rest}' \
         where id % {CHANGED} = {rest}"
    )
}

fn insert(ids: RangeInclusive<i64>) -> String {
    insert_coupons(ids.map(row))
}

fn insert_movements(tail: &Tail) {
    let of_one = |(template, count): (i64, i64)| {
        (1..=count)
            .map(move |seq| format!("({template}, {seq}, 1, 'more', 'nobody', '2026-01-02')"))
    };
    let rows: Vec<String> = (1..).zip(MOVEMENTS).flat_map(of_one).collect();
    tail.sql(&format!(
        "insert into stock_movement (template_id, seq, delta, reason, actor, created_at) values {}",
        rows.join(",")
    ));
}

/// Holds a lock on `user_coupon`, so that readers wait.
struct Gate {
    session: Session,
}

impl Gate {
    fn close(tail: &Tail) -> Self {
        let mut session = Session::open(tail);
        session.run("lock tables user_coupon write");
        Self { session }
    }

    /// Lets the reader continue, a chunk at a time, until the topic holds `rows`; then it waits again.
    async fn let_through(&mut self, tail: &Tail, rows: i64) {
        while tail.count().await < rows {
            until_held(tail).await;
            // The waiting reader gets the lock before the session that requests it afterwards.
            self.session.run("unlock tables; lock tables user_coupon write");
        }
        until_held(tail).await;
    }

    fn open(self) {
        self.session.end();
    }
}

/// A session that runs statement after statement.
struct Session {
    client: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn open(tail: &Tail) -> Self {
        // Unbuffered, so that each answer is visible at once.
        let mut client = client(&tail.scope.endpoints.database_url)
            .arg("--unbuffered")
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = client.stdin.take().unwrap();
        let output = BufReader::new(client.stdout.take().unwrap()).lines();
        Self { client, input, output }
    }

    /// Runs statements, and waits until they are done.
    fn run(&mut self, statements: &str) {
        writeln!(self.input, "{statements}; select 'done';").unwrap();
        let answer = self.output.next().expect("no statement failed").unwrap();
        assert_eq!(answer, "done");
    }

    fn end(mut self) {
        drop(self.input);
        self.client.wait().unwrap();
    }
}
