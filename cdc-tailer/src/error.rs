//! Errors between the binlog and the publisher, and which of them are transient.

use std::io;

use thiserror::Error;

use crate::{
    binlog::{
        compressed::CompressedError, encode::NotUtf8, gtid::NotAPosition, rows::RowsError,
        table::TableError,
    },
    cells::bytes::Truncated,
};

/// A failure between the server and the publisher.
#[derive(Debug, Error)]
pub(crate) enum TailError {
    #[error("the binlog connection could not be opened: {reason}")]
    Connect {
        /// Message of the system, the server or ours.
        reason: String,
    },
    /// The server rejects the user, or its privileges do not suffice.
    #[error(
        "the server refuses this user: {reason}; it needs the password of DATABASE_URL, \
         `grant select, replication slave, replication client on *.*`, and where the server demands TLS \
         ssl-mode=VERIFY_IDENTITY in DATABASE_URL"
    )]
    Denied {
        /// Message of the server.
        reason: String,
    },
    /// Server and client do not agree on encryption or on an authentication method.
    #[error("the binlog connection cannot be logged in: {reason}")]
    Login {
        /// The reason and a remedy.
        reason: String,
    },
    #[error("the binlog connection was lost")]
    Lost(#[source] io::Error),
    /// Another replica connected with our server id.
    #[error(
        "another replica has our server id and takes our place on the server: give one of the two \
         another SERVER_ID: {reason}"
    )]
    Evicted {
        /// Message of the server.
        reason: String,
    },
    /// The server ended the stream because it shuts down.
    #[error("the server ended the binlog stream: {reason}")]
    Ended {
        /// Message of the server.
        reason: String,
    },
    /// The binlog after our position no longer exists, or never did.
    #[error("the server cannot go on from our position: {reason}")]
    PositionLost {
        /// Message of the server, or ours.
        reason: String,
    },
    /// The server cannot read its own binlog at our position.
    #[error("the server cannot read its binlog: {reason}")]
    Unreadable {
        /// Message of the server.
        reason: String,
    },
    /// The server rejects a command for another reason.
    #[error(
        "the server refuses with error {code}: {message}: mend what it names; if it does not send what is \
         behind our position then, start with --resnapshot"
    )]
    Server {
        /// MySQL error number.
        code: u16,
        message: String,
    },
    /// The event was corrupted.
    #[error("a binlog event of kind {kind} in {file} before offset {end} has a wrong checksum")]
    Checksum {
        kind: u8,
        file: String,
        /// Offset of its end.
        end: u32,
    },
    /// An event is shorter than announced.
    #[error("a binlog event of kind {kind} {source}")]
    Truncated {
        /// Type code of the event.
        kind: u8,
        source: Truncated,
    },
    #[error("a binlog event of kind {kind} {source}")]
    Compressed {
        /// Type code of the event.
        kind: u8,
        source: CompressedError,
    },
    /// Events come in an order that no server writes.
    #[error("the binlog is out of order: {what}")]
    OutOfOrder {
        /// The unexpected event.
        what: String,
    },
    #[error("a binlog event of over {limit} bytes came; raise --packet-bytes-max")]
    Oversize {
        /// In bytes.
        limit: usize,
    },
    /// An event may change followed rows in a way we cannot follow.
    #[error("cannot go on without losing changes: {what}")]
    Unsupported {
        /// The event and a remedy.
        what: String,
    },
    /// A transaction's rows cannot be written to the spill folder.
    #[error("a long transaction's rows cannot be written to {folder} (see --spill-folder)")]
    Spill {
        /// The value of `--spill-folder`.
        folder: String,
        source: io::Error,
    },
    /// A followed table's description cannot be used.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A followed table's rows cannot be used.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A followed table's text cannot be used.
    #[error(transparent)]
    Text(#[from] NotUtf8),
    /// A position cannot be parsed.
    #[error(transparent)]
    Position(#[from] NotAPosition),
}

/// Reaction to a [`TailError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directive {
    /// Reconnect, for as long as it takes.
    Reconnect,
    /// Reconnect a limited number of times: each reconnect evicts the other replica in turn.
    GiveWay,
    /// Reconnect, but stop if the same position fails repeatedly.
    Suspect,
    /// Read all tables again and continue from now.
    Resnapshot,
    /// Stop: an operator must act.
    Stop,
}

impl TailError {
    /// Returns the reaction; the only place that decides it. Errors not known to be transient stop the tailer.
    pub(crate) fn directive(&self) -> Directive {
        match self {
            Self::Connect { .. } | Self::Lost(_) | Self::Ended { .. } => Directive::Reconnect,
            Self::Evicted { .. } => Directive::GiveWay,
            Self::Checksum { .. }
            | Self::Unreadable { .. }
            | Self::Truncated { .. }
            | Self::Compressed { .. }
            | Self::OutOfOrder { .. } => Directive::Suspect,
            Self::PositionLost { .. } => Directive::Resnapshot,
            Self::Denied { .. }
            | Self::Login { .. }
            | Self::Server { .. }
            | Self::Oversize { .. }
            | Self::Unsupported { .. }
            | Self::Spill { .. }
            | Self::Table(_)
            | Self::Rows(_)
            | Self::Text(_)
            | Self::Position(_) => Directive::Stop,
        }
    }
}
