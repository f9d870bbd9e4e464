//! Which Redis server, or servers, and how to reach them.
//!
//! ```text
//! redis://[user:password@]host[:6379][/db]
//! redis+sentinel://[user:password@]host[:26379],host…/NAME
//! redis+cluster://[user:password@]host[:6379],host…
//! ```
//! Of a cluster, some nodes are enough: they know the others.
//!
//! With `rediss` for `redis` all of it is TLS: the certificate must be of a CA that is trusted, and for the
//! host that the address (or a sentinel) names. Options behind `?`, with `&` between them:
//!
//! - `ssl-ca`: file of the CA, PEM; without it the system's CAs are trusted, with it only this one.
//! - `ssl-cert`, `ssl-key`: files of our own certificate and its key (PKCS #8), where servers ask for one.
//! - `sentinel-user`, `sentinel-password`: for sentinels that ask for them; user and password of the
//!   address are the server's.
//!
//! What stands in MySQL's and Kafka's addresses has the same names.
//!
//! Architecture invariant: no word of what the server is for; that a server is fit, and which run of it
//! one speaks to, is found out by those who connect.

mod address;
mod cluster;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod hosts;
mod masters;
mod options;
mod sentinel;
mod transport;

pub use address::RedisAddress;
pub use error::AddressError;
pub use masters::{Masters, slot_of};
