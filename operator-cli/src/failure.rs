//! Why a command failed, and the exit code for that.

use std::fmt;

use clap::error::ErrorKind;
use serde_json::{Map, Value, json};

use crate::text;

/// Advice if the command line ends too early.
const ASK_FOR_HELP: &str =
    "`coupon --help` lists the commands, and `--help` behind one what it takes.";

/// A command that failed, or whose outcome is unknown.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    /// What happened, in a sentence.
    pub(crate) sentence: String,
    /// The problem's stable code (docs/errors.md), if the api answered with one.
    pub(crate) code: Option<String>,
    /// What to do now, in a sentence.
    pub(crate) advice: Option<String>,
    /// The field of the sent file that is wrong, if the api named one.
    pub(crate) field: Option<Box<str>>,
    /// Other members of the api's problem, which its sentence or the advice may refer to.
    pub(crate) members: Box<Map<String, Value>>,
}

/// The kind of a failure, for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The platform refused. Nothing was changed.
    Refused,
    /// It could not be sent.
    Usage,
    /// Nothing answered, or is able to now. Nothing was changed.
    Unavailable,
    /// It is done, but what follows from it waits, e.g. for a server.
    Made,
    /// It was sent, and its outcome is unknown: no answer came, or the end of what it began was not seen.
    Unknown,
    /// The answer came, and says that the platform is not well, or that a sale is not ready.
    NotWell,
}

impl Kind {
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Refused => 1,
            Self::Usage => 2,
            Self::Unavailable | Self::Made | Self::Unknown => 3,
            Self::NotWell => 4,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Usage => "usage",
            Self::Unavailable => "unavailable",
            Self::Made => "made",
            Self::Unknown => "unknown",
            Self::NotWell => "not_well",
        }
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, sentence: impl Into<String>) -> Self {
        let sentence = sentence.into();
        let members = Box::default();
        Self { kind, sentence, code: None, advice: None, field: None, members }
    }

    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self::new(Kind::Usage, sentence)
    }

    /// Converts clap's error about a command line: its first paragraph says what is wrong, the others what to do.
    pub(crate) fn not_understood(error: &clap::Error) -> Self {
        // Which of the two kinds it is depends on the environment, and the text of one is a whole page of help.
        if let ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand =
            error.kind()
        {
            return Self::usage("A command is missing.").advise(ASK_FOR_HELP);
        }
        let text = error.render().to_string();
        let (wrong, advice) = text.split_once("\n\n").unwrap_or((text.as_str(), ASK_FOR_HELP));
        let wrong = wrong.strip_prefix("error: ").unwrap_or(wrong);
        Self::usage(one_line(wrong)).advise(one_line(advice))
    }

    pub(crate) fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }

    /// Names the line of the sent file with the field that the api refused.
    pub(crate) fn in_file(self, place: impl FnOnce(&str) -> Option<String>) -> Self {
        match self.field.as_deref().and_then(place) {
            Some(place) => Self { sentence: format!("{place}: {}", self.sentence), ..self },
            None => self,
        }
    }

    /// Returns the failure as `--json` shows it.
    pub(crate) fn json(&self) -> Value {
        let Self { kind, sentence, code, advice, field: _, members } = self;
        let mut json = json!({
            "error": sentence, "code": code, "outcome": kind.word(), "advice": advice,
        });
        if !members.is_empty() {
            json["members"] = json!(members);
        }
        json
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A refused file has a sentence of several lines. Control characters in others' text must not reach the
        // terminal.
        let lines: Vec<String> = self.sentence.lines().map(text::clean).collect();
        f.write_str(&lines.join("\n"))?;
        if let Some(code) = &self.code {
            write!(f, " ({})", text::clean(code))?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n{advice}")?;
        }
        for (name, value) in &*self.members {
            write!(f, "\n  {}: {}", text::clean(name), text::clean(&shown(value)))?;
        }
        Ok(())
    }
}

/// Returns the members of a problem that only its code has, such as the `order_ref` of a used coupon.
pub(crate) fn members(problem: &Value) -> Map<String, Value> {
    let of_all =
        ["type", "title", "status", "detail", "code", "retryable", "request_id", "field", "made"];
    let members = problem.as_object().into_iter().flatten();
    let own = members.filter(|(name, _)| !of_all.contains(&name.as_str()));
    own.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Returns a member of a problem as a line shows it.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Returns an error with all its causes, in one line.
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

/// Joins a paragraph into one line.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    fn not_understood(line: &str) -> Value {
        let error = Arguments::try_parse_from(line.split(' ')).err().unwrap();
        Failure::not_understood(&error).json()
    }

    #[test]
    fn a_command_line_that_cannot_be_read_says_what_is_wrong_and_what_to_do() {
        for (line, wrong, to_do) in [
            (
                "coupon template show x --json",
                "'x' for '<ID>': an id is a decimal number",
                "--help",
            ),
            ("coupon template show 1 --jason", "unexpected argument '--jason'", "'--json'"),
            ("coupon template show --json", "required arguments were not provided: <ID>", "Usage:"),
            ("coupon --json", "A command is missing.", "`coupon --help`"),
            ("coupon template", "A command is missing.", "`coupon --help`"),
        ] {
            let failure = not_understood(line);
            let [error, advice] = ["error", "advice"].map(|name| failure[name].as_str().unwrap());
            assert!(error.contains(wrong) && advice.contains(to_do), "{line}: {failure}");
            assert!(!error.starts_with("error:") && !error.contains('\n'), "{line}: {failure}");
            assert_eq!((&failure["outcome"], &failure["code"]), (&json!("usage"), &Value::Null));
        }
    }
}
