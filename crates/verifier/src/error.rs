//! Errors that prevent a check.

use std::{io, path::PathBuf, time::Duration};

use mysql_store::StoreError;
use redis_gate::GateError;
use redis_view::ViewError;
use thiserror::Error;
use topic::TopicError;

/// An invariant could not be checked.
#[derive(Debug, Error)]
pub enum VerifyError {
    #[error("could not read MySQL")]
    Store(#[from] StoreError),
    #[error("could not read the gate")]
    Gate(#[from] GateError),
    #[error("could not read the view")]
    View(#[from] ViewError),
    #[error("could not read a topic")]
    Topic(#[from] TopicError),
    /// The file with the clients' answers could not be read or written.
    #[error("could not {operation} the history {}", path.display())]
    HistoryFile {
        /// The verb for the message.
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A line of the history file is not a record.
    #[error("line {line} of the history {} is not a record", path.display())]
    HistoryLine {
        path: PathBuf,
        /// The line number, from 1.
        line: usize,
        source: serde_json::Error,
    },
    /// The platform did not come to rest.
    #[error("the platform was not at rest after {within:?}: {waiting_for}")]
    NotAtRest {
        within: Duration,
        /// The missing condition.
        waiting_for: String,
    },
}
