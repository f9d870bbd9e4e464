//! The tailer's configuration.

use std::{path::PathBuf, time::Duration};

use clap::{
    Parser,
    builder::{PossibleValuesParser, RangedU64ValueParser},
};
use runtime::{ProcessConfig, Secret};
use topic::{DEFAULT_PARTITIONS, TopicLayout};

use crate::publish::messages::TABLES;

/// Bytes of binlog between reader and publisher: enough to keep both busy, small enough for a lean process.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;

/// Maximum size of an event: the servers' own packet limit.
const PACKET_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Unlike /tmp, never in memory.
const SPILL_FOLDER: &str = "/var/tmp";

/// Maximum size of a message, by default and at most: librdkafka accepts 1,000,000 bytes with its framing, brokers 1
/// MiB by default.
const MESSAGE_BYTES_MAX: usize = 990_000;

/// Default leader timeout: the least that brokers allow by default.
const LEADER_TIMEOUT_MS: u64 = 6_000;

/// Bounds of the leader timeout: a busy machine needs at least a second; brokers allow at most half an hour.
const LEADER_TIMEOUT_MS_MIN: u64 = 1_000;
const LEADER_TIMEOUT_MS_MAX: u64 = 1_800_000;

/// Value of `--resnapshot` without a table.
const ALL_TABLES: &str = "all";

/// Follows the binlog of one database and writes its changes to the topics.
#[derive(Debug, Clone, Parser)]
#[command(version = runtime::version(), about)]
pub struct Config {
    /// Database to follow: mysql://user:password@host:port/database. For TLS append
    /// ?ssl-mode=VERIFY_IDENTITY&ssl-ca=FILE. The user needs SELECT, REPLICATION SLAVE, REPLICATION CLIENT.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// Kafka brokers: host:port, separated by commas. With TLS: ssl://host:port,host:port?ssl-ca=FILE.
    #[arg(long, env = "KAFKA_BROKERS", required_unless_present = "dry_run")]
    pub kafka_brokers: Option<String>,

    /// Prefix of every topic name; a dot is added after it.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Number of partitions of topics that do not exist yet.
    #[arg(long, env = "TOPIC_PARTITIONS", default_value_t = DEFAULT_PARTITIONS)]
    pub topic_partitions: i32,

    /// Replication factor of topics that do not exist yet.
    #[arg(long, env = "TOPIC_REPLICATION", default_value_t = 1)]
    pub topic_replication: i32,

    /// Replica server id of the tailer, unique among the server's replicas. The default is derived from the database
    /// name, so that a new tailer ends its predecessor's stale connection.
    #[arg(long, env = "SERVER_ID", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_id: Option<u32>,

    /// Maximum bytes of binlog queued between reading and publishing.
    #[arg(long, env = "QUEUE_BYTES", default_value_t = QUEUE_BYTES)]
    pub queue_bytes: usize,

    /// Maximum size of a binlog event, in bytes.
    #[arg(long, env = "PACKET_BYTES_MAX", default_value_t = PACKET_BYTES_MAX)]
    pub packet_bytes_max: usize,

    /// Folder on disk for the rows of transactions over some megabytes, until they commit. It must hold the largest
    /// transaction.
    #[arg(long, env = "SPILL_FOLDER", default_value = SPILL_FOLDER)]
    pub spill_folder: PathBuf,

    /// Maximum size of a message, in bytes. A longer one becomes a dead letter. Must not exceed the limit of the
    /// brokers (message.max.bytes).
    #[arg(long, env = "MESSAGE_BYTES_MAX", default_value_t = MESSAGE_BYTES_MAX,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MESSAGE_BYTES_MAX as u64))]
    pub message_bytes_max: usize,

    /// Milliseconds without a heartbeat of the leader after which another tailer of the database takes over.
    #[arg(long, env = "LEADER_TIMEOUT_MS", default_value_t = LEADER_TIMEOUT_MS,
        value_parser = clap::value_parser!(u64).range(LEADER_TIMEOUT_MS_MIN..=LEADER_TIMEOUT_MS_MAX))]
    pub leader_timeout_ms: u64,

    /// Publish a table again and continue at the checkpoint. Without a table: ignore the checkpoint, publish all tables
    /// and continue from now. Use it for one start only: it applies at every start.
    #[arg(long, num_args = 0..=1, default_missing_value = ALL_TABLES, value_name = "TABLE",
        value_parser = PossibleValuesParser::new([ALL_TABLES].iter().chain(TABLES).copied()))]
    pub resnapshot: Option<String>,

    /// Print the last checkpoint and exit. A running tailer is not disturbed.
    #[arg(long)]
    pub print_position: bool,

    /// Print changes from now on as JSON lines, one event per line, without brokers or checkpoint.
    #[arg(long, conflicts_with_all = ["print_position", "resnapshot"])]
    pub dry_run: bool,

    /// Settings of every process.
    #[command(flatten)]
    pub process: ProcessConfig,
}

/// Scope of [`Config::resnapshot`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resnapshot<'a> {
    /// All tables; continue from now.
    All,
    /// One table; continue at the checkpoint.
    Table(&'a str),
}

impl Config {
    pub(crate) fn brokers(&self) -> &str {
        self.kafka_brokers.as_deref().unwrap_or_default()
    }

    pub(crate) fn leader_timeout(&self) -> Duration {
        Duration::from_millis(self.leader_timeout_ms)
    }

    pub(crate) fn wanted_snapshot(&self) -> Option<Resnapshot<'_>> {
        self.resnapshot.as_deref().map(|table| match table {
            ALL_TABLES => Resnapshot::All,
            table => Resnapshot::Table(table),
        })
    }

    pub(crate) fn layout(&self) -> TopicLayout {
        TopicLayout { partitions: self.topic_partitions, replication: self.topic_replication }
    }

    /// Returns the configured id, or one derived from the database name in the upper half of the range, which people
    /// rarely use.
    pub(crate) fn server_id(&self, database: &str) -> u32 {
        self.server_id.unwrap_or_else(|| crc32fast::hash(database.as_bytes()) | 1 << 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_flags_are_enough() {
        let arguments =
            ["cdc-tailer", "--database-url", "mysql://u:p@h/d", "--kafka-brokers", "h:1"];
        let config = Config::try_parse_from(arguments).unwrap();
        assert_eq!(config.server_id("coupon"), config.server_id("coupon"));
        assert_ne!(config.server_id("coupon"), config.server_id("other"));
        assert!(!format!("{config:?}").contains("u:p"));
    }

    #[test]
    fn no_message_may_be_longer_than_the_client_sends() {
        let parse = |bytes| {
            let given = ["cdc-tailer", "--database-url", "mysql://u:p@h/d", "--dry-run"];
            Config::try_parse_from(given.iter().chain(&["--message-bytes-max", bytes]))
        };
        assert_eq!(parse("990000").unwrap().message_bytes_max, 990_000);
        for refused in ["990001", "0"] {
            let error = parse(refused).unwrap_err().to_string();
            assert!(error.contains("1..=990000"), "{refused}: {error}");
        }
    }

    #[test]
    fn a_snapshot_is_of_one_table_or_all_and_a_dry_run_needs_no_broker() {
        let parse = |arguments: &[&str]| {
            let given = ["cdc-tailer", "--database-url", "mysql://u:p@h/d"];
            Config::try_parse_from(given.iter().chain(arguments))
        };
        let wanted = |arguments: &[&str]| {
            let config = parse(&[&["--kafka-brokers", "h:1"], arguments].concat()).unwrap();
            config.wanted_snapshot().map(|wanted| format!("{wanted:?}"))
        };
        assert_eq!(wanted(&[]), None);
        assert_eq!(wanted(&["--resnapshot"]).unwrap(), "All");
        assert_eq!(wanted(&["--resnapshot", "user_coupon"]).unwrap(), "Table(\"user_coupon\")");
        assert!(parse(&["--kafka-brokers", "h:1", "--resnapshot", "claim"]).is_err());
        assert!(parse(&["--dry-run"]).is_ok());
        assert!(parse(&[]).is_err());
    }
}
