//! Private servers and the four platform processes as child processes, for the demo, tests, benches and `./dev
//! up`. Development only; no running platform depends on it.
//!
//! ```text
//! Servers   MariaDB or MySQL, Redis (gate), Redis (view), one Kafka node: free ports of 127.0.0.1, data in one folder
//! Platform  api (one or more), cdc-tailer, sync-consumer, expiry-worker on given [`Endpoints`]
//! Process   one child of either: start, stop, kill, pause, resume, restart on the same port and data
//! ```
//! A [`Tie::Owner`] child ends with its owner, even if the owner is killed. A [`Tie::Detached`] child keeps
//! running and is found again through its record in the folder (see [`records`]). Readiness is always a
//! response of the server itself, never elapsed time.

mod at_last;
mod certificates;
mod child;
mod datadir;
mod endpoints;
mod env_file;
mod error;
mod fake_clock;
mod figures;
mod golden;
mod kafka;
mod mariadb;
mod mysql;
mod not_checked;
mod own_broker;
mod own_brokers;
mod own_cluster;
mod own_database;
mod own_pair;
mod own_sentinel;
mod own_view;
mod paths;
mod platform;
mod ports;
mod probe;
mod process;
pub mod records;
mod redis;
mod servers;
mod test_servers;
pub mod token;

pub use at_last::at_last;
pub use certificates::Certificates;
pub use child::Tie;
pub use endpoints::Endpoints;
pub use env_file::EnvFile;
pub use error::{Error, Result};
pub use fake_clock::FakeClock;
pub use golden::golden;
pub use not_checked::{if_installed, not_checked};
pub use own_broker::OwnBroker;
pub use own_brokers::OwnBrokers;
pub use own_cluster::OwnCluster;
pub use own_database::OwnDatabase;
pub use own_pair::OwnPair;
pub use own_sentinel::OwnSentinel;
pub use own_view::OwnView;
pub use paths::project_root;
pub use platform::{Platform, PlatformOptions};
pub use ports::free as free_port;
pub use process::Process;
pub use servers::{Flavor, Options, Servers};
pub use test_servers::{Scope, TestServers};
