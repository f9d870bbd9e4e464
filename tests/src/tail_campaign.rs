//! The tailer's kill campaign: rounds of a mixed load, in the middle of which tailers, mostly the leader, are
//! killed or stopped. Then the topics must hold exactly what the server's own tools find in its binlog, and
//! what its tables hold.
//!
//! Each line of changes (for example one user's coupons) must be published completely and in commit order,
//! counting first occurrences; nothing else may be published; and no snapshot may have run, which would hide a
//! gap. In every third round a large transaction meets a slow broker: then a checkpoint can be written while
//! thousands of messages still wait in the tailer that is about to die. Every round deletes rows, switches
//! checksums and alters tables. After every few rounds the server's history is replaced (`upheaval.rs`); then
//! the current state of every row must be published.
//! Victims and moments follow from the seed and the round's number, so a failing round can be repeated; the
//! machine's scheduling cannot.

use std::{collections::BTreeMap, convert::Infallible, fmt, future, time::Duration};

use devstack::{Flavor, Process, Scope};
use testkit::Proxy;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use topic::{Message, verify};

use crate::{
    assert_no_panic,
    history_faults::{self, Backup, CREATE_DETOURS, HistoryFault, Kind},
    mixed_load::{DIARY, Load},
    server_binlog::{ServerBinlog, Table},
    tail::{Tail, log},
    tailer_faults::{TailerFault, leads},
    topic_contents::TopicContents,
    until,
};

/// Longest time from the load's start, or the previous victim's return, to a strike.
const WAIT_MAX_MS: u64 = 600;

/// One in so many rounds has a large transaction and a slow broker.
const ROUNDS_TO_SLOW: u64 = 3;

/// Like [`WAIT_MAX_MS`], for such a round, which takes longer.
const SLOW_WAIT_MAX_MS: u64 = 2_500;

/// A slow broker is stopped and resumed for these times in turn. It takes some megabytes per second.
const SLOW_STOPPED: Duration = Duration::from_millis(95);
const SLOW_RUNNING: Duration = Duration::from_millis(5);

/// An upheaval comes after every so many rounds.
const ROUNDS_TO_UPHEAVAL: u64 = 3;

/// Changes of a load that are published before an upheaval in the middle of it: an eighth.
const SOME: usize = 800;

/// Offsets of the numbers of loads before and after an upheaval, above those of rounds.
const BEFORE_UPHEAVAL: u64 = 10_000;
const BEHIND_UPHEAVAL: u64 = 20_000;

/// Counters of a campaign.
#[derive(Debug, Default, Clone)]
pub struct Totals {
    /// Committed changes, all of them published.
    pub changes: usize,
    /// Transactions of these changes.
    pub transactions: usize,
    /// Messages that repeat an earlier one.
    pub duplicates: usize,
    /// Rows that were read anew behind definitions.
    pub restated: usize,
    /// Strikes that killed one tailer or both.
    pub kills: usize,
    /// Strikes that stopped one tailer or both.
    pub stops: usize,
    /// How often a leader was fenced by its successor.
    pub fenced: usize,
    /// Upheavals by kind.
    pub upheavals: BTreeMap<String, usize>,
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { changes, transactions, duplicates, restated, kills, stops, fenced, upheavals } =
            self;
        write!(
            f,
            "{kills} kills and {stops} stops; {changes} committed changes of {transactions} transactions are published, each \
             and in order, nothing else is; {duplicates} messages came again, {restated} rows were read anew behind definitions, {fenced} leaders were fenced; \
             behind {} upheavals every row is published",
            upheavals.values().sum::<usize>()
        )?;
        upheavals.iter().try_for_each(|(kind, times)| write!(f, "\n  {times:>3} {kind}"))
    }
}

/// Runs rounds on a database and topics that do not exist yet, and reports each through `say`. `broker` is the
/// one that `scope` names, and no other test may use it.
///
/// # Panics
/// The topics differ from the server's binlog or tables, or a tailer ended by itself.
pub async fn run(
    scope: Scope,
    broker: &mut Process,
    database: &mut Process,
    rounds: u32,
    seed: u64,
    say: impl Fn(String),
) -> Totals {
    let mut campaign = Campaign::begin(scope, seed).await;
    for round in (1..=rounds).map(u64::from) {
        campaign.round(round, broker, &say).await;
        if round % ROUNDS_TO_UPHEAVAL == 0 {
            let upheaval = HistoryFault::of_campaign(seed, round / ROUNDS_TO_UPHEAVAL - 1);
            let begun = Instant::now();
            say(format!("round {round:>3}  {upheaval}"));
            campaign.upheave(round, upheaval, database).await;
            say(format!(
                "           every row is published, in {:.1} s",
                begun.elapsed().as_secs_f64()
            ));
        }
    }
    campaign.end()
}

fn is_slow(round: u64) -> bool {
    round % ROUNDS_TO_SLOW == 1
}

struct Campaign {
    tail: Tail,
    second: Process,
    /// The address of the server, as the tailers know it.
    address: Proxy,
    binlog: ServerBinlog,
    heard: TopicContents,
    seed: u64,
    /// Counters up to the last upheaval.
    totals: Totals,
}

impl Campaign {
    async fn begin(scope: Scope, seed: u64) -> Self {
        let mut tail = Tail::prepare(scope, |options| options).await;
        let binlog = ServerBinlog::of(&tail);
        let engine = if binlog.flavor() == Flavor::Mariadb { "aria" } else { "innodb" };
        tail.sql(&format!("{DIARY} engine = {engine}"));
        tail.sql(CREATE_DETOURS);
        tail.make_topics().await;
        let heard = TopicContents::open(&tail).await;
        let mut second = tail.platform.another_tailer("second").unwrap();
        let url = tail.scope.endpoints.database_url.clone();
        let address = Proxy::before(&url).await;
        for tailer in [tail.tailer(), &mut second] {
            tailer.set_env("DATABASE_URL", &address.instead_of(&url));
            tailer.start().await.unwrap();
        }
        // A tailer that is killed before a checkpoint records the end of the snapshot reads the tables again.
        let checkpoints = async || tail.messages(&tail.names.checkpoint()).await;
        until(checkpoints, |all| all.last().is_some_and(is_of_no_snapshot)).await;
        Self { tail, second, address, binlog, heard, seed, totals: Totals::default() }
    }

    async fn round(&mut self, number: u64, broker: &mut Process, say: &impl Fn(String)) {
        let begun = Instant::now();
        self.until_led().await;
        let file = self.tail.next_binlog_file();
        self.sweep(number);
        let load = self.started(number);
        let committed = self.binlog.count;
        let duplicates = self.heard.duplicates;
        let faults = async {
            self.change_settings(number);
            let wait_max_ms = if is_slow(number) { SLOW_WAIT_MAX_MS } else { WAIT_MAX_MS };
            for strike in TailerFault::of_round(self.seed, number, wait_max_ms) {
                say(format!("round {number:>3}  {strike}"));
                strike.hit(&mut self.tail.platform.cdc_tailer, &mut self.second).await;
                self.totals.kills += usize::from(strike.kills);
                self.totals.stops += usize::from(!strike.kills);
            }
            load.await.unwrap();
        };
        tokio::select! {
            never = slowed(broker, is_slow(number)) => match never {},
            () = faults => {}
        }
        broker.resume().unwrap();
        self.assert_published(&file).await;
        self.heard.assert_table(&self.tail);
        let changes = self.binlog.count - committed;
        let again = self.heard.duplicates - duplicates;
        let seconds = begun.elapsed().as_secs_f64();
        say(format!(
            "           {changes} changes published, {again} of them again, in {seconds:.1} s"
        ));
    }

    fn started(&self, number: u64) -> JoinHandle<()> {
        let load = Load {
            database_url: self.tail.scope.endpoints.database_url.clone(),
            seed: self.seed,
            number: i64::try_from(number).unwrap(),
            deletes: true,
            large: is_slow(number) && number < BEFORE_UPHEAVAL,
        };
        tokio::task::spawn_blocking(move || load.run())
    }

    /// Deletes all remaining coupons in one transaction, in the round before each upheaval (where the broker is
    /// not slow), so that snapshots stay short.
    fn sweep(&self, number: u64) {
        if number % ROUNDS_TO_UPHEAVAL == 2 {
            self.tail.sql("delete from user_coupon");
        }
    }

    /// In the middle of a load: changes checksums, columns and keys, creates and drops a table, and starts a
    /// new binlog file.
    fn change_settings(&self, number: u64) {
        let [checksum, of_movements] = match number % 2 {
            0 => ["CRC32", "drop column added"],
            _ => ["NONE", "add column added int null"],
        };
        let of_coupons = match number % 4 {
            0 => "drop column added, drop index by_version",
            1 => "add column added varchar(9) character set utf8mb4 null",
            // While others write, MySQL may end the statement with a duplicate that is none (error 1859).
            2 => "add index by_version (version), lock = shared",
            _ => "modify column added varchar(200) character set utf8mb4 null default 'x'",
        };
        self.tail.sql(&format!(
            "set global binlog_checksum = {checksum}; alter table stock_movement {of_movements}; \
             create table of_nobody select seq from stock_movement; drop table of_nobody; \
             alter table user_coupon {of_coupons}; flush binary logs"
        ));
    }

    /// Replaces the server's history, or stops the tailers; then the topics must have every existing row, and
    /// later changes.
    async fn upheave(&mut self, round: u64, upheaval: HistoryFault, database: &mut Process) {
        let mut backup = None;
        if upheaval.kind == Kind::Restore {
            let url = self.tail.scope.endpoints.database_url.clone();
            backup = Some(Backup::of(database, &url).await);
            self.until_led().await;
        }
        let file = self.tail.next_binlog_file();
        let mut load = self.started(BEFORE_UPHEAVAL + round);
        if upheaval.is_under_load {
            self.heard.until_more(SOME).await;
        } else {
            (&mut load).await.unwrap();
            self.assert_published(&file).await;
        }
        if upheaval.is_unseen {
            self.tail.tailer().kill().unwrap();
            self.second.kill().unwrap();
        }
        let mut elsewhere = None;
        match upheaval.kind {
            Kind::Reset => history_faults::reset(&self.tail, self.binlog.flavor()).await,
            Kind::Statement(statement) => {
                history_faults::stop_by_a_statement(&mut self.tail, &mut self.second, statement)
                    .await;
            }
            Kind::Restore => backup.take().unwrap().restore(database).await,
            Kind::FileGone => history_faults::lose_a_file(&self.tail, database).await,
            Kind::NoBinlog => {
                let tail = &mut self.tail;
                let second = &mut self.second;
                history_faults::run_without_binlog(tail, second, database, upheaval.is_unseen)
                    .await;
            }
            Kind::TopicAnew => {
                let brokers = self.tail.brokers();
                let topic = self.tail.names.user_coupon();
                verify::remove(brokers, &topic).await.unwrap();
                self.tail.make_topics().await;
                self.heard.begin_anew(&self.tail).await;
            }
            Kind::AddressMoved => {
                let flavor = self.binlog.flavor();
                let tail = &mut self.tail;
                let other =
                    history_faults::lead_elsewhere(tail, &self.address, database, flavor).await;
                elsewhere = Some(other);
            }
        }
        if upheaval.is_under_load {
            load.await.unwrap();
        }
        self.started(BEHIND_UPHEAVAL + round).await.unwrap();
        if upheaval.is_unseen {
            self.tail.tailer().spawn().unwrap();
            self.second.spawn().unwrap();
        }
        self.heard.until_rows_are_published(&self.tail).await;
        self.until_saved().await;
        if let Some(other) = elsewhere {
            assert_eq!(self.heard.read, 0, "the history is the same, but tables were read anew");
            history_faults::lead_back(&mut self.tail, &self.address, database, other).await;
        }
        self.assert_running();
        *self.totals.upheavals.entry(upheaval.to_string()).or_default() += 1;
        self.totals.changes += self.binlog.count;
        self.heard.forget().await;
        self.binlog.forget();
    }

    /// Waits until a checkpoint covers all transactions that the server has executed and no snapshot is
    /// pending, so that a tailer killed from now on causes no snapshot.
    async fn until_saved(&self) {
        let executed = self.binlog.flavor().words().executed;
        let executed = format!(r#""gtid":"{}""#, self.tail.sql(executed).trim());
        let checkpoints = async || self.tail.messages(&self.tail.names.checkpoint()).await;
        let is_saved = |all: &Vec<Message>| {
            all.last().is_some_and(|last| is_of_no_snapshot(last) && text(last).contains(&executed))
        };
        until(checkpoints, is_saved).await;
    }

    /// Waits until a tailer leads, so that a load always meets a leader.
    async fn until_led(&self) {
        let first = &self.tail.platform.cdc_tailer;
        until(async || leads(first).await || leads(&self.second).await, |led| *led).await;
    }

    /// Waits until as many changes are published as were committed from the beginning of `file` on, and
    /// compares them.
    async fn assert_published(&mut self, file: &str) {
        self.binlog.read_from(file);
        let differences = self.heard.until_published(&self.binlog).await;
        self.assert_running();
        let seed = self.seed;
        assert!(differences.is_empty(), "seed {seed}: topics and binlog differ:\n{differences}");
        assert_eq!(self.heard.read, 0, "tables were read anew");
        let [published, committed] =
            [self.heard.count_of(Table::Movements), self.binlog.count_of(Table::Movements)];
        // Both counts are positive: if no load reached the table, two empty results would be equal.
        assert!(
            published == committed && published > 0,
            "{published} of {committed} movements published"
        );
    }

    fn assert_running(&mut self) {
        for tailer in [&mut self.tail.platform.cdc_tailer, &mut self.second] {
            assert!(tailer.is_running(), "a tailer ended by itself:\n{}", log(tailer));
        }
    }

    fn end(mut self) -> Totals {
        let mut totals = self.totals;
        for tailer in [&mut self.tail.platform.cdc_tailer, &mut self.second] {
            tailer.kill().unwrap();
            let log = log(tailer);
            assert_no_panic(&log);
            totals.fenced += log.matches("another tailer leads").count();
        }
        totals.changes += self.binlog.count;
        totals.transactions = self.binlog.transactions;
        totals.duplicates = self.heard.duplicates;
        totals.restated = self.heard.restated;
        self.tail.end();
        totals
    }
}

/// Repeatedly stops and resumes the broker, if `slow`; never returns.
async fn slowed(broker: &mut Process, slow: bool) -> Infallible {
    if !slow {
        future::pending::<()>().await;
    }
    loop {
        broker.pause().unwrap();
        sleep(SLOW_STOPPED).await;
        broker.resume().unwrap();
        sleep(SLOW_RUNNING).await;
    }
}

fn is_of_no_snapshot(checkpoint: &Message) -> bool {
    text(checkpoint).contains(r#""snapshot":null"#)
}

fn text(message: &Message) -> String {
    String::from_utf8_lossy(message.payload.as_deref().unwrap_or_default()).into_owned()
}
