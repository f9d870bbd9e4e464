//! The error of every statement: the operation and the kind of failure.

use std::time::Duration;

use coupon::UnknownCode;
use thiserror::Error;

/// Longest wait for an answer on a pooled connection: longer than any wait for a locked row.
pub const ANSWER_MAX: Duration = Duration::from_secs(8);

/// A statement or connection failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The database answered with an error, or the connection failed.
    #[error("mysql could not {operation}")]
    Query {
        /// What was being done.
        operation: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// The database did not answer within [`ANSWER_MAX`].
    #[error("mysql said nothing for {} s", ANSWER_MAX.as_secs())]
    Silent,
    /// Other transactions changed the same row at every attempt. Nothing was decided, and the same call can be
    /// tried again.
    #[error("others changed the row at every try")]
    Contended,
    /// A stored value is not one that this version writes.
    #[error("mysql holds an unreadable value: {what}")]
    Unreadable {
        /// The value, or the column that holds it.
        what: String,
    },
    /// The server's settings do not fit the platform. The message names the remedy.
    #[error("{0}")]
    Settings(String),
    /// A connection URL cannot be parsed.
    #[error("{what} is not a mysql://user:password@host:port/database URL")]
    Url {
        /// The setting that holds it.
        what: &'static str,
        #[source]
        source: sqlx::Error,
    },
}

impl From<UnknownCode> for StoreError {
    fn from(code: UnknownCode) -> Self {
        Self::unreadable(code.to_string())
    }
}

/// The unique key that a row collided with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateKey {
    /// The table's primary key.
    Primary,
    /// Another unique key.
    Other,
}

impl StoreError {
    pub(crate) fn query(operation: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| {
            if let sqlx::Error::ColumnDecode { source: cause, .. } = &source
                && let Some(code) = cause.downcast_ref::<UnknownCode>()
            {
                return Self::from(*code);
            }
            Self::Query { operation, source }
        }
    }

    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Self::Unreadable { what: what.into() }
    }

    /// The server's error number, if it answered with one.
    pub fn number(&self) -> Option<u16> {
        let Self::Query { source: sqlx::Error::Database(error), .. } = self else { return None };
        Some(error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>().number())
    }

    /// Returns the unique key that was taken, if that was the error (1062).
    pub fn duplicate_key(&self) -> Option<DuplicateKey> {
        const ER_DUP_ENTRY: u16 = 1062;
        let Self::Query { source: sqlx::Error::Database(error), .. } = self else { return None };
        (self.number() == Some(ER_DUP_ENTRY)).then(|| {
            // MariaDB reports 'PRIMARY', MySQL 'table.PRIMARY'.
            let primary = error.message().trim_end_matches('\'').ends_with("PRIMARY");
            if primary { DuplicateKey::Primary } else { DuplicateKey::Other }
        })
    }

    /// Returns whether other transactions interfered: [`Self::Contended`], a deadlock (1213), a lock wait timeout (1205),
    /// or a row that changed since the transaction's snapshot (1020). Nothing was done, and the whole work can be
    /// repeated.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Contended) || matches!(self.number(), Some(1213 | 1205 | 1020))
    }

    /// Returns whether the server refuses us at every attempt: a wrong user or password (1045, 1698), no right to the
    /// database (1044), no such database (1049), or a session that is not as we need it (also 1193, 1231).
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Settings(_))
            || matches!(self.number(), Some(1044 | 1045 | 1049 | 1193 | 1231 | 1698))
    }

    /// Returns whether a wait for a row locked by another transaction timed out (1205).
    pub fn is_lock_wait(&self) -> bool {
        self.number() == Some(1205)
    }

    /// Returns whether the values of a row are refused at every attempt: by the client, for a value that has no
    /// encoding, or by the server, for a value that does not fit its column (1048, 1264, 1265, 1292, 1366, 1406, 1690),
    /// by a constraint (1452, 3819, 4025), or by a trigger (1644). This is an allow-list: any other error may pass once
    /// the server, the schema or our rights are in order.
    pub fn is_of_row(&self) -> bool {
        if let Self::Query { source: sqlx::Error::Encode(_), .. } = self {
            return true;
        }
        matches!(
            self.number(),
            Some(1048 | 1264 | 1265 | 1292 | 1366 | 1406 | 1452 | 1644 | 1690 | 3819 | 4025)
        )
    }

    /// Returns whether this version can never read a stored value.
    pub fn is_unreadable(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            Self::Query { source, .. } => {
                matches!(source, sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_))
            }
            Self::Silent | Self::Contended | Self::Settings(_) | Self::Url { .. } => false,
        }
    }

    /// Returns whether the connection or the server failed rather than the statement. The effect is unknown, and the
    /// same work can be tried on a new connection.
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::Query { source, .. } => match source {
                sqlx::Error::Database(_) => {
                    // Connection limits, shutdown, read-only, killed and unresponsive connections.
                    matches!(
                        self.number(),
                        Some(1040 | 1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1203 | 1290)
                            | Some(1317 | 1927 | 1969 | 2006 | 2013 | 3024 | 4031)
                    )
                }
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed => true,
                _ => false,
            },
            Self::Silent => true,
            Self::Contended | Self::Unreadable { .. } | Self::Settings(_) | Self::Url { .. } => {
                false
            }
        }
    }
}
