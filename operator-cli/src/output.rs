//! Output: answers on standard output, as JSON or as text, and failures on standard error.

use std::{
    io::{self, Write as _},
    process,
};

use serde_json::Value;

use crate::{
    failure::{Failure, Kind},
    text,
};

/// The format of answers.
pub(crate) struct Output {
    pub(crate) json: bool,
}

impl Output {
    /// Prints an answer as it came, or as `text` formats it.
    pub(crate) fn answer(
        &self,
        answer: &Value,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.line(&answer.to_string()) } else { self.line(text(answer).trim_end()) }
    }

    /// Prints text for another program, whatever the format of answers.
    pub(crate) fn script(&self, script: &str) -> Result<(), Failure> {
        put(script.as_bytes())
    }

    pub(crate) fn line(&self, line: &str) -> Result<(), Failure> {
        put(format!("{line}\n").as_bytes())
    }

    /// Prints what a person should know before a command's answer, on standard error. A script that asks for JSON gets
    /// only failures there, which repeat it.
    pub(crate) fn note(&self, note: &str) {
        if !self.json {
            // If this cannot be printed, the command still continues.
            let _unread = writeln!(io::stderr(), "{}", text::clean(note));
        }
    }

    /// Prints a failure in the same format.
    pub(crate) fn fail(&self, failure: &Failure) {
        let line =
            if self.json { failure.json().to_string() } else { format!("coupon: {failure}") };
        // If this cannot be printed, the exit code still says it.
        let _unread = writeln!(io::stderr(), "{line}");
    }
}

/// Writes and flushes, so that a watcher sees each line at once.
pub(crate) fn put(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // The reader, e.g. `head`, has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            Err(Failure::new(Kind::Usage, format!("The answer cannot be written: {error}.")))
        }
    }
}
