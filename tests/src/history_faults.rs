//! Upheavals, which replace a server or its history, or stop the tailers: a reset of the binlog, a restore from a
//! backup, a session in statement format, an address that leads to another server.

use std::{fmt, fs, path::PathBuf, process::Command, time::Duration};

use devstack::{Flavor, OwnDatabase, Process, Replication, Role, at_last};
use fastrand::Rng;
use testkit::{Proxy, sql, try_sql};

use crate::{
    tail::{Tail, until_leading},
    until,
};

/// Longest wait for tailers to end by themselves: the standby takes the lead first.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Statements of sessions in statement format. Three of them need [`CREATE_DETOURS`].
const STATEMENTS: [&str; 6] = [
    "insert into diary values (9)",
    "update user_coupon set version = version + 1 where id % 50 = 7",
    "delete from user_coupon where id % 50 = 9",
    "update seen set version = version + 1 where id % 50 = 7",
    "insert into setting_off values (1)",
    "select touching()",
];

/// A view, a trigger and a function through which a statement changes coupons without naming their table.
pub const CREATE_DETOURS: &str = "
    create view seen as select id, version from user_coupon;
    create table setting_off (number int);
    create trigger sets_off after insert on setting_off for each row
        update user_coupon set version = version + 1 where id % 50 = 7;
    delimiter //
    create function touching() returns int modifies sql data not deterministic begin
        update user_coupon set version = version + 1 where id % 50 = 7; return 1; end //
    delimiter ;";

/// Number of sessions to which a server sends its binlog.
const FOLLOWED: &str =
    "select count(*) from information_schema.processlist where command like 'Binlog Dump%'";

/// Circumstances: under load, unseen.
const CIRCUMSTANCES: [(bool, bool); 4] =
    [(false, false), (false, true), (true, false), (true, true)];

/// Statements of a deck.
const STATEMENTS_OF_DECK: u64 = 3;

/// Upheavals that are dealt from one deck: resets and restores in all circumstances, runs without binlog with and without
/// a tailer, statements, a missing file, an address that leads elsewhere, and a topic that is made anew with and without
/// load.
const DECK: u64 = 4 + 4 + 2 + STATEMENTS_OF_DECK + 1 + 1 + 2;

/// Kind of upheaval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server deletes its binlog and restarts its numbering.
    Reset,
    /// The binlog contains a statement in place of rows: the tailers end, and one is started with `--resnapshot`.
    Statement(&'static str),
    /// The server is restored to its state before the last changes.
    Restore,
    /// A file between two others is missing from the binlog, of which no tailer has read anything.
    FileGone,
    /// The server runs without its binlog for a while.
    NoBinlog,
    /// The topic of coupons is removed and made anew.
    TopicAnew,
    /// The server's address leads to another one with the same data, while it runs on, read-only. Then the other one's data
    /// replaces its own, and the address leads back.
    AddressMoved,
}

/// An upheaval and its circumstances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryFault {
    pub kind: Kind,
    /// Whether it comes in the middle of a load, or after all of the load is published.
    pub is_under_load: bool,
    /// Whether no tailer runs until the server's new history has progressed.
    pub is_unseen: bool,
}

impl HistoryFault {
    /// Returns an upheaval of the campaign with that seed; `number` counts from 0. Each deck of them holds all kinds in
    /// all circumstances, whatever the seed.
    pub fn of_campaign(seed: u64, number: u64) -> Self {
        let deck = number / DECK;
        let turn = usize::try_from(number % DECK).unwrap();
        let mut random = Rng::with_seed(seed.wrapping_add(deck));
        let mut dealt = |kind| {
            let mut circumstances = CIRCUMSTANCES;
            random.shuffle(&mut circumstances);
            circumstances.map(|(is_under_load, is_unseen)| Self { kind, is_under_load, is_unseen })
        };
        let [resets, restores] = [dealt(Kind::Reset), dealt(Kind::Restore)];
        let statements = (0..STATEMENTS_OF_DECK).map(|turn| {
            let first = seed % STATEMENTS.len() as u64;
            let statement = first + deck * STATEMENTS_OF_DECK + turn;
            let statement = usize::try_from(statement).unwrap() % STATEMENTS.len();
            let is_under_load = (deck + turn) % 2 == 1;
            // Tailers must run to be stopped by a statement.
            Self { kind: Kind::Statement(STATEMENTS[statement]), is_under_load, is_unseen: false }
        });
        let quiet = |kind, is_unseen| Self { kind, is_under_load: false, is_unseen };
        let mut others = vec![
            quiet(Kind::FileGone, true),
            quiet(Kind::NoBinlog, true),
            quiet(Kind::NoBinlog, false),
            quiet(Kind::AddressMoved, false),
            quiet(Kind::TopicAnew, false),
            Self { is_under_load: true, ..quiet(Kind::TopicAnew, false) },
        ];
        random.shuffle(&mut others);
        // Each kind comes early.
        let mut piles = [resets.to_vec(), restores.to_vec(), statements.collect(), others];
        let mut deck = Vec::new();
        while deck.len() < piles.iter().map(Vec::len).sum::<usize>() + deck.len() {
            deck.extend(piles.iter_mut().filter_map(Vec::pop));
        }
        deck[turn]
    }
}

impl fmt::Display for HistoryFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Reset => "binlog reset",
            Kind::Statement(_) => "statement in place of rows",
            Kind::Restore => "backup restored",
            Kind::FileGone => "file of the binlog gone",
            Kind::NoBinlog => "run without binlog",
            Kind::TopicAnew => "topic made anew",
            Kind::AddressMoved => "address led to another server and back",
        })?;
        f.write_str(if self.is_under_load { " under load" } else { "" })?;
        f.write_str(if self.is_unseen { " while no tailer runs" } else { "" })
    }
}

/// Makes a server delete its binlog and restart its numbering.
pub async fn reset(tail: &Tail, flavor: Flavor) {
    let statement = flavor.words().begin_anew;
    // MySQL refuses it while a transaction is about to get a GTID.
    at_last(async || try_sql(&tail.scope.endpoints.database_url, statement)).await;
}

/// Logs a statement in place of rows, waits until both tailers end, and recovers with `--resnapshot`.
pub async fn stop_by_a_statement(tail: &mut Tail, second: &mut Process, statement: &str) {
    let url = &tail.scope.endpoints.database_url;
    let statement = format!("set session binlog_format = 'STATEMENT'; {statement}");
    // Other sessions may conflict with it.
    at_last(async || try_sql(url, &statement)).await;
    for tailer in [tail.tailer(), second] {
        let status = tailer.wait_exit(ENDS_WITHIN).await.unwrap();
        assert_eq!(status.code(), Some(1), "it does not end with an error");
    }
    tail.tailer().set_arguments(["--resnapshot"]);
    tail.lead().await;
    let left = async || tail.platform.cdc_tailer.metric("cdc_tailer_snapshot_tables_left").await;
    until(left, |left| *left == Some(0.0)).await;
    tail.tailer().stop().await.unwrap();
    tail.tailer().set_arguments([]);
    tail.tailer().start().await.unwrap();
    until_leading(tail.tailer()).await;
    second.start().await.unwrap();
}

/// Restarts a server whose binlog lacks a file in which no tailer has read anything.
pub async fn lose_a_file(tail: &Tail, server: &mut Process) {
    let lost = tail.next_binlog_file();
    tail.sql("update user_coupon set version = version + 1 where id % 50 = 11");
    tail.next_binlog_file();
    let index = tail.sql("select @@log_bin_index").trim().to_owned();
    server.stop().await.unwrap();
    let files = fs::read_to_string(&index).unwrap();
    let kept: Vec<&str> = files.lines().filter(|name| !name.ends_with(&lost)).collect();
    fs::write(&index, kept.join("\n") + "\n").unwrap();
    server.start().await.unwrap();
}

/// Restarts a server without its binlog, changes coupons, and restarts it with it. Tailers that run meanwhile end.
pub async fn run_without_binlog(
    tail: &mut Tail,
    second: &mut Process,
    server: &mut Process,
    is_unseen: bool,
) {
    server.stop().await.unwrap();
    server.add_argument("--skip-log-bin");
    server.start().await.unwrap();
    tail.sql("update user_coupon set version = version + 1 where id % 50 = 13");
    if !is_unseen {
        for tailer in [tail.tailer(), &mut *second] {
            let status = tailer.wait_exit(ENDS_WITHIN).await.unwrap();
            assert_eq!(status.code(), Some(1), "it does not end with an error");
        }
    }
    server.stop().await.unwrap();
    server.add_argument("--log-bin=binlog");
    server.start().await.unwrap();
    if !is_unseen {
        tail.tailer().spawn().unwrap();
        second.spawn().unwrap();
    }
}

/// Copies a server's data and leads its address to a server with the copy, which this returns. The first one runs on,
/// read-only.
pub async fn lead_elsewhere(
    tail: &mut Tail,
    address: &Proxy,
    server: &mut Process,
    flavor: Flavor,
) -> OwnDatabase {
    let url = tail.scope.endpoints.database_url.clone();
    let backup = Backup::of(server, &url).await;
    let name = format!("{}-elsewhere", tail.scope.endpoints.database());
    let settings = Replication::Asynchronous.settings(flavor, Role::Replica);
    let other = OwnDatabase::start_with(&name, flavor, &settings, &backup.copy).await.unwrap();
    // Otherwise the tailer would come back to the other server at once, and never have followed the one that was left.
    let followed = async || tail.sql(FOLLOWED).trim() != "0";
    until(followed, |followed| *followed).await;
    tail.sql("set global read_only = 1");
    address.lead_to(other.server.address());
    let [from, to] = [server.address(), other.server.address()].map(|server| server.to_string());
    tail.scope.endpoints.database_url = url.replacen(&from, &to, 1);
    other
}

/// Leads the address back to the first server, which gets the data that the other one has by now.
pub async fn lead_back(
    tail: &mut Tail,
    address: &Proxy,
    server: &mut Process,
    mut other: OwnDatabase,
) {
    let copy = PathBuf::from(tail.sql("select @@datadir").trim());
    let [from, to] = [other.server.address(), server.address()].map(|server| server.to_string());
    let url = tail.scope.endpoints.database_url.replacen(&from, &to, 1);
    let data = PathBuf::from(sql(&url, "select @@datadir").trim());
    address.lead_to(server.address());
    other.server.stop().await.unwrap();
    Backup { data, copy }.restore(server).await;
    tail.scope.endpoints.database_url = url;
}

/// A copy of a server's data folder, including binlog and server identity.
#[derive(Debug)]
pub struct Backup {
    data: PathBuf,
    copy: PathBuf,
}

impl Backup {
    /// Stops a server, copies its data and starts it again.
    pub async fn of(server: &mut Process, url: &str) -> Self {
        let data = PathBuf::from(sql(url, "select @@datadir").trim());
        let copy = data.with_file_name("backup");
        server.stop().await.unwrap();
        drop(fs::remove_dir_all(&copy));
        let copied = Command::new("cp").arg("-a").args([&data, &copy]).status().unwrap();
        assert!(copied.success());
        server.start().await.unwrap();
        Self { data, copy }
    }

    /// Replaces the data with the copy.
    pub async fn restore(self, server: &mut Process) {
        server.stop().await.unwrap();
        fs::remove_dir_all(&self.data).unwrap();
        fs::rename(&self.copy, &self.data).unwrap();
        server.start().await.unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    #[test]
    fn a_deck_of_any_seed_has_all_kinds_in_all_circumstances_and_four_have_most() {
        for seed in [0, 7, 2_026_112_315, u64::MAX] {
            let dealt = |number| HistoryFault::of_campaign(seed, number);
            let kinds: BTreeSet<_> = (0..DECK).map(|number| dealt(number).to_string()).collect();
            assert_eq!(kinds.len(), 16, "{kinds:?}");
            assert!(kinds.contains("backup restored under load while no tailer runs"), "{kinds:?}");
            let of_four = (0..4).map(|number| std::mem::discriminant(&dealt(number).kind));
            assert_eq!(of_four.collect::<HashSet<_>>().len(), 4, "a short campaign has four kinds");
        }
    }

    #[test]
    fn two_decks_have_each_statement_once() {
        let statement = |number| match HistoryFault::of_campaign(5, number).kind {
            Kind::Statement(statement) => Some(statement),
            _ => None,
        };
        let dealt: Vec<_> = (0..2 * DECK).filter_map(statement).collect();
        assert_eq!(dealt.len(), STATEMENTS.len());
        assert_eq!(dealt.into_iter().collect::<HashSet<_>>(), HashSet::from(STATEMENTS));
    }
}
