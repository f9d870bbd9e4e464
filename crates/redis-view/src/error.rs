//! What can go wrong between a process and the view.

use std::error::Error;

use coupon::UserId;
use redis_address::AddressError;
use thiserror::Error;

/// The first word of what our scripts raise about stored text.
const CODE_UNREADABLE: &str = "UNREADABLE";

/// A failed operation on the view. Its effect is unknown; every operation may be repeated until it is known,
/// but for those that [`ViewError::damage`] names.
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

    /// The server keeps every key: once it is full it takes no change, and nothing leaves it.
    #[error(
        "the view's Redis does not evict keys (noeviction): run `config set maxmemory-policy allkeys-lru`"
    )]
    NoEviction,

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

    /// What is stored for the user is not what this version writes: drop the user's view.
    #[error("the view of user {user} is unreadable: {what}")]
    Damaged {
        /// Whose view.
        user: UserId,
        /// What is unreadable in it.
        what: String,
    },

    /// An answer is not one that this version's scripts give.
    #[error("the view holds or answers something unreadable: {what}")]
    Unreadable {
        /// What it is.
        what: String,
    },
}

impl ViewError {
    /// Whose keys have to be dropped before anything else can succeed with them, and one word for the reason,
    /// for metrics. Absent: an outage, which may pass.
    pub fn damage(&self) -> Option<(UserId, &'static str)> {
        match self {
            Self::WrongType { user } => Some((*user, "wrong_type")),
            Self::Damaged { user, .. } => Some((*user, "unreadable")),
            _ => None,
        }
    }

    /// What Redis said of a command on one user's keys, if that is about what they hold and not about the server:
    /// a key of another type, or a script that met text which it cannot read.
    pub(crate) fn of_keys(user: UserId, source: &redis::RedisError) -> Option<Self> {
        let what = || source.detail().unwrap_or("no detail").to_owned();
        // Of several commands in one transaction the driver gives no code, but their errors' text.
        let code = source.code().or_else(|| {
            let text = source.to_string();
            ["WRONGTYPE", CODE_UNREADABLE].into_iter().find(|code| text.contains(code))
        });
        match code? {
            "WRONGTYPE" => Some(Self::WrongType { user }),
            CODE_UNREADABLE => Some(Self::Damaged { user, what: what() }),
            // An error of Lua itself: the server is well, and the same script says the same again.
            "ERR" if source.detail()?.contains("user_script:") => {
                Some(Self::Damaged { user, what: what() })
            }
            _ => None,
        }
    }

    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Self::Unreadable { what: what.into() }
    }
}
