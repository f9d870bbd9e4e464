//! Why a command did not do what it was asked to, and the exit code that says so.

use std::fmt;

use serde_json::{Value, json};

/// A command that was not done, or not known to be.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// What happened, in a sentence.
    pub(crate) sentence: String,
    /// The problem's stable code (docs/errors.md), if the api answered with one.
    pub(crate) code: Option<String>,
    /// What to do now, in a sentence.
    pub(crate) advice: Option<String>,
}

/// What a script has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The platform said no: nothing was changed.
    Refused,
    /// It could not even be sent.
    Usage,
    /// Nobody answered, or is able to now; nothing was changed.
    Unavailable,
    /// It was sent, and nobody said what became of it.
    Unknown,
}

impl Kind {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Unavailable | Self::Unknown => 3,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Usage => "usage",
            Self::Unavailable => "unavailable",
            Self::Unknown => "unknown",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Self {
        Self { kind, sentence: sentence.into(), code: None, advice: None }
    }

    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Usage, sentence)
    }

    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// As `--json` has it.
    pub(crate) fn json(&self) -> Value {
        let Self { kind, sentence, code, advice } = self;
        json!({ "error": sentence, "code": code, "outcome": kind.word(), "advice": advice })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        if let Some(code) = &self.code {
            write!(f, " ({code})")?;
        }
        match &self.advice {
            Some(advice) => write!(f, "\n{advice}"),
            None => Ok(()),
        }
    }
}

/// An error with everything that caused it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
