//! The tailer's kill campaign: round after round of a mixed load, and in the middle of each a tailer is
//! killed or stopped, mostly the one that leads; then the topics must tell exactly what the server itself
//! finds in its binlog.
//!
//! Each line of changes (one user's coupons) must be told whole and in the order of the commits, first
//! occurrences counted; nothing else may be told; and no table may have been read anew, which would hide
//! a hole. In every third round a large transaction meets a broker that is slow: then a checkpoint can be
//! written while thousands of messages still wait in the tailer that is about to die. In each round checksums are switched and tables
//! defined. Behind every few rounds the server's history becomes another one (`upheaval.rs`): then every row that is there must be told.
//! Victims and moments follow from the seed and the round's number, so a round that breaks a promise can be run again; what the machine
//! makes of them in between is not repeatable.

use std::{convert::Infallible, fmt, future, time::Duration};

use devstack::{Flavor, Process, Scope};
use fastrand::Rng;
use tokio::time::{Instant, sleep, timeout};
use topic::Message;

use crate::{
    assert_no_panic,
    heard::Heard,
    mixed_load::{DIARY, Load},
    server_binlog::{ServerBinlog, Table},
    tail::{Tail, log},
    until,
    upheaval::{self, Backup, Upheaval},
};

/// Most strikes of a round.
const STRIKES_MAX: usize = 3;

/// A strike comes within this time: from the load's begin on, or after the victim before is helped up.
const WAIT_MAX_MS: u64 = 600;

/// One round in so many has a large transaction and a slow broker.
const ROUNDS_TO_SLOW: u64 = 3;

/// The same time in such a round, which takes longer.
const SLOW_WAIT_MAX_MS: u64 = 2_500;

/// A slow broker: stopped for so long, again and again, and running for so long in between. It takes
/// some megabytes a second.
const SLOW_STOPPED: Duration = Duration::from_millis(95);
const SLOW_RUNNING: Duration = Duration::from_millis(5);

/// How long a victim is dead or stopped. Mostly shorter than the second after which another one leads.
const DOWN_MAX_MS: u64 = 300;

/// The longest: another one leads by then, and the one that wakes must notice.
const LONG_DOWN_MAX_MS: u64 = 2_500;

/// How long a tailer may take to answer who it is. One that is stopped never does.
const ANSWER_MAX: Duration = Duration::from_millis(200);

/// An upheaval comes behind so many rounds.
const ROUNDS_TO_UPHEAVAL: u64 = 4;

/// Numbers of the loads before and behind an upheaval, above those of rounds.
const BEFORE_UPHEAVAL: u64 = 10_000;
const BEHIND_UPHEAVAL: u64 = 20_000;

/// Who is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Leader,
    Standby,
    Both,
}

/// One fault.
#[derive(Debug, Clone, Copy)]
struct Strike {
    victim: Victim,
    /// kill -9 and a start after a while; else SIGSTOP, and SIGCONT after a while.
    kills: bool,
    wait: Duration,
    down: Duration,
}

impl Strike {
    fn of_round(seed: u64, round: u64) -> Vec<Self> {
        let mut random = Rng::with_seed(seed ^ (round << 32));
        let count = random.usize(1..=STRIKES_MAX);
        let wait_max_ms = if is_slow(round) { SLOW_WAIT_MAX_MS } else { WAIT_MAX_MS };
        (0..count).map(|_| Self::any(&mut random, wait_max_ms)).collect()
    }

    fn any(random: &mut Rng, wait_max_ms: u64) -> Self {
        let victim = match random.u8(0..8) {
            0 => Victim::Standby,
            1 => Victim::Both,
            _ => Victim::Leader,
        };
        let longest = if random.u8(0..4) == 0 { LONG_DOWN_MAX_MS } else { DOWN_MAX_MS };
        let mut time = |longest| Duration::from_millis(random.u64(0..longest));
        let (wait, down) = (time(wait_max_ms), time(longest));
        Self { victim, kills: random.u8(0..3) > 0, wait, down }
    }
}

impl fmt::Display for Strike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.kills { "killed" } else { "stopped" };
        let [wait, down] = [self.wait, self.down].map(|time| time.as_millis());
        let victim = format!("{:?}", self.victim).to_lowercase();
        write!(f, "{victim} {how} after {wait} ms for {down} ms")
    }
}

/// What a campaign counted.
#[derive(Debug, Default, Clone, Copy)]
pub struct Totals {
    /// Committed changes, each of them told.
    pub changes: usize,
    /// Messages that told what was told before.
    pub duplicates: usize,
    /// Faults.
    pub strikes: usize,
    /// How often a leader was fenced by its successor.
    pub fenced: usize,
    /// How often the server's history became another one, or a statement stopped the tailers.
    pub upheavals: usize,
}

/// Runs rounds on a database and topics that do not exist yet, and says a line about each. The broker is
/// the one that `scope` names, and nobody else's.
///
/// # Panics
/// The topics tell otherwise than the server, or a tailer ended by itself.
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
            let upheaval = Upheaval::of_number(seed.wrapping_add(round / ROUNDS_TO_UPHEAVAL));
            say(format!("round {round:>3}  {upheaval:?}"));
            campaign.upheave(round, upheaval, database).await;
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
    binlog: ServerBinlog,
    heard: Heard,
    seed: u64,
    strikes: usize,
    /// Changes that were told before the last upheaval.
    changes: usize,
    upheavals: usize,
}

impl Campaign {
    async fn begin(scope: Scope, seed: u64) -> Self {
        let mut tail = Tail::prepare(scope, |options| options).await;
        let binlog = ServerBinlog::of(&tail);
        let engine = if binlog.flavor() == Flavor::Mariadb { "aria" } else { "innodb" };
        tail.sql(&format!("{DIARY} engine = {engine}"));
        tail.make_topics().await;
        let heard = Heard::open(&tail).await;
        let mut second = tail.platform.another_tailer("second").unwrap();
        for tailer in [tail.tailer(), &mut second] {
            tailer.start().await.unwrap();
        }
        // Whoever is killed before it is in the checkpoint that the tables are read reads them again.
        let checkpoints = async || tail.messages(&tail.names.checkpoint()).await;
        until(checkpoints, |all| all.last().is_some_and(is_of_no_snapshot)).await;
        Self { tail, second, binlog, heard, seed, strikes: 0, changes: 0, upheavals: 0 }
    }

    async fn round(&mut self, number: u64, broker: &mut Process, say: &impl Fn(String)) {
        let begun = Instant::now();
        self.until_led().await;
        let file = self.tail.next_binlog_file();
        let load = self.load(number);
        let load = tokio::task::spawn_blocking(move || load.run());
        let (committed, duplicates) = (self.binlog.count, self.heard.duplicates);
        let faults = async {
            self.change_settings(number);
            for strike in Strike::of_round(self.seed, number) {
                say(format!("round {number:>3}  {strike}"));
                self.strike(strike).await;
                self.strikes += 1;
            }
            load.await.unwrap();
        };
        tokio::select! {
            never = slowed(broker, is_slow(number)) => match never {},
            () = faults => {}
        }
        broker.resume().unwrap();
        self.binlog.read_from(&file);
        self.assert_told().await;
        let (changes, again) = (self.binlog.count - committed, self.heard.duplicates - duplicates);
        let seconds = begun.elapsed().as_secs_f64();
        say(format!("           {changes} changes told, {again} of them again, in {seconds:.1} s"));
    }

    fn load(&self, number: u64) -> Load {
        Load {
            database_url: self.tail.scope.endpoints.database_url.clone(),
            seed: self.seed,
            number: i64::try_from(number).unwrap(),
            deletes: true,
            large: is_slow(number) && number < BEFORE_UPHEAVAL,
        }
    }

    /// In the middle of a load: other checksums, a column more or less, tables of nobody.
    fn change_settings(&self, number: u64) {
        let checksum = if number.is_multiple_of(2) { "CRC32" } else { "NONE" };
        let column = if number.is_multiple_of(2) {
            "drop column added"
        } else {
            "add column added int null"
        };
        self.tail.sql(&format!(
            "set global binlog_checksum = {checksum}; alter table stock_movement {column}; \
             create table of_nobody select seq from stock_movement; drop table of_nobody"
        ));
    }

    /// The server's history becomes another one while nobody writes; then the topics must tell of every row
    /// that is there, and of what comes.
    async fn upheave(&mut self, round: u64, upheaval: Upheaval, database: &mut Process) {
        let run = async |load: Load| {
            tokio::task::spawn_blocking(move || load.run()).await.unwrap();
        };
        match upheaval {
            Upheaval::Reset => upheaval::reset(&self.tail, self.binlog.flavor()),
            Upheaval::Statement => {
                upheaval::stop_by_a_statement(&mut self.tail, &mut self.second).await;
                self.second.start().await.unwrap();
            }
            Upheaval::Restore => {
                let url = self.tail.scope.endpoints.database_url.clone();
                let backup = Backup::of(database, &url).await;
                run(self.load(BEFORE_UPHEAVAL + round)).await;
                self.heard.until_rows_are_told(&self.tail).await;
                backup.restore(database).await;
            }
        }
        run(self.load(BEHIND_UPHEAVAL + round)).await;
        self.heard.until_rows_are_told(&self.tail).await;
        self.until_saved().await;
        for tailer in [&mut self.tail.platform.cdc_tailer, &mut self.second] {
            assert!(tailer.is_running(), "a tailer ended by itself:\n{}", log(tailer));
        }
        self.changes += self.binlog.count;
        self.upheavals += 1;
        self.heard.forget().await;
        self.binlog.forget();
    }

    /// Waits until a checkpoint has all that the server has executed, and no snapshot: whoever is killed from
    /// now on leaves none to be read again.
    async fn until_saved(&self) {
        let executed = match self.binlog.flavor() {
            Flavor::Mariadb => "select @@gtid_binlog_pos",
            Flavor::Mysql => "select replace(@@global.gtid_executed, '\\n', '')",
        };
        let executed = format!(r#""gtid":"{}""#, self.tail.sql(executed).trim());
        let checkpoints = async || self.tail.messages(&self.tail.names.checkpoint()).await;
        let is_saved = |all: &Vec<Message>| {
            all.last().is_some_and(|last| is_of_no_snapshot(last) && text(last).contains(&executed))
        };
        until(checkpoints, is_saved).await;
    }

    async fn strike(&mut self, strike: Strike) {
        sleep(strike.wait).await;
        let first_leads = leads(&self.tail.platform.cdc_tailer).await;
        let second_leads = leads(&self.second).await;
        // With nobody in the lead it is the first that is hit.
        let (first, second) = match strike.victim {
            Victim::Leader => (first_leads || !second_leads, second_leads && !first_leads),
            Victim::Standby => (!first_leads, first_leads),
            Victim::Both => (true, true),
        };
        let mut victims = Vec::new();
        if first {
            victims.push(&mut self.tail.platform.cdc_tailer);
        }
        if second {
            victims.push(&mut self.second);
        }
        for victim in &mut victims {
            if strike.kills { victim.kill().unwrap() } else { victim.pause().unwrap() }
        }
        sleep(strike.down).await;
        for victim in victims {
            if strike.kills { victim.spawn().unwrap() } else { victim.resume().unwrap() }
        }
    }

    /// Waits until one leads, so that a load always meets a leader.
    async fn until_led(&self) {
        let first = &self.tail.platform.cdc_tailer;
        until(async || leads(first).await || leads(&self.second).await, |led| *led).await;
    }

    /// Waits until as much is told as was committed, and compares.
    async fn assert_told(&mut self) {
        let differences = self.heard.until_told(&self.binlog).await;
        for tailer in [&mut self.tail.platform.cdc_tailer, &mut self.second] {
            assert!(tailer.is_running(), "a tailer ended by itself:\n{}", log(tailer));
        }
        let seed = self.seed;
        assert!(differences.is_empty(), "seed {seed}: topics and binlog differ:\n{differences}");
        assert_eq!(self.heard.read, 0, "tables were read anew");
    }

    /// Both know movements: of a table that no load reaches, topics and binlog tell the same, nothing.
    fn assert_movements(&self) {
        let committed = self.binlog.count_of(Table::Movements);
        assert!(
            committed > 0 || self.upheavals > 0,
            "seed {}: no movement was committed",
            self.seed
        );
        assert_eq!(self.heard.count_of(Table::Movements), committed, "movements told");
    }

    fn end(mut self) -> Totals {
        self.assert_movements();
        let mut fenced = 0;
        for tailer in [&mut self.tail.platform.cdc_tailer, &mut self.second] {
            tailer.kill().unwrap();
            let log = log(tailer);
            assert_no_panic(&log);
            fenced += log.matches("another tailer leads").count();
        }
        let totals = Totals {
            changes: self.changes + self.binlog.count,
            upheavals: self.upheavals,
            duplicates: self.heard.duplicates,
            strikes: self.strikes,
            fenced,
        };
        self.tail.end();
        totals
    }
}

/// Stops and continues the broker again and again, if it shall be slow.
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

async fn leads(tailer: &Process) -> bool {
    let leads = timeout(ANSWER_MAX, tailer.metric("cdc_tailer_leads")).await;
    leads.ok().flatten() == Some(1.0)
}
