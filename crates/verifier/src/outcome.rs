//! The outcome of a check: one line for people, one value for programs.

use std::fmt;

/// Violations quoted in a line; the rest are counted.
const QUOTED: usize = 3;

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
        /// Some violations, a sentence each.
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

/// Violations that are kept. The rest are counted, so that a platform where nothing agrees does not exhaust the memory.
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
                let quoted = examples.iter().take(QUOTED).cloned().collect::<Vec<_>>().join("; ");
                write!(f, "{invariant:<3} BROKEN   {statement}: {quoted}")?;
                match examples.len().saturating_sub(QUOTED) + more {
                    0 => Ok(()),
                    more => write!(f, "; and {more} more"),
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
    fn a_line_names_the_invariant_and_quotes_a_few_offenders() {
        let mut findings = Findings::of("I2", "sums agree");
        assert_eq!(
            Findings::of("I2", "sums agree").over(count(1, "template")).to_string(),
            "I2  holds    sums agree (1 template)"
        );
        for name in ["a", "b", "c", "d"] {
            findings.add(name.to_owned());
        }
        let outcome = findings.over(String::new());
        assert_eq!(outcome.to_string(), "I2  BROKEN   sums agree: a; b; c; and 1 more");
        assert!(!Report { outcomes: vec![outcome] }.holds());
    }

    #[test]
    fn counts_are_grouped_and_agree_with_their_noun() {
        let expected = ["0 claims", "1 claim", "999 claims", "1,000 claims", "1,234,567 claims"];
        assert_eq!([0, 1, 999, 1_000, 1_234_567].map(|number| count(number, "claim")), expected);
    }
}
