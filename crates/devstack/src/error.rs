//! Errors of child processes. Each message says what to do about it.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitStatus;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on this machine.
    #[error("{program} is not installed: run {by}")]
    NotInstalled {
        program: String,
        /// The script that installs it.
        by: &'static str,
    },
    /// One of our own binaries has not been built.
    #[error("{program} is not built: run `cargo build --workspace` first")]
    NotBuilt {
        /// Name of the binary.
        program: String,
    },
    /// The operating system refused to start the program.
    #[error("could not start {name}")]
    Spawn {
        /// Name of the child.
        name: String,
        source: io::Error,
    },
    /// The child ended before it answered.
    #[error("{name} ended with {status} before it was ready.{way_out}\nIts last lines ({}):\n{tail}", log.display())]
    Ended {
        name: String,
        status: ExitStatus,
        /// What to do about it, if the log shows a known cause; otherwise empty.
        way_out: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The child runs but did not answer in time.
    #[error("{name} was not ready after {seconds} s: {said}.{way_out}\nIts last lines ({}):\n{tail}", log.display())]
    NotReady {
        name: String,
        /// How long the caller waited.
        seconds: u64,
        /// Its last answer, or why it did not answer.
        said: Box<str>,
        /// What to do about it, if the log shows a known cause; otherwise empty.
        way_out: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The child should have ended by itself and did not.
    #[error("{name} still ran after {seconds} s")]
    StillRuns {
        name: String,
        /// How long the caller waited.
        seconds: u64,
    },
    /// A one-shot command failed.
    #[error("{name} failed with {status}.\nIts last lines ({}):\n{tail}", log.display())]
    Failed {
        /// The command that was run.
        name: String,
        status: ExitStatus,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The operation needs a running child.
    #[error("{name} is not running")]
    NotRunning {
        /// Name of the child.
        name: String,
    },
    /// A signal could not be sent.
    #[error("could not signal {name}")]
    Signal {
        /// Name of the child.
        name: String,
        source: io::Error,
    },
    /// A file or folder of the stack could not be read or written.
    #[error("could not {operation} {}", path.display())]
    File {
        /// A verb: `read`, `write`, `create`, …
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// An environment file lacks a variable.
    #[error("{} does not hold {variable}", path.display())]
    Variable {
        /// Path of the environment file.
        path: PathBuf,
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
    /// A database server refused a statement, or did not answer.
    #[error("{said} (the database at {server}, in: {statements})")]
    Statement {
        server: SocketAddr,
        /// What the client printed.
        said: String,
        statements: String,
    },
    /// A replica does not connect to its primary, or does not apply what it receives.
    #[error("the replica does not follow its primary: {why}")]
    DoesNotFollow {
        /// The server's own words.
        why: String,
    },
    /// A replica lacks transactions that it should have applied by now.
    #[error(
        "the replica has not caught up within {seconds} s: {why}. It goes on meanwhile: try again"
    )]
    Behind {
        /// How long the caller waited.
        seconds: u32,
        /// The server's own words.
        why: String,
    },
    /// Another program listens where the primary did.
    #[error(
        "port {port}, where the primary was, is taken by another program: end that, then `./dev down` and `./dev up`"
    )]
    PortTaken { port: u16 },
    /// A token could not be signed.
    #[error("could not sign the token")]
    Token {
        /// Why signing failed.
        source: jsonwebtoken::errors::Error,
    },
}

impl Error {
    /// Wraps an I/O error with the operation and the path.
    pub(crate) fn file(
        operation: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { operation, path, source }
    }
}
