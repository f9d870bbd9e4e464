//! A load for the tailer: concurrent writers, each with its own session, and every kind of transaction.
//!
//! The statements follow from the seed; how the sessions interleave does not. The server's binlog, not the
//! load, records what was committed. A statement that can never succeed would generate no load unnoticed, so
//! unexpected errors of the sessions fail the test.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    process::Stdio,
    thread,
};

use fastrand::Rng;

use testkit::client;

/// Concurrent sessions.
const WRITERS: i64 = 4;

/// Owners of all coupons: each writer changes coupons of all of them.
const USERS: i64 = 50;

/// Statements and transactions of a session: enough for a load of one or two seconds.
const STEPS: usize = 200;

/// Most rows of an ordinary statement.
const ROWS_MAX: i64 = 40;

/// The large transaction: number of statements, and rows per statement. Above two megabytes, so that the tailer
/// buffers its rows on disk until it ends.
const LARGE: (i64, i64) = (4, 6_000);

/// Ranges of ids of one load, and of one writer in it.
const IDS_OF_LOAD: i64 = 1_000_000;
const IDS_OF_WRITER: i64 = 100_000;

/// Errors of a session that lost its server: shutdown, interrupted, killed; unreachable; gone, lost, also in
/// the middle of TLS.
const LOST: [u16; 9] = [1053, 1317, 1927, 2002, 2003, 2006, 2013, 2026, 2055];

/// Errors of a statement that conflicts with another session: lock wait timeout, deadlock, and both again
/// inside XA transactions.
const IN_THE_WAY: [u16; 4] = [1205, 1213, 1613, 1614];

/// Follow-up errors in a transaction that was rolled back for such a conflict: no such savepoint, no such XA
/// transaction, wrong XA state, work outside of one, rolled back.
const BEHIND_THAT: [u16; 5] = [1305, 1397, 1399, 1400, 1402];

/// By name, as the table may have gained columns.
const COLUMNS: &str = "id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
    expiry_shard, claimed_at, changed_at, valid_from, valid_until, used_at, order_ref, trace_parent";

/// A table that the tailer does not follow. In MariaDB it is non-transactional, which makes the server log rows
/// that are rolled back to a savepoint.
pub const DIARY: &str = "create table diary (number int)";

/// Settings of a load.
#[derive(Debug, Clone)]
pub struct Load {
    pub database_url: String,
    /// Determines the statements.
    pub seed: u64,
    /// Unique among the loads of a database; starts at 1.
    pub number: i64,
    /// Whether rows are also deleted, which the platform never does.
    pub deletes: bool,
    /// Whether one transaction is large; it takes as long as all others together.
    pub large: bool,
}

impl Load {
    /// Runs the load to its end. A session that loses its server stops.
    ///
    /// # Panics
    /// A statement fails for a reason other than a conflict with another session or a lost server.
    pub fn run(&self) {
        let complaints: Vec<String> = thread::scope(|scope| {
            let sessions: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || self.session(writer))).collect();
            sessions.into_iter().flat_map(|session| session.join().unwrap()).collect()
        });
        let seed = self.seed;
        let number = self.number;
        assert!(complaints.is_empty(), "load {number} of seed {seed} is wrong: {complaints:#?}");
    }

    /// Runs one session; returns its unexpected errors.
    fn session(&self, writer: i64) -> Vec<String> {
        let mut client = client(&self.database_url)
            // Continue after a statement that conflicts with another session.
            .arg("--force")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = client.stdin.take().unwrap();
        let mut errors = client.stderr.take().unwrap();
        // Read concurrently: a client blocks when its error pipe is full.
        let complaints = thread::spawn(move || {
            let mut said = Vec::new();
            errors.read_to_end(&mut said).unwrap();
            unexpected(&String::from_utf8_lossy(&said))
        });
        let first = self.number * IDS_OF_LOAD + writer * IDS_OF_WRITER;
        let random = Rng::with_seed(self.seed ^ first.unsigned_abs());
        let mut statements = Statements { random, first, next: first, mark: first };
        let has_large = self.large && writer == 0;
        for step in 0..STEPS {
            let text = if has_large && step == STEPS / 4 {
                statements.large()
            } else {
                statements.any(self.deletes)
            };
            if input.write_all(text.as_bytes()).is_err() {
                break;
            }
        }
        drop(input);
        client.wait().unwrap();
        complaints.join().unwrap()
    }
}

/// Returns the lines of a client's errors that neither another session nor a lost server explains.
fn unexpected(said: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut rolled_back = false;
    // Between two such lines the client repeats the failed statement.
    let own = said.split("--------------\n").step_by(2).flat_map(str::lines);
    for line in own.filter(|line| !line.is_empty()) {
        // `ERROR 1213 (40001) at line 7: Deadlock found …`
        let code = line.strip_prefix("ERROR ").and_then(|rest| rest.split(' ').next());
        match code.and_then(|code| code.parse::<u16>().ok()) {
            // All later errors follow from that.
            Some(code) if LOST.contains(&code) => break,
            Some(code) if IN_THE_WAY.contains(&code) => rolled_back = true,
            Some(code) if rolled_back && BEHIND_THAT.contains(&code) => {}
            _ => complaints.push(line.to_owned()),
        }
    }
    complaints
}

/// Generator of one session's statements.
struct Statements {
    random: Rng,
    /// The first id of its coupons.
    first: i64,
    /// The next id.
    next: i64,
    /// The last mark: each statement leaves a different one in its rows.
    mark: i64,
}

impl Statements {
    fn any(&mut self, deletes: bool) -> String {
        let rows = self.random.i64(1..=ROWS_MAX);
        match self.random.u8(0..14) {
            0..=2 => self.insert(rows),
            3..=5 => self.update(),
            6 => format!(
                "begin; {} {} {} commit;\n",
                self.insert(rows),
                self.update(),
                self.insert(1)
            ),
            7 => format!("begin; {} {} rollback;\n", self.insert(rows), self.update()),
            8 | 9 => self.savepoints(),
            10 => self.xa(),
            11 if deletes => format!("delete from user_coupon where id = {};\n", self.one()),
            11 | 12 => "insert into diary values (1);\n".to_owned(),
            _ => self.movement(),
        }
    }

    fn insert(&mut self, rows: i64) -> String {
        self.mark += 1;
        let mark = self.mark;
        let mut text = format!("insert into user_coupon ({COLUMNS}) values ");
        for id in self.next..self.next + rows {
            let user = 1 + self.random.i64(0..USERS);
            let comma = if id == self.next { "" } else { "," };
            write!(
                text,
                "{comma}({id}, 7, {user}, {id}, 9, 1, 0, 1, {user}, utc_timestamp(3), \
                 utc_timestamp(3), utc_timestamp(3), '2027-02-01', null, '{mark}', null)"
            )
            .unwrap();
        }
        self.next += rows;
        text + ";\n"
    }

    fn update(&mut self) -> String {
        self.mark += 1;
        let mark = self.mark;
        let from = self.one();
        let to = (from + self.random.i64(0..10)).min(self.next - 1);
        format!(
            "update user_coupon set version = version + 1, order_ref = '{mark}' \
             where id between {from} and {to};\n"
        )
    }

    /// Id of one of its own coupons, which may or may not exist.
    fn one(&mut self) -> i64 {
        self.random.i64(self.first..self.next.max(self.first + 1))
    }

    fn savepoints(&mut self) -> String {
        // After a write to a non-transactional table MariaDB does not log a savepoint.
        let diary =
            if self.random.bool() { "insert into diary values (2);" } else { "savepoint two;" };
        let end = if self.random.u8(0..4) == 0 { "rollback" } else { "commit" };
        format!(
            "begin; {} savepoint one; {} {diary} {} rollback to one; {} {} {end};\n",
            self.insert(2),
            self.insert(3),
            self.update(),
            self.insert(1),
            self.update(),
        )
    }

    fn xa(&mut self) -> String {
        let name = format!("'x{}'", self.next);
        let rows = format!("{} {}", self.insert(2), self.update());
        match self.random.u8(0..3) {
            0 => format!("xa start {name}; {rows} xa end {name}; xa commit {name} one phase;\n"),
            kind => {
                let end = if kind == 1 { "commit" } else { "rollback" };
                format!(
                    "xa start {name}; {rows} xa end {name}; xa prepare {name}; xa {end} {name};\n"
                )
            }
        }
    }

    fn movement(&mut self) -> String {
        self.mark += 1;
        let template = self.random.i64(1..10);
        let mark = self.mark;
        // By name, as the table has gained columns more than once.
        format!(
            "insert into stock_movement \
             (template_id, seq, delta, reason, actor, created_at, request_id) values \
             ({template}, {mark}, {mark}, 'more', 'nobody', utc_timestamp(3), '{mark}');\n"
        )
    }

    fn large(&mut self) -> String {
        let (statements, rows) = LARGE;
        let inserts: String = (0..statements).map(|_| self.insert(rows)).collect();
        format!("begin; {inserts} {} commit;\n", self.update())
    }
}

#[cfg(test)]
mod tests {
    use super::unexpected;

    const DEADLOCK: &str = "ERROR 1213 (40001) at line 3: Deadlock found when trying to get lock";
    const NO_SAVEPOINT: &str = "ERROR 1305 (42000) at line 3: SAVEPOINT one does not exist";
    const COLUMNS: &str = "ERROR 1136 (21S01) at line 4: Column count doesn't match value count";
    const LOST: &str = "ERROR 2013 (HY000) at line 9: Lost connection to server during query";

    #[test]
    fn a_session_may_complain_of_others_and_of_its_server_and_of_nothing_else() {
        let said = |lines: &[&str]| unexpected(&lines.join("\n"));
        assert!(said(&[]).is_empty());
        assert!(said(&[DEADLOCK, NO_SAVEPOINT, "", LOST, "ERROR: No connection."]).is_empty());
        let echo = "--------------";
        assert!(said(&[echo, "insert into", "a", echo, "", LOST]).is_empty());
        assert_eq!(said(&[echo, "insert", echo, "", COLUMNS]), [COLUMNS]);
        assert_eq!(said(&[DEADLOCK, COLUMNS, LOST, COLUMNS]), [COLUMNS]);
        assert_eq!(said(&[NO_SAVEPOINT]), [NO_SAVEPOINT], "nothing was rolled back");
        assert_eq!(said(&["mariadb: unknown option"]), ["mariadb: unknown option"]);
    }
}
