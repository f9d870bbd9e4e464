//! How a call to the gate fails.

use thiserror::Error;

/// A call to the gate failed.
#[derive(Debug, Error)]
pub enum GateError {
    /// No answer came: whether the script ran is unknown. The same call with the same key finds out.
    #[error("the gate did not answer {call}")]
    Unknown {
        /// Which call.
        call: &'static str,
        /// The driver's error.
        #[source]
        source: redis::RedisError,
    },
    /// No connection could be made: the script did not run.
    #[error("the gate cannot be reached")]
    Unreachable {
        /// The driver's error, if this call tried; absent while waiting before the next try.
        #[source]
        source: Option<redis::RedisError>,
    },
    /// Redis answered with an error, e.g. out of memory: the script had no effect.
    #[error("the gate refused {call}")]
    Refused {
        /// Which call.
        call: &'static str,
        /// The driver's error.
        #[source]
        source: redis::RedisError,
    },
    /// The address or the server is not fit to be a gate; the text says how to mend it.
    #[error("{0}")]
    Unfit(String),
    /// The answer is not one that this version's scripts give.
    #[error("the gate gave an unreadable answer to {call}")]
    Unreadable {
        /// Which call.
        call: &'static str,
    },
}

impl GateError {
    /// Whether Redis refused the call because its memory is full.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.code() == Some("OOM"))
    }

    /// Whether Redis is well and the gate's keys are what is wrong: one of another type, or text that a script
    /// cannot read. The same call fails again until a new epoch begins.
    pub fn is_of_keys(&self) -> bool {
        let Self::Refused { source, .. } = self else { return false };
        let in_script = source.detail().is_some_and(|detail| detail.contains("user_script:"));
        source.code() == Some("WRONGTYPE") || (source.code() == Some("ERR") && in_script)
    }
}
