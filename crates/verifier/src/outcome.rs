//! The outcome of a check: lines for people, one value for programs.

use std::fmt;

use crate::{VerifyError, finding::Finding};

/// What begins the line of a further violation: it stands under the first.
const INDENT: &str = "             ";

/// The result of checking one invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its number in docs/verify.md, e.g. `I2`.
    pub invariant: &'static str,
    /// The invariant in words.
    pub statement: &'static str,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The invariant holds.
    Holds {
        /// The amount checked, e.g. `3 templates, 1,000 coupons`.
        over: String,
    },
    /// The invariant is violated.
    Violated {
        /// The violations, a sentence each.
        examples: Vec<String>,
        /// The number of further violations.
        more: usize,
    },
    /// The invariant was not checked.
    Skipped {
        /// The reason, and what to do about it.
        why: String,
    },
}

/// All outcomes of one verification.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// In the order of the invariants.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Whether no invariant is violated; skipped ones do not count as violated.
    pub fn holds(&self) -> bool {
        self.violated().next().is_none()
    }

    /// The violated invariants.
    pub fn violated(&self) -> impl Iterator<Item = &Outcome> {
        self.outcomes.iter().filter(|outcome| matches!(outcome.verdict, Verdict::Violated { .. }))
    }
}

/// Violations that are kept and printed. The rest are counted, so that a platform where nothing agrees does not exhaust
/// the memory.
const KEPT: usize = 1_000;

/// Collects the violations of one invariant.
pub(crate) struct Findings {
    invariant: &'static str,
    statement: &'static str,
    examples: Vec<String>,
    more: usize,
}

impl Findings {
    pub(crate) fn of(invariant: &'static str, statement: &'static str) -> Self {
        Self { invariant, statement, examples: Vec::new(), more: 0 }
    }

    /// Adds a violation, described by a sentence.
    pub(crate) fn add(&mut self, offender: String) {
        if self.examples.len() < KEPT {
            self.examples.push(offender);
        } else {
            self.more += 1;
        }
    }

    /// Adds the sentences of findings.
    pub(crate) fn report(&mut self, found: impl IntoIterator<Item = Finding>) {
        found.into_iter().for_each(|finding| self.add(finding.line));
    }

    /// Adds a violation unless `right`.
    pub(crate) fn expect(&mut self, right: bool, offender: impl FnOnce() -> String) {
        if !right {
            self.add(offender());
        }
    }

    /// The first violation, if any.
    pub(crate) fn first(&self) -> Option<String> {
        self.examples.first().cloned()
    }

    /// What was read. If something stored kept it from being read, that is a violation, and nothing was: the rest of
    /// the check goes on.
    pub(crate) fn read<T: Default>(
        &mut self,
        read: Result<T, impl Into<VerifyError>>,
    ) -> Result<T, VerifyError> {
        match read.map_err(Into::into) {
            Ok(read) => Ok(read),
            Err(error) if error.is_of_data() => {
                self.add(runtime::report(&error));
                Ok(T::default())
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome of a check that returned what it looked at. If something stored ended it early, what it found until
    /// then counts.
    pub(crate) fn end(
        mut self,
        looked: Result<String, VerifyError>,
    ) -> Result<Outcome, VerifyError> {
        match looked {
            Ok(over) => Ok(self.over(over)),
            Err(error) if error.is_of_data() => {
                self.add(format!("the check ended early: {}", runtime::report(&error)));
                Ok(self.over(String::new()))
            }
            Err(error) => Err(error),
        }
    }

    /// The outcome after checking `over`.
    pub(crate) fn over(self, over: String) -> Outcome {
        let verdict = if self.examples.is_empty() {
            Verdict::Holds { over }
        } else {
            Verdict::Violated { examples: self.examples, more: self.more }
        };
        Outcome { invariant: self.invariant, statement: self.statement, verdict }
    }

    /// The outcome if the rest cannot be checked: violated if anything was found, skipped otherwise.
    pub(crate) fn skipped_unless_broken(self, why: &str) -> Outcome {
        if self.examples.is_empty() { self.skipped(why) } else { self.over(String::new()) }
    }

    /// The outcome without any check.
    pub(crate) fn skipped(self, why: &str) -> Outcome {
        let verdict = Verdict::Skipped { why: why.to_owned() };
        Outcome { invariant: self.invariant, statement: self.statement, verdict }
    }
}

/// Formats a count with its noun: `1 claim`, `12,345 claims`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    format!("{grouped} {noun}{}", if number == 1 { "" } else { "s" })
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { invariant, statement, verdict } = self;
        match verdict {
            Verdict::Holds { over } => write!(f, "{invariant:<3} holds    {statement} ({over})"),
            Verdict::Skipped { why } => write!(f, "{invariant:<3} skipped  {statement}: {why}"),
            Verdict::Violated { examples, more } => {
                let found = examples.join(&format!("\n{INDENT}"));
                write!(f, "{invariant:<3} BROKEN   {statement}: {found}")?;
                match more {
                    0 => Ok(()),
                    more => write!(f, "\n{INDENT}and {more} more"),
                }
            }
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.outcomes.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_names_the_invariant_and_each_offender_has_a_line() {
        let mut findings = Findings::of("I2", "sums agree");
        assert_eq!(
            Findings::of("I2", "sums agree").over(count(1, "template")).to_string(),
            "I2  holds    sums agree (1 template)"
        );
        for name in 0..=KEPT {
            findings.add(format!("offender {name}"));
        }
        let outcome = findings.over(String::new());
        let told = outcome.to_string();
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "I2  BROKEN   sums agree: offender 0");
        assert_eq!(lines[1], "             offender 1");
        assert_eq!(lines[KEPT..], ["             and 1 more"]);
        assert!(!Report { outcomes: vec![outcome] }.holds());
    }

    #[test]
    fn counts_are_grouped_and_agree_with_their_noun() {
        let expected = ["0 claims", "1 claim", "999 claims", "1,000 claims", "1,234,567 claims"];
        assert_eq!([0, 1, 999, 1_000, 1_234_567].map(|number| count(number, "claim")), expected);
    }
}
