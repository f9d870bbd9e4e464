//! The tailer's configuration.

use clap::Parser;
use runtime::{ProcessConfig, Secret};
use topic::{DEFAULT_PARTITIONS, TopicLayout};

/// Bytes of binlog between reader and publisher: keeps both busy, and memory small.
const QUEUE_BYTES: usize = 8 * 1024 * 1024;

/// Longest event: the servers' own limit for a packet.
const PACKET_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Follows the binlog of one database and writes its changes to the topics.
#[derive(Debug, Clone, Parser)]
#[command(version, about)]
pub struct Config {
    /// The database to follow: mysql://user:password@host:port/database. The user needs a password
    /// and SELECT, REPLICATION SLAVE, REPLICATION CLIENT.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    pub database_url: Secret,

    /// Kafka brokers, host:port, separated by commas.
    #[arg(long, env = "KAFKA_BROKERS")]
    pub kafka_brokers: String,

    /// Stands before every topic's name, with a dot behind it.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon")]
    pub topic_prefix: String,

    /// Partitions of topics that do not exist yet.
    #[arg(long, env = "TOPIC_PARTITIONS", default_value_t = DEFAULT_PARTITIONS)]
    pub topic_partitions: i32,

    /// Copies of topics that do not exist yet.
    #[arg(long, env = "TOPIC_REPLICATION", default_value_t = 1)]
    pub topic_replication: i32,

    /// Our id among the server's replicas; no other may have it. Without one it follows from the
    /// database's name, so that a tailer's successor ends what is left of its predecessor.
    #[arg(long, env = "SERVER_ID", value_parser = clap::value_parser!(u32).range(1..))]
    pub server_id: Option<u32>,

    /// Bytes of binlog held between reading and publishing.
    #[arg(long, env = "QUEUE_BYTES", default_value_t = QUEUE_BYTES)]
    pub queue_bytes: usize,

    /// Longest binlog event accepted, in bytes.
    #[arg(long, env = "PACKET_BYTES_MAX", default_value_t = PACKET_BYTES_MAX)]
    pub packet_bytes_max: usize,

    /// Forget the checkpoint: read all followed tables anew, then go on from now.
    #[arg(long)]
    pub resnapshot: bool,

    /// What every process takes.
    #[command(flatten)]
    pub process: ProcessConfig,
}

impl Config {
    pub(crate) fn layout(&self) -> TopicLayout {
        TopicLayout { partitions: self.topic_partitions, replication: self.topic_replication }
    }

    /// The configured id, or one made of the database's name, in the upper half where people rarely
    /// number servers.
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
}
