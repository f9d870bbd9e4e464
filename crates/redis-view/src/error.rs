//! Errors of the view.

use std::error::Error;

use coupon::UserId;
use redis_address::AddressError;
use thiserror::Error;

/// First word of the errors that our scripts raise about stored text.
const CODE_UNREADABLE: &str = "UNREADABLE";

/// Most bytes of a stored text that an error quotes: more than what we write there.
const QUOTED_BYTES_MAX: usize = 300;

/// A failed operation on the view. Its effect is unknown. Every operation may be repeated until it succeeds, unless
/// [`ViewError::damage`] reports damage.
#[derive(Debug, Error)]
pub enum ViewError {
    #[error("VIEW_REDIS_URL {0}")]
    Url(AddressError),

    /// There is no connection, and the last attempt to connect was a moment ago.
    #[error("the view's Redis is not connected: {0}")]
    NotConnected(String),

    /// The server could not be reached, or did not report its identity.
    #[error("the view's Redis cannot be reached")]
    Connect(#[source] redis::RedisError),

    /// The server is a replica, which may lack writes that its master acknowledged.
    #[error("the view's Redis is a replica; point VIEW_REDIS_URL at the master")]
    Replica,

    /// The server never evicts keys. Once it is full, it refuses all changes.
    #[error(
        "the view's Redis does not evict keys (noeviction): run `config set maxmemory-policy allkeys-lru`"
    )]
    NoEviction,

    /// The view generation of this server could not be determined.
    #[error("the view generation could not be read")]
    Generation(#[source] Box<dyn Error + Send + Sync>),

    /// A command failed or was not answered in time.
    #[error("the view's Redis could not {operation}")]
    Command {
        /// What was being done.
        operation: &'static str,
        #[source]
        source: redis::RedisError,
    },

    /// A key of the user has another type: drop the user's view.
    #[error("a key of user {user}'s view is of the wrong type")]
    WrongType { user: UserId },

    /// The stored data of the user is not in the format of this version: drop the user's view.
    #[error("the view of user {user} is unreadable: {what}")]
    Damaged { user: UserId, what: String },

    /// An answer does not have the format of this version's scripts.
    #[error("the view holds or answers something unreadable: {what}")]
    Unreadable { what: String },
}

impl ViewError {
    /// Returns the user whose keys must be dropped before any operation on them can succeed, and the reason in one
    /// word, for metrics. Returns `None` for an outage, which may pass.
    pub fn damage(&self) -> Option<(UserId, &'static str)> {
        match self {
            Self::WrongType { user } => Some((*user, "wrong_type")),
            Self::Damaged { user, .. } => Some((*user, "unreadable")),
            _ => None,
        }
    }

    /// Returns whether the server is unavailable, so that the same call may succeed later. Otherwise it answers, and an
    /// operator must act.
    pub fn is_away(&self) -> bool {
        match self {
            Self::NotConnected(_) | Self::Generation(_) | Self::Command { .. } => true,
            Self::Connect(source) => source.kind() != redis::ErrorKind::AuthenticationFailed,
            _ => false,
        }
    }

    /// Returns an error if Redis complains about the contents of the user's keys, rather than about the server: a key
    /// of another type, a script that found text it cannot read, or an answer that is no text.
    pub(crate) fn of_keys(user: UserId, source: &redis::RedisError) -> Option<Self> {
        let what = || shortened(source.detail().unwrap_or("no detail"));
        // An answer came, and it cannot be read. A connection that does not send Redis's protocol fails the next call.
        if source.kind() == redis::ErrorKind::Parse {
            return Some(Self::Damaged { user, what: what() });
        }
        // For several commands in one transaction the driver gives no code, only the text of their errors.
        let code = source.code().or_else(|| {
            let text = source.to_string();
            ["WRONGTYPE", CODE_UNREADABLE].into_iter().find(|code| text.contains(code))
        });
        match code? {
            "WRONGTYPE" => Some(Self::WrongType { user }),
            CODE_UNREADABLE => Some(Self::Damaged { user, what: what() }),
            // An error raised by Lua itself. The server works, and the same script would fail again.
            "ERR" if source.detail()?.contains("user_script:") => {
                Some(Self::Damaged { user, what: what() })
            }
            _ => None,
        }
    }

    pub(crate) fn unreadable(what: impl Into<String>) -> Self {
        Self::Unreadable { what: shortened(&what.into()) }
    }
}

/// Returns the beginning of a text that may quote what a key holds.
fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(QUOTED_BYTES_MAX);
    if end < text.len() { format!("{}…", &text[..end]) } else { text.to_owned() }
}
