//! A load for the tailer: writers side by side, each with a session of its own, and everything that a
//! transaction can be.
//!
//! Statements follow from the seed; how the sessions mix does not. Nobody keeps account of what of it
//! was committed: the server's binlog says so. But a statement that never can succeed would load nothing
//! and nobody would see it, so what the sessions complain of is listened to.

use std::{
    fmt::Write as _,
    io::{Read as _, Write as _},
    process::Stdio,
    thread,
};

use fastrand::Rng;

use crate::tail::client;

/// Sessions side by side.
const WRITERS: i64 = 4;

/// Users of all coupons: each writer changes coupons of all of them.
const USERS: i64 = 50;

/// Statements and transactions of a session. With them a load lasts a second or two.
const STEPS: usize = 200;

/// Most rows of an ordinary statement.
const ROWS_MAX: i64 = 40;

/// The large transaction: statements, and rows of each. More than two megabytes, so that the tailer keeps
/// its rows on disk until it ends.
const LARGE: (i64, i64) = (4, 6_000);

/// Ids of one load, and of one writer in it.
const IDS_OF_LOAD: i64 = 1_000_000;
const IDS_OF_WRITER: i64 = 100_000;

/// Errors of a session whose server goes away: shutdown, interrupted, killed; not there; gone, lost, also in
/// the middle of TLS.
const LOST: [u16; 9] = [1053, 1317, 1927, 2002, 2003, 2006, 2013, 2026, 2055];

/// Errors of a statement that another session is in the way of: a lock waited for too long, a deadlock, and
/// both once more inside XA transactions.
const IN_THE_WAY: [u16; 4] = [1205, 1213, 1613, 1614];

/// What the rest of a transaction meets that was rolled back for that: no such savepoint, no such XA
/// transaction, not in this state of one, work outside of one, rolled back.
const BEHIND_THAT: [u16; 5] = [1305, 1397, 1399, 1400, 1402];

/// By name: the table may have got more columns.
const COLUMNS: &str = "id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
    expiry_shard, claimed_at, changed_at, valid_from, valid_until, used_at, order_ref, trace_parent";

/// A table without followed rows. In MariaDB one without transactions: it makes the server log rows that
/// are rolled back to a savepoint.
pub const DIARY: &str = "create table diary (number int)";

/// What differs between loads.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where to.
    pub database_url: String,
    /// What the statements follow from.
    pub seed: u64,
    /// No two loads of a database have one number, which begins with 1.
    pub number: i64,
    /// Whether rows are deleted too, as the platform never does.
    pub deletes: bool,
    /// Whether one transaction is large: it takes as long as all the rest.
    pub large: bool,
}

impl Load {
    /// Runs it to its end. A session that loses its server goes no further.
    ///
    /// # Panics
    /// A statement fails for another reason than the other sessions, or a server that is lost.
    pub fn run(&self) {
        let complaints: Vec<String> = thread::scope(|scope| {
            let sessions: Vec<_> =
                (0..WRITERS).map(|writer| scope.spawn(move || self.session(writer))).collect();
            sessions.into_iter().flat_map(|session| session.join().unwrap()).collect()
        });
        let (seed, number) = (self.seed, self.number);
        assert!(complaints.is_empty(), "load {number} of seed {seed} is wrong: {complaints:#?}");
    }

    /// Runs one session; returns what it should not have had to complain of.
    fn session(&self, writer: i64) -> Vec<String> {
        let mut client = client(&self.database_url)
            // A statement that another session is in the way of is not the end.
            .arg("--force")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = client.stdin.take().unwrap();
        let mut errors = client.stderr.take().unwrap();
        // Meanwhile: a client whose complaints nobody takes stands still.
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

/// The lines of a client's errors that neither another session nor a lost server explains.
fn unexpected(said: &str) -> Vec<String> {
    let (mut complaints, mut rolled_back) = (Vec::new(), false);
    // Between two such lines a client repeats the statement that it complains of.
    let own = said.split("--------------\n").step_by(2).flat_map(str::lines);
    for line in own.filter(|line| !line.is_empty()) {
        // `ERROR 1213 (40001) at line 7: Deadlock found …`
        let code = line.strip_prefix("ERROR ").and_then(|rest| rest.split(' ').next());
        match code.and_then(|code| code.parse::<u16>().ok()) {
            // What it says from then on follows from that.
            Some(code) if LOST.contains(&code) => break,
            Some(code) if IN_THE_WAY.contains(&code) => rolled_back = true,
            Some(code) if rolled_back && BEHIND_THAT.contains(&code) => {}
            _ => complaints.push(line.to_owned()),
        }
    }
    complaints
}

/// One session's statements.
struct Statements {
    random: Rng,
    /// Its first coupon.
    first: i64,
    /// Its next.
    next: i64,
    /// Its last mark: each statement leaves another one in its rows.
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
        let (mark, from) = (self.mark, self.one());
        let to = (from + self.random.i64(0..10)).min(self.next - 1);
        format!(
            "update user_coupon set version = version + 1, order_ref = '{mark}' \
             where id between {from} and {to};\n"
        )
    }

    /// A coupon of its own, which may be there or not.
    fn one(&mut self) -> i64 {
        self.random.i64(self.first..self.next.max(self.first + 1))
    }

    fn savepoints(&mut self) -> String {
        // Behind a table without transactions MariaDB takes no savepoint.
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
        let (template, mark) = (self.random.i64(1..10), self.mark);
        // By name: the table has got columns more than once.
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
