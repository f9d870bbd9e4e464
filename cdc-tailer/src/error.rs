//! What can go wrong on the way out of the binlog, and which of it passes.

use std::io;

use thiserror::Error;

use crate::{
    bytes::Truncated, compressed::CompressedError, encode::NotUtf8, position::NotAPosition,
    rows::RowsError, table::TableError,
};

/// A failure between the server and the publisher.
#[derive(Debug, Error)]
pub(crate) enum TailError {
    /// The server cannot be reached or the handshake failed.
    #[error("the binlog connection could not be opened: {reason}")]
    Connect {
        /// The system's words, the server's, or ours.
        reason: String,
    },
    /// The server knows the user not, or not for this.
    #[error(
        "the server refuses this user: {reason}; it needs the password of DATABASE_URL, \
         `grant select, replication slave, replication client on *.*`, and where the server demands TLS \
         ssl-mode=VERIFY_IDENTITY in DATABASE_URL"
    )]
    Denied {
        /// The server's words.
        reason: String,
    },
    /// Server and address do not agree on encryption or on a way to prove a password.
    #[error("the binlog connection cannot be logged in: {reason}")]
    Login {
        /// Why, and the way out.
        reason: String,
    },
    /// The connection broke.
    #[error("the binlog connection was lost")]
    Lost(#[source] io::Error),
    /// Another replica came under our server id.
    #[error(
        "another replica has our server id and takes our place on the server: give one of the two \
         another SERVER_ID: {reason}"
    )]
    Evicted {
        /// The server's words.
        reason: String,
    },
    /// The server ended the stream: it stops.
    #[error("the server ended the binlog stream: {reason}")]
    Ended {
        /// The server's words.
        reason: String,
    },
    /// What comes after our position is not there any more, or never was.
    #[error("the server cannot go on from our position: {reason}")]
    PositionLost {
        /// The server's words.
        reason: String,
    },
    /// The server cannot read its own binlog where we are.
    #[error("the server cannot read its binlog: {reason}")]
    Unreadable {
        /// The server's words.
        reason: String,
    },
    /// The server refuses a command for another reason.
    #[error("the server answers {code}: {message}")]
    Server {
        /// Error number.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// Bytes changed on the way.
    #[error("a binlog event of kind {kind} in {file} before offset {end} has a wrong checksum")]
    Checksum {
        /// The event's kind.
        kind: u8,
        /// Binlog file.
        file: String,
        /// Where it ends.
        end: u32,
    },
    /// An event is shorter than it says.
    #[error("a binlog event of kind {kind} {source}")]
    Truncated {
        /// The event's kind.
        kind: u8,
        /// How.
        source: Truncated,
    },
    /// A compressed event cannot be read.
    #[error("a binlog event of kind {kind} {source}")]
    Compressed {
        /// The event's kind.
        kind: u8,
        /// How.
        source: CompressedError,
    },
    /// Events come in an order that no server writes.
    #[error("the binlog is out of order: {what}")]
    OutOfOrder {
        /// What came where.
        what: String,
    },
    /// A packet is over the limit.
    #[error("a binlog event of over {limit} bytes came; raise --packet-bytes-max")]
    Oversize {
        /// The limit.
        limit: usize,
    },
    /// Something that may change followed rows in a way we cannot follow.
    #[error("cannot go on without losing changes: {what}")]
    Unsupported {
        /// What, and the way out.
        what: String,
    },
    /// A transaction's rows cannot be put aside.
    #[error("a long transaction's rows cannot be written to {folder} (see --spill-folder)")]
    Spill {
        /// Where.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// A followed table's description is of no use.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A followed table's rows are of no use.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// A followed table's text is of no use.
    #[error(transparent)]
    Text(#[from] NotUtf8),
    /// A position is not one.
    #[error(transparent)]
    Position(#[from] NotAPosition),
}

/// What to do about a [`TailError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directive {
    /// Connect again, as long as it takes.
    Reconnect,
    /// Connect again, but not for ever: the other one would be thrown off by us in turn.
    GiveWay,
    /// Connect again, but the same place must not fail many times.
    Suspect,
    /// Read the tables anew and go on from now.
    Resnapshot,
    /// Stop: somebody must act.
    Stop,
}

impl TailError {
    /// The one place that decides. What is not known to pass stops the tailer.
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
