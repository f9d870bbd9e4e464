//! Private servers and the six platform processes as child processes, for the demo, tests, benches and `./dev
//! up`. Development only; no running platform depends on it.
//!
//! ```text
//! Servers   MariaDB or MySQL, Redis (gate), Redis (view), one Kafka node: free ports of 127.0.0.1, data in one folder
//! Platform  api (one or more), outbox-relay, claim-lander, cdc-tailer, sync-consumer, expiry-worker on given
//!           [`Endpoints`]
//! Process   one child of either: start, stop, kill, pause, resume, restart on the same port and data
//! ```
//! A [`Tie::Owner`] child ends with its owner, even if the owner is killed. A [`Tie::Detached`] child keeps
//! running and is found again through its record in the folder (see [`records`]). Readiness is always a
//! response of the server itself, never elapsed time.

mod endpoints;
mod env_file;
mod error;
mod own;
mod paths;
mod platform;
mod process;
mod rehearsal;
mod servers;
mod testing;
mod tier;

pub use testing::token;

pub use endpoints::Endpoints;
pub use env_file::EnvFile;
pub use error::{Error, Result};
pub use own::broker::OwnBroker;
pub use own::brokers::OwnBrokers;
pub use own::cluster::OwnCluster;
pub use own::database::OwnDatabase;
pub use own::pair::OwnPair;
pub use own::redis::OwnRedis;
pub use own::sentinel::OwnSentinel;
pub use own::slot_move::SlotMove;
pub use paths::project_root;
pub use platform::{Platform, PlatformOptions};
pub use process::Process;
pub use process::child::Tie;
pub use process::figures::peak_mib;
pub use process::ports::free as free_port;
pub use process::{at_last::at_last, records};
pub use rehearsal::{REHEARSAL, rehearse};
pub use servers::certificates::Certificates;
pub use servers::kafka::archive_kafka_classes;
pub use servers::replica::StackReplica;
pub use servers::replication::{Replication, ReplicationWords, Role};
pub use servers::{Flavor, Options, Servers, Survives, mysql_beside};
pub use testing::fake_clock::FakeClock;
pub use testing::golden::{golden, golden_rows};
pub use testing::imposed::{INIT_CONNECT, imposed};
pub use testing::not_checked::{if_installed, not_checked};
pub use testing::test_servers::{Scope, TestServers};
pub use tier::{full_only, quick_fault_test_of};
