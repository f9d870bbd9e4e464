//! What keeps the verifier from looking.

use std::{io, path::PathBuf, time::Duration};

use mysql_store::StoreError;
use redis_gate::GateError;
use redis_view::ViewError;
use thiserror::Error;
use topic::TopicError;

/// An invariant could not be checked.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// MySQL could not be read.
    #[error("could not read MySQL")]
    Store(#[from] StoreError),
    /// The gate could not be read.
    #[error("could not read the gate")]
    Gate(#[from] GateError),
    /// The view could not be read.
    #[error("could not read the view")]
    View(#[from] ViewError),
    /// A topic could not be read.
    #[error("could not read a topic")]
    Topic(#[from] TopicError),
    /// The file of the clients' answers could not be read or written.
    #[error("could not {operation} the history {}", path.display())]
    HistoryFile {
        /// A verb.
        operation: &'static str,
        /// Its path.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// A line of that file is not a record.
    #[error("line {line} of the history {} is not a record", path.display())]
    HistoryLine {
        /// Its path.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The platform did not come to rest.
    #[error("the platform was not at rest after {within:?}: {waiting_for}")]
    NotSettled {
        /// How long it was waited for.
        within: Duration,
        /// What was still missing.
        waiting_for: String,
    },
}
