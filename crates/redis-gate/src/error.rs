//! Errors of calls to the gate.

use thiserror::Error;

/// A call to the gate failed.
#[derive(Debug, Clone, Error)]
pub enum GateError {
    /// No answer came, so whether the script ran is unknown. Repeating the call with the same key finds out.
    #[error("the gate did not answer {call}")]
    Unknown {
        call: &'static str,
        #[source]
        source: redis::RedisError,
    },
    /// No connection could be made: the script did not run.
    #[error("the gate cannot be reached")]
    Unreachable {
        /// The driver's error; absent if this call did not try, because the last failure was moments ago or too many
        /// claims wait for replicas.
        #[source]
        source: Option<redis::RedisError>,
    },
    /// Redis answered with an error, e.g. out of memory; the script had no effect.
    #[error("the gate refused {call}")]
    Refused {
        call: &'static str,
        #[source]
        source: redis::RedisError,
    },
    /// The address or the server is not fit for a gate; the text says how to fix it.
    #[error("{0}")]
    Unfit(String),
    /// The answer is in a format that this version's scripts do not return.
    #[error("the gate gave an unreadable answer to {call}")]
    Unreadable {
        /// The script or command that was called.
        call: &'static str,
    },
}

impl GateError {
    /// Returns whether Redis refused the call because its memory is full.
    pub fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.code() == Some("OOM"))
    }

    /// Returns whether a cluster refused the call because of the template's slot: it is moving, or is with another
    /// master, or with none. No other template needs to wait for it.
    pub fn is_of_slot(&self) -> bool {
        matches!(self, Self::Refused { source, .. } if source.is_cluster_error())
    }

    /// Returns whether the gate's keys, not Redis, are at fault: a key has another type, or a script cannot read its
    /// text. The call keeps failing until a new epoch begins.
    pub fn is_of_keys(&self) -> bool {
        let Self::Refused { source, .. } = self else { return false };
        let is_of_keys = |code: &str, detail: Option<&str>| {
            let in_script = detail.is_some_and(|detail| detail.contains("user_script:"));
            code == "WRONGTYPE" || (code == "ERR" && in_script)
        };
        // In a transaction one command fails, and the others run.
        let mut of_commands = source.clone().into_server_errors().into_iter();
        source.code().is_some_and(|code| is_of_keys(code, source.detail()))
            || of_commands
                .any(|all| all.iter().any(|(_, one)| is_of_keys(one.code(), one.details())))
    }
}
