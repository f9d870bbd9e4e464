//! The figures of a rehearsal, as a table and as JSON, and what to expect of the real sale.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use crate::{Course, Pace, answer::NO_ANSWER, pace::row};

/// Users may come this much slower than asked for before a rehearsal says that it could not keep the rate.
const SLOWER_MAX: f64 = 1.1;

/// Share of the claims that may be told to come again before a rehearsal calls that a queue at the door.
const AGAIN_USUAL: f64 = 0.01;

/// The slowest answer of 99 in 100 that users do not notice, in milliseconds.
const NOTICED_MS: f64 = 1_000.0;

/// Begins the answer to a token that is none.
const UNSIGNED: &str = "401";

/// What MySQL has of a rehearsal's sale after its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sold {
    /// Coupons made available.
    pub total: i64,
    /// Coupons that users have.
    pub landed: i64,
    /// Whether coupons are held: what lapses comes back, so what landed is no proof of what was promised.
    pub holds: bool,
}

/// The figures of a rehearsal.
#[derive(Debug, Serialize)]
pub struct SaleFigures {
    /// Its template's name.
    pub name: String,
    pub users: u64,
    /// Users who should have come in each second.
    pub rate: u32,
    /// Those who did.
    pub came_per_s: f64,
    pub requests: u64,
    /// By status and code.
    pub answers: BTreeMap<String, u64>,
    pub given_up: u64,
    /// Users whose final answer decides no claim, by that answer, e.g. `401 UNAUTHENTICATED`.
    pub refused: BTreeMap<String, u64>,
    pub total: i64,
    pub landed: i64,
    /// Coupons beyond the stock.
    pub oversold: i64,
    /// Promised coupons that MySQL does not have. Null: they are held, so this cannot be said.
    pub lost: Option<i64>,
    pub sold_out_after_ms: Option<u64>,
    #[serde(flatten)]
    pub pace: Pace,
    /// What to expect of the real sale, in sentences.
    pub expect: Vec<String>,
}

impl SaleFigures {
    /// Sums up a rehearsal.
    pub fn of(name: &str, rate: u32, users: u64, course: &Course, sold: Sold) -> Self {
        let Sold { total, landed, holds } = sold;
        let promised = i64::try_from(course.promised).unwrap_or(i64::MAX);
        let after = course.sold_out_after;
        // The first user came at the begin: the others are those who came within the time.
        let came = users.saturating_sub(1) as f64 / course.coming.as_secs_f64().max(f64::EPSILON);
        let mut figures = Self {
            name: name.to_owned(),
            users,
            rate,
            came_per_s: crate::rounded(came.min(f64::from(rate))),
            requests: course.requests,
            answers: course.answers.clone(),
            given_up: course.given_up.values().sum(),
            refused: course.refused.clone(),
            total,
            landed,
            oversold: (landed - total).max(0),
            lost: (!holds).then(|| (promised - landed).max(0)),
            sold_out_after_ms: after.and_then(|after| u64::try_from(after.as_millis()).ok()),
            pace: Pace::of(&course.answered, course.elapsed),
            expect: Vec::new(),
        };
        figures.expect = figures.expectations(course);
        figures
    }

    /// Whether every promise was kept, and every user was served.
    pub fn is_kept(&self) -> bool {
        let is_served = self.given_up == 0 && self.refused.is_empty();
        self.oversold == 0 && self.lost.unwrap_or(0) == 0 && is_served
    }

    /// Says how many users were refused and by which answer, in a sentence; `None`: nobody was.
    pub fn refusal(&self) -> Option<String> {
        let most = most(&self.refused)?;
        let refused: u64 = self.refused.values().sum();
        let also = if self.refused.len() > 1 { "most often " } else { "" };
        Some(format!(
            "{refused} of {} users were refused, {also}with `{most}`, which decides no claim: they were not served.",
            self.users
        ))
    }

    fn expectations(&self, course: &Course) -> Vec<String> {
        let mut said = Vec::new();
        let Pace { p99_ms, .. } = self.pace;
        let lost = self.lost.unwrap_or(0);
        if self.oversold > 0 || lost > 0 {
            let oversold = self.oversold;
            said.push(format!(
                "A promise broke: {oversold} coupons were given beyond the stock, and {lost} that were promised are not there."
            ));
        }
        let refusal = self.refusal();
        let is_refused = refusal.is_some();
        said.extend(refusal);
        if most(&self.refused).is_some_and(|word| word.starts_with(UNSIGNED)) {
            said.push(
                "The api does not accept the users' tokens: look at what signs them.".to_owned(),
            );
        }
        let rate = self.rate;
        if self.came_per_s * SLOWER_MAX < f64::from(rate) && self.users > u64::from(rate) {
            said.push(format!(
                "Users came at {:.0} a second instead of {rate}: too many waited for an answer, or this machine sends no more. \
                 What follows is of that rate.",
                self.came_per_s
            ));
        }
        let again = course.again as f64 / (course.requests.max(1)) as f64;
        if self.given_up > 0 {
            let last = most(&course.given_up).unwrap_or(NO_ANSWER);
            said.push(format!(
                "{} users gave up after half a minute, most often with `{last}`: at this rate the platform does not serve \
                 everybody. Take fewer users a second, the mode `queued` or `spill`, or more apis.",
                self.given_up
            ));
        } else if is_refused {
            // How fast users are refused tells nothing of a sale.
        } else if again > AGAIN_USUAL {
            said.push(format!(
                "{} of {} requests were answered \"not now\" and sent again. Everybody was served, but users wait at the door: \
                 the mode `queued` or `spill` answers them at once.",
                course.again, course.requests
            ));
        } else if p99_ms > NOTICED_MS {
            said.push(format!(
                "Everybody was served, 99 of 100 within {p99_ms:.0} ms, which users notice. Of more users a second expect more."
            ));
        } else {
            said.push(format!(
                "At {:.0} users a second expect 99 of 100 to be answered within {p99_ms:.0} ms. More was not tried.",
                self.came_per_s
            ));
        }
        match self.sold_out_after_ms {
            Some(ms) => said.push(format!(
                "All {} coupons were promised after {:.1} s. In a real sale users come all at once: expect less.",
                self.total,
                ms as f64 / 1_000.0
            )),
            None if is_refused => {}
            None => said.push(format!(
                "It was not sold out: {} of {} coupons were taken. Try more users than coupons.",
                self.landed, self.total
            )),
        }
        said
    }
}

impl fmt::Display for SaleFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let came = self.came_per_s;
        row(f, "users", format_args!("{}, {came:.0} a second", self.users))?;
        row(f, "requests", self.requests)?;
        for (word, count) in &self.answers {
            row(f, &format!("  {word}"), count)?;
        }
        row(f, "gave up", self.given_up)?;
        row(f, "refused", self.refused.values().sum::<u64>())?;
        row(f, "landed", format_args!("{} of {}", self.landed, self.total))?;
        row(f, "oversold", self.oversold)?;
        match self.lost {
            Some(lost) => row(f, "lost", lost)?,
            None => row(f, "lost", "not known: coupons are held")?,
        }
        self.pace.rows(f)?;
        if let Some(ms) = self.sold_out_after_ms {
            row(f, "sold out after", format_args!("{:.1} s", ms as f64 / 1_000.0))?;
        }
        for sentence in &self.expect {
            write!(f, "\n{sentence}")?;
        }
        Ok(())
    }
}

/// Returns the most frequent of some answers; `None`: there is none.
fn most(answers: &BTreeMap<String, u64>) -> Option<&str> {
    answers.iter().max_by_key(|(_, count)| **count).map(|(word, _)| word.as_str())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn course(promised: u64, requests: u64, again: u64) -> Course {
        let mut course = Course { promised, requests, again, ..Course::default() };
        course.coming = Duration::from_secs(10);
        course.elapsed = Duration::from_secs(11);
        course.answered.record(Duration::from_millis(40));
        course
    }

    fn figures(course: &Course, sold: Sold) -> SaleFigures {
        SaleFigures::of("Rehearsal: A sale", 100, 1_000, course, sold)
    }

    #[test]
    fn a_rehearsal_says_what_to_expect_and_whether_a_promise_broke() {
        let sold = Sold { total: 500, landed: 500, holds: false };
        let calm = Course { sold_out_after: Some(Duration::from_secs(5)), ..course(500, 1_000, 0) };
        let well = figures(&calm, sold);
        assert!(well.is_kept(), "{well:?}");
        assert!(well.expect[0].contains("99 of 100 to be answered within 40 ms"), "{well:?}");
        assert!(well.expect[1].contains("after 5.0 s"), "{well:?}");
        let crowded = figures(&course(500, 1_000, 200), sold);
        assert!(crowded.expect[0].contains("sent again"), "{crowded:?}");
        let lost = figures(&course(501, 1_000, 0), sold);
        assert_eq!((lost.lost, lost.is_kept()), (Some(1), false));
        let oversold = figures(&course(500, 1_000, 0), Sold { landed: 501, ..sold });
        assert_eq!((oversold.oversold, oversold.is_kept()), (1, false));
        let held = figures(&course(500, 1_000, 0), Sold { landed: 100, holds: true, ..sold });
        assert_eq!((held.lost, held.is_kept()), (None, true));
        let given_up = BTreeMap::from([("503 OVERLOADED".to_owned(), 3)]);
        let late = figures(&Course { given_up, ..course(500, 1_000, 900) }, sold);
        assert!(late.expect[0].starts_with("3 users gave up"), "{late:?}");
        assert!(late.expect[0].contains("`503 OVERLOADED`") && !late.is_kept(), "{late:?}");
    }

    #[test]
    fn of_users_who_were_refused_nothing_is_expected_but_their_answer_is_said() {
        let sold = Sold { total: 500, landed: 0, holds: false };
        let refused = BTreeMap::from([("401 UNAUTHENTICATED".to_owned(), 1_000)]);
        let none = figures(&Course { refused, ..course(0, 1_000, 0) }, sold);
        assert!(!none.is_kept(), "{none:?}");
        assert!(
            none.expect[0]
                .starts_with("1000 of 1000 users were refused, with `401 UNAUTHENTICATED`"),
            "{none:?}"
        );
        assert!(none.expect[1].contains("tokens"), "{none:?}");
        let said = none.to_string();
        assert!(!said.contains("expect 99 of 100") && !said.contains("was served"), "{said}");
        assert_eq!(none.expect.len(), 2, "nor to try more users: {none:?}");

        let refused = BTreeMap::from([("409 PAUSED".to_owned(), 2), ("403".to_owned(), 1)]);
        let some = figures(&Course { refused, ..course(500, 1_000, 0) }, sold);
        let said = "3 of 1000 users were refused, most often with `409 PAUSED`";
        // The promises of this course are lost, which comes first.
        assert!(some.expect[1].starts_with(said) && !some.is_kept(), "{some:?}");
        assert!(!some.to_string().contains("expect 99 of 100"), "{some:?}");
    }

    #[test]
    fn a_rehearsal_that_could_not_keep_the_rate_says_so_first() {
        let mut slow = course(500, 1_000, 0);
        slow.coming = Duration::from_secs(20);
        let sold = Sold { total: 500, landed: 500, holds: false };
        let slow = figures(&slow, sold);
        assert!(slow.expect[0].starts_with("Users came at 50 a second instead of 100"), "{slow:?}");
    }
}
