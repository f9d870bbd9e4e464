//! What can go wrong with child processes, each with the way out in its sentence.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A child process did not do what it was started for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on this machine.
    #[error("{program} is not installed: run {by}")]
    NotInstalled {
        /// The program's name.
        program: String,
        /// The script that brings it.
        by: &'static str,
    },
    /// One of our own binaries has not been built.
    #[error("{program} is not built: run `cargo build --workspace` first")]
    NotBuilt {
        /// The binary's name.
        program: String,
    },
    /// The operating system refused to start the program.
    #[error("could not start {name}")]
    Spawn {
        /// Which child.
        name: String,
        /// The refusal.
        source: io::Error,
    },
    /// The child ended before it answered.
    #[error("{name} ended with {status} before it was ready.{way_out}\nIts last lines ({}):\n{tail}", log.display())]
    Ended {
        /// Which child.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// What to do about it, where the log tells; empty otherwise.
        way_out: String,
        /// Its log file.
        log: PathBuf,
        /// The end of that file.
        tail: String,
    },
    /// The child runs but did not answer in time.
    #[error("{name} was not ready after {seconds} s.{way_out}\nIts last lines ({}):\n{tail}", log.display())]
    NotReady {
        /// Which child.
        name: String,
        /// How long it was waited for.
        seconds: u64,
        /// What to do about it, where the log tells; empty otherwise.
        way_out: String,
        /// Its log file.
        log: PathBuf,
        /// The end of that file.
        tail: String,
    },
    /// The child should have ended by itself and did not.
    #[error("{name} still ran after {seconds} s")]
    StillRuns {
        /// Which child.
        name: String,
        /// How long it was waited for.
        seconds: u64,
    },
    /// A one-shot command failed.
    #[error("{name} failed with {status}.\nIts last lines ({}):\n{tail}", log.display())]
    Failed {
        /// What was run.
        name: String,
        /// How it ended.
        status: ExitStatus,
        /// Its log file.
        log: PathBuf,
        /// The end of that file.
        tail: String,
    },
    /// The operation needs a running child.
    #[error("{name} is not running")]
    NotRunning {
        /// Which child.
        name: String,
    },
    /// A signal could not be sent.
    #[error("could not signal {name}")]
    Signal {
        /// Which child.
        name: String,
        /// The refusal.
        source: io::Error,
    },
    /// A file or folder of the stack could not be read or written.
    #[error("could not {operation} {}", path.display())]
    File {
        /// A verb: `read`, `write`, `create`, …
        operation: &'static str,
        /// Of what.
        path: PathBuf,
        /// The refusal.
        source: io::Error,
    },
    /// A file of variables lacks one, or holds nonsense.
    #[error("{} does not hold {variable}", path.display())]
    Variable {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        variable: String,
    },
    /// No port in the range is free.
    #[error("no free port on 127.0.0.1 between {low} and {high}")]
    NoPort {
        /// Lowest port tried.
        low: u16,
        /// Highest port tried.
        high: u16,
    },
    /// A token could not be signed.
    #[error("could not sign the token")]
    Token {
        /// The refusal.
        source: jsonwebtoken::errors::Error,
    },
}

impl Error {
    /// Wraps an I/O error with what was done to which path.
    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { operation, path, source }
    }
}
