//! What can go wrong between a process and the view.

use std::error::Error;

use coupon::UserId;
use redis_address::AddressError;
use thiserror::Error;

/// A failed operation on the view. Except for [`ViewError::WrongType`] its effect is unknown; every
/// operation may be repeated until it is known.
#[derive(Debug, Error)]
pub enum ViewError {
    /// The address cannot be used.
    #[error("VIEW_REDIS_URL {0}")]
    Url(AddressError),

    /// No connection, and the last attempt at one was a moment ago.
    #[error("the view's Redis is not connected")]
    NotConnected,

    /// The server could not be reached, or did not say who it is.
    #[error("the view's Redis cannot be reached")]
    Connect(#[source] redis::RedisError),

    /// The server is a replica, which may lack what its master acknowledged.
    #[error("the view's Redis is a replica; point VIEW_REDIS_URL at the master")]
    Replica,

    /// The view generation of this server could not be found out.
    #[error("the view generation could not be read")]
    Generation(#[source] Box<dyn Error + Send + Sync>),

    /// A command failed or was not answered in time.
    #[error("the view's Redis could not {operation}")]
    Command {
        /// What was being done.
        operation: &'static str,
        /// The driver's error.
        #[source]
        source: redis::RedisError,
    },

    /// A key of the user holds something of another type: drop the user's view.
    #[error("a key of user {user}'s view is of the wrong type")]
    WrongType {
        /// Whose view.
        user: UserId,
    },

    /// An answer or a stored entry is not one that this version writes.
    #[error("the view holds or answers something unreadable: {what}")]
    Unreadable {
        /// What it is.
        what: String,
    },
}

impl ViewError {
    /// Whether the user's keys have to be dropped before anything else can succeed.
    pub fn is_wrong_type(&self) -> bool {
        matches!(self, Self::WrongType { .. })
    }

    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Self::Unreadable { what: what.into() }
    }
}
