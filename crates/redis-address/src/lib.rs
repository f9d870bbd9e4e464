//! Parsing Redis addresses, and connecting to the servers that they name.
//!
//! ```text
//! redis://[user:password@]host[:6379][/db]
//! redis+sentinel://[user:password@]host[:26379],host…/NAME
//! redis+cluster://[user:password@]host[:6379],host…
//! ```
//! For a cluster, some of its nodes are enough: each knows the others.
//!
//! With `rediss` instead of `redis`, all connections use TLS. The certificate must come from a trusted CA and match the
//! host that the address, or a sentinel, names. Options follow `?`, separated by `&`:
//!
//! - `ssl-ca`: PEM file of the CA. Without it, the system's CAs are trusted; with it, only this one.
//! - `ssl-cert`, `ssl-key`: files of our own certificate and its key (PKCS #8), for servers that require one.
//! - `sentinel-user`, `sentinel-password`: login for sentinels that require one. User and password of the address are
//!   for the server.
//!
//! The options have the same names in MySQL and Kafka addresses.
//!
//! Architecture invariant: this crate does not know what the server is used for. Its callers check whether a server is
//! suitable, and which run of it they are connected to.

mod address;
mod cluster;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod hosts;
mod masters;
mod node;
mod options;
mod sentinel;
mod transport;

pub use address::RedisAddress;
pub use error::AddressError;
pub use masters::{Masters, slot_of};
pub use node::Node;
