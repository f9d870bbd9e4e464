//! A snapshot of many chunks: killed in the middle while rows change, it goes on where it was.
//!
//! The reader of a table is let through chunk by chunk, by a session that holds the table's lock: so the
//! middle is a state that can be waited for, however quick the machine.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Lines, Write as _},
    ops::RangeInclusive,
    process::{Child, ChildStdin, ChildStdout, Stdio},
};

use pipeline_tests::{
    tail::{Tail, client, log, row, until_leading},
    until,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use topic::{Event, Message, Op, StockMovementRow, UserCouponRow, decode};

/// Rows of a chunk, as cdc-tailer/src/snapshot.rs has it.
const CHUNK: i64 = 2_000;

/// Coupons that are there before the first tailer: ten chunks and a part of one. Ids below are free.
const FIRST: i64 = 1_001;
const LAST: i64 = FIRST + 10 * CHUNK + 500;

/// Movements of two templates: chunks end in the middle of the second one's.
const MOVEMENTS: [i64; 2] = [1_500, 3_000];

/// One coupon of so many changes at a time.
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
    // All of them are read after this, and none before.
    gate.session.run(&change(0));
    gate.let_through(&tail, 3 * CHUNK).await;
    // Rows that were read, rows that were not, new ones before and behind the place where it is.
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

/// What the checkpoint has is not read again, what it does not have is read, and new coupons behind its back
/// come as changes.
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

/// The newest version of each coupon that the topic tells of is what the table holds.
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

/// They were read before the kill, and the checkpoint said so.
async fn assert_movements_read_once(tail: &Tail) {
    let messages = tail.messages(&tail.names.stock_movement()).await;
    let movements: Vec<Event<StockMovementRow>> = events(&messages);
    assert!(movements.iter().all(|event| event.op == Op::Read));
    let read = movements.into_iter().filter_map(|event| event.after);
    let read: Vec<_> = read.map(|row| (row.template_id, row.seq)).collect();
    // One key after the other may come out of order, since they lie in different partitions.
    for (template, count) in (1..).zip(MOVEMENTS) {
        let of_one: Vec<i64> = read.iter().filter(|(of, _)| *of == template).map(|r| r.1).collect();
        assert_eq!(of_one, (1..=count).collect::<Vec<_>>(), "movements of template {template}");
    }
}

fn events<R: DeserializeOwned>(messages: &[Message]) -> Vec<Event<R>> {
    messages.iter().map(|message| decode(message.payload.as_ref().unwrap()).unwrap()).collect()
}

/// The last coupon that the checkpoint says to be in the topic; 0: it is not that far.
async fn saved(tail: &Tail) -> i64 {
    let checkpoints = tail.messages(&tail.names.checkpoint()).await;
    let last = checkpoints.last().and_then(|message| message.payload.as_deref());
    let checkpoint: Value = last.map_or(Value::Null, |text| serde_json::from_slice(text).unwrap());
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

/// Changes one coupon of fifty, each time others.
fn change(rest: i64) -> String {
    format!(
        "update user_coupon set version = version + 1, order_ref = 'change {rest}' \
         where id % {CHANGED} = {rest}"
    )
}

fn insert(ids: RangeInclusive<i64>) -> String {
    let rows: Vec<String> = ids.map(row).collect();
    format!("insert into user_coupon values {}", rows.join(","))
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

/// Holds the lock of `user_coupon`: who reads it waits.
struct Gate {
    session: Session,
}

impl Gate {
    fn close(tail: &Tail) -> Self {
        let mut session = Session::open(tail);
        session.run("lock tables user_coupon write");
        Self { session }
    }

    /// Lets the reader go on, a chunk at a time, until the topic holds `rows`; then it waits again.
    async fn let_through(&mut self, tail: &Tail, rows: i64) {
        while tail.count().await < rows {
            until_held(tail).await;
            // Who waits comes before the one who asks for the lock after it.
            self.session.run("unlock tables; lock tables user_coupon write");
        }
        until_held(tail).await;
    }

    fn open(self) {
        self.session.end();
    }
}

/// A session that goes on from statement to statement.
struct Session {
    client: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn open(tail: &Tail) -> Self {
        // Unbuffered: its answer is seen when it is given.
        let mut client = client(&tail.scope.endpoints.database_url)
            .arg("--unbuffered")
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = client.stdin.take().unwrap();
        let output = BufReader::new(client.stdout.take().unwrap()).lines();
        Self { client, input, output }
    }

    /// Returns once the statements are done.
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
