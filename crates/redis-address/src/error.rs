//! Errors in an address. None of them contains a password.

use thiserror::Error;

/// The address cannot be used. The message is meant to follow the name of the setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AddressError {
    /// The scheme is missing or is not one of ours.
    #[error(
        "must begin with redis://, redis+sentinel:// or redis+cluster://, with rediss for redis where \
         it is TLS"
    )]
    Scheme,
    /// The address cannot be parsed.
    #[error(
        "is not of the form redis://user:password@host:port/db, \
         redis+sentinel://user:password@host:port,host:port/NAME or \
         redis+cluster://user:password@host:port,host:port; in a password # ? / @ are written \
         %23 %3F %2F %40"
    )]
    Malformed,
    /// Sentinels watch many masters; the address must name one.
    #[error("names sentinels and no master: end it with /NAME, as the sentinels call it")]
    NoName,
    /// An unknown option, or one that belongs to another kind of address.
    #[error("has the option {name}, which an address of this kind does not have")]
    Option {
        /// Name of the option.
        name: String,
    },
    /// `ssl-cert` and `ssl-key` belong together.
    #[error("has only one of ssl-cert and ssl-key")]
    Incomplete,
    /// A file cannot be read.
    #[error("names the file {path}, which cannot be read: {reason}")]
    File {
        /// Path as written in the address.
        path: String,
        /// Message of the operating system.
        reason: String,
    },
    /// The files hold no usable certificates or key.
    #[error("names certificates that cannot be used: {reason}")]
    Certificates {
        /// Message of the TLS library.
        reason: String,
    },
}
