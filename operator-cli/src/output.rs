//! What is printed: an answer on standard output, as JSON or as text, and a failure on standard error.

use std::{
    io::{self, Write as _},
    process,
};

use serde_json::Value;

use crate::failure::{Failure, Kind};

/// How to answer.
pub(crate) struct Output {
    /// As JSON.
    pub(crate) json: bool,
}

impl Output {
    /// An answer: as it came, or as `text` puts it.
    pub(crate) fn answer(
        &self,
        answer: &Value,
        text: impl FnOnce(&Value) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.line(&answer.to_string()) } else { self.line(text(answer).trim_end()) }
    }

    /// Text for another program, whatever the format of answers.
    pub(crate) fn script(&self, script: &str) -> Result<(), Failure> {
        put(script.as_bytes())
    }

    /// One line.
    pub(crate) fn line(&self, line: &str) -> Result<(), Failure> {
        put(format!("{line}\n").as_bytes())
    }

    /// A failure, in the same format.
    pub(crate) fn fail(&self, failure: &Failure) {
        let line =
            if self.json { failure.json().to_string() } else { format!("coupon: {failure}") };
        // Where nobody reads it, the exit code still tells.
        let _unread = writeln!(io::stderr(), "{line}");
    }
}

/// Writes at once: whoever watches sees each line when it is there.
pub(crate) fn put(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(()),
        // `coupon … | head` has read enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => process::exit(0),
        Err(error) => {
            Err(Failure::new(Kind::Usage, format!("The answer cannot be written: {error}.")))
        }
    }
}
