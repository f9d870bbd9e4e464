//! Errors that prevent a check.

use std::{io, path::PathBuf, time::Duration};

use mysql_store::StoreError;
use redis_gate::GateError;
use redis_view::ViewError;
use thiserror::Error;
use topic::TopicError;

/// MySQL's number for a statement that it ended at its time limit.
const TOO_LONG: u16 = 3024;

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

impl VerifyError {
    /// Returns whether something stored is at fault, rather than a server that is away: a statement or command that the
    /// server refuses, or an answer that cannot be read. The other checks can go on.
    pub(crate) fn is_of_data(&self) -> bool {
        match self {
            // A statement that took too long says nothing about the others.
            Self::Store(error) => !error.is_unavailable() || error.number() == Some(TOO_LONG),
            Self::Gate(error) => {
                error.is_of_keys() || matches!(error, GateError::Unreadable { .. })
            }
            Self::View(error) => {
                error.damage().is_some() || matches!(error, ViewError::Unreadable { .. })
            }
            Self::Topic(error) => matches!(error, TopicError::MissingTopic { .. }),
            Self::HistoryFile { .. } | Self::HistoryLine { .. } | Self::NotAtRest { .. } => false,
        }
    }
}
