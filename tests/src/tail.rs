//! A tailer alone, with its own database and topics, without the rest of the platform.

use std::{collections::HashMap, fs, ops::RangeInclusive, thread};

use devstack::{Platform, PlatformOptions, Process, Scope, TestServers};
use runtime::Clock;
use testkit::{CouponRow, insert_coupons, sql};
use topic::{Event, Message, Op, TableReader, TopicNames, UserCouponRow, decode, ensure_topics};
use topic::{TopicLayout, topic_offsets};
use verifier::{Sources, Verdict, verify};

use crate::{settings_of, until};

/// Partitions of the keyed topics, the same number that the tailer creates.
const PARTITIONS: i32 = 8;

/// Rows of one statement.
const ROWS: usize = 5_000;

/// Lines of each log that a failed test prints.
const LOG_LINES: usize = 40;

/// A tailer, and everything needed to start others.
pub struct Tail {
    /// Holds the first tailer, and the settings for others.
    pub platform: Platform,
    /// The test's names.
    pub scope: Scope,
    pub names: TopicNames,
}

/// A coupon's event: operation, id and version.
pub type Published = (Op, i64, i64);

impl Tail {
    /// Migrates a database and describes a tailer; starts nothing.
    pub async fn prepare(
        scope: Scope,
        change: impl FnOnce(PlatformOptions) -> PlatformOptions,
    ) -> Self {
        mysql_store::verify::copy_schema(&scope.endpoints.database_url).await.unwrap();
        let options = change(PlatformOptions::of_test(&scope));
        let platform = Platform::prepare(scope.endpoints.clone(), options).unwrap();
        let names = TopicNames::new(scope.topic_prefix.clone());
        Self { platform, scope, names }
    }

    /// Like [`Tail::prepare`], on the shared servers.
    pub async fn on_shared_servers(name: &str) -> Self {
        Self::prepare(TestServers::shared().scope(name), |options| options).await
    }

    /// The first tailer.
    pub fn tailer(&mut self) -> &mut Process {
        &mut self.platform.cdc_tailer
    }

    /// Starts the first tailer and waits until it leads.
    pub async fn lead(&mut self) {
        self.tailer().start().await.unwrap();
        until_leading(self.tailer()).await;
    }

    /// Creates the topics, for tests that read them before a tailer runs.
    pub async fn make_topics(&self) {
        let layout = TopicLayout { partitions: PARTITIONS, replication: 1 };
        ensure_topics(self.brokers(), &self.names, &layout).await.unwrap();
    }

    pub fn brokers(&self) -> &str {
        &self.scope.endpoints.kafka_brokers
    }

    /// Runs statements in one session; returns their output.
    pub fn sql(&self, text: &str) -> String {
        sql(&self.scope.endpoints.database_url, text)
    }

    /// Makes the server begin a new binlog file; returns its name.
    pub fn next_binlog_file(&self) -> String {
        let files = self.sql("flush binary logs; show binary logs");
        files.lines().last().unwrap().split('\t').next().unwrap().to_owned()
    }

    /// Inserts coupons with many rows per transaction; each has its own user.
    pub fn insert(&self, ids: RangeInclusive<i64>) {
        let ids: Vec<i64> = ids.collect();
        for some in ids.chunks(ROWS) {
            self.sql(&insert_coupons(some.iter().map(|id| row(*id))));
        }
    }

    /// Returns the published events of coupons, partition by partition.
    pub async fn published(&self) -> Vec<Published> {
        self.coupon_messages().await.iter().map(published).collect()
    }

    /// Returns the messages of the coupons' topic.
    pub async fn coupon_messages(&self) -> Vec<Message> {
        self.messages(&self.names.user_coupon()).await
    }

    /// Returns all messages of a topic.
    pub async fn messages(&self, topic: &str) -> Vec<Message> {
        TableReader::open_to_end(self.brokers(), topic).await.unwrap().read_to_end().await.unwrap()
    }

    /// Counts the messages in the coupons' topic.
    pub async fn count(&self) -> i64 {
        let held = topic_offsets(self.brokers(), &self.names.user_coupon()).await.unwrap();
        held.iter().map(|partition| partition.end - partition.start).sum()
    }

    /// Waits until the topic has every coupon in at least MySQL's current version.
    pub async fn until_complete(&self) {
        let held = self.sql("select id, version from user_coupon");
        let held: Vec<(i64, i64)> = held.lines().map(pair).collect();
        let missing = async || {
            let mut newest = HashMap::new();
            for (_, id, version) in self.published().await {
                let known = newest.entry(id).or_insert(version);
                *known = version.max(*known);
            }
            held.iter().filter(|(id, version)| newest.get(id).is_none_or(|n| n < version)).count()
        };
        until(missing, |missing| *missing == 0).await;
    }

    /// Asserts that the topic holds every committed change, in order (I10).
    ///
    /// # Panics
    /// It does not.
    pub async fn assert_complete(&self) {
        let sources = Sources::connect(&settings_of(&self.scope)).await.unwrap();
        let report = verify(&sources, None, Clock::system().now()).await.unwrap();
        let changes = report.outcomes.iter().find(|outcome| outcome.invariant == "I10").unwrap();
        assert!(matches!(changes.verdict, Verdict::Holds { .. }), "{changes}");
    }

    /// Kills the first tailer and removes its logs.
    pub fn end(mut self) {
        drop(self.platform.cdc_tailer.discard());
        fs::remove_dir_all(&self.platform.options.dir).unwrap();
    }
}

/// A failed test prints the ends of its tailers' logs, which cannot be retrieved from other machines.
impl Drop for Tail {
    #[expect(clippy::print_stdout, reason = "a failure must say why")]
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let files = fs::read_dir(&self.platform.options.dir).into_iter().flatten().flatten();
        let logs = files.map(|file| file.path());
        for path in logs.filter(|path| path.extension().is_some_and(|found| found == "log")) {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("--- {}", path.display());
            println!("{}", lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"));
        }
    }
}

/// Waits until the process reports that it leads and is ready.
pub async fn until_leading(process: &Process) {
    until(
        async || (role(process).await, process.is_ready().await),
        |seen| *seen == ("leader", true),
    )
    .await;
}

/// Waits until the process reports that it is a standby.
pub async fn until_standby(process: &Process) {
    let ready = async || process.answer("/readyz").await.unwrap_or_default();
    until(ready, |text| text.contains(r#""binlog":"standby""#)).await;
}

async fn role(process: &Process) -> &'static str {
    let text = process.answer("/status").await.unwrap_or_default();
    if text.contains(r#""role":"leader""#) { "leader" } else { "another" }
}

/// Returns the process's log.
pub fn log(process: &Process) -> String {
    fs::read_to_string(process.log()).unwrap_or_default()
}

/// Decodes a message's event.
pub fn published(message: &Message) -> Published {
    let event: Event<UserCouponRow> = decode(message.payload.as_ref().unwrap()).unwrap();
    let row = event.after.or(event.before).expect("an event has a row");
    (event.op, row.id, row.version)
}

/// A coupon that is claimed now.
pub fn row(id: i64) -> CouponRow {
    let now = "utc_timestamp(3)".to_owned();
    CouponRow {
        template_id: 7,
        claim_id: 9,
        claimed_at: now.clone(),
        changed_at: now.clone(),
        valid_from: now,
        ..CouponRow::unused(id, id)
    }
}

fn pair(line: &str) -> (i64, i64) {
    let (id, version) = line.split_once('\t').unwrap();
    (id.parse().unwrap(), version.parse().unwrap())
}
