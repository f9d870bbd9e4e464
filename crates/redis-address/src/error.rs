//! What is wrong with an address. None of it holds a password.

use thiserror::Error;

/// An address cannot be used; the text goes on after the name of the setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// Another kind of server, or none.
    #[error(
        "must begin with redis://, redis+sentinel:// or redis+cluster://, with rediss for redis where \
         it is TLS"
    )]
    Scheme,
    /// It cannot be taken apart.
    #[error(
        "is not of the form redis://user:password@host:port/db, \
         redis+sentinel://user:password@host:port,host:port/NAME or \
         redis+cluster://user:password@host:port,host:port; in a password # ? / @ are written \
         %23 %3F %2F %40"
    )]
    Malformed,
    /// Sentinels watch many masters.
    #[error("names sentinels and no master: end it with /NAME, as the sentinels call it")]
    NoName,
    /// It is a cluster's.
    #[error("is that of a cluster; the gate is one server, or the one that sentinels name")]
    Cluster,
    /// An option that nobody knows, or whose place is another address.
    #[error("has the option {name}, which an address of this kind does not have")]
    Option {
        /// Its name.
        name: String,
    },
    /// One of two that belong together.
    #[error("has only one of ssl-cert and ssl-key")]
    Incomplete,
    /// A file cannot be read.
    #[error("names the file {path}, which cannot be read: {reason}")]
    File {
        /// Which.
        path: String,
        /// The system's words.
        reason: String,
    },
    /// What the files hold is not what they should.
    #[error("names certificates that cannot be used: {reason}")]
    Certificates {
        /// The library's words.
        reason: String,
    },
}
