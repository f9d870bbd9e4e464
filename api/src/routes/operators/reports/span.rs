//! The span of a report: what is asked for, or what a template's sale suggests.

use std::ops::Range;

use chrono::{DateTime, TimeDelta, Utc};
use coupon::Window;

use crate::{
    code::Code,
    http::instant::{RequestInstant, TIMES_MS},
    problem::Problem,
    stats::aggregate::Span,
};

/// Longest span. The statistics are kept for 30 days; a year leaves room for a longer retention.
const SPAN_MAX: TimeDelta = TimeDelta::days(366);

/// Most points of an answer: a day by minutes is 1,440.
pub(crate) const POINTS_MAX: i64 = 1_500;

/// Most points if no step is asked for: as many as a screen shows.
pub(crate) const POINTS_DEFAULT: i64 = 300;

/// Largest step that may be asked for, in seconds.
pub(crate) const STEP_MAX: i64 = 86_400;

/// Steps chosen for a span without one, in seconds. Weeks are enough for [`SPAN_MAX`].
const STEPS: [i64; 14] =
    [1, 2, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 21_600, 86_400, 604_800];

/// What is shown before and after the claim window if no span is asked for: users who come early or late.
const AROUND: TimeDelta = TimeDelta::hours(1);

/// Furthest begin of a span before now, if no begin is asked for: as long as the statistics are kept.
const BACK_MAX: TimeDelta = TimeDelta::days(30);

/// What a request asks for.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct SpanQuery {
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) to: Option<DateTime<Utc>>,
    pub(crate) step: Option<i64>,
}

impl SpanQuery {
    /// What a request's parameters say.
    pub(crate) fn asked(
        from: Option<RequestInstant>,
        to: Option<RequestInstant>,
        step: Option<i64>,
    ) -> Self {
        Self { from: from.map(|at| at.0), to: to.map(|at| at.0), step }
    }

    /// Returns the span of a template's statistics, of at most `points` steps if none is asked for.
    pub(crate) fn span(
        self,
        window: &Window,
        now: DateTime<Utc>,
        points: i64,
    ) -> Result<Span, Problem> {
        let by_sale = now.min(window.ends_at + AROUND);
        let to = self.to.unwrap_or(if self.from.is_some() { now } else { by_sale });
        in_range("to", to)?;
        let begin = (window.starts_at - AROUND).max(now - BACK_MAX);
        let from = self.from.unwrap_or(if begin < to { begin } else { to - AROUND });
        in_range("from", from)?;
        if from >= to || to - from > SPAN_MAX {
            let detail = "Use a `from` before `to`, by at most 366 days.";
            return Err(refused(detail));
        }
        let from = from.timestamp();
        let to = second_after(to);
        let step = match self.step {
            Some(step) if (1..=STEP_MAX).contains(&step) => step,
            Some(_) => {
                return Err(refused(format!("Use a `step` of 1 to {STEP_MAX} seconds.")));
            }
            None => step_of(to - from, points),
        };
        if points_of(to - from, step) > POINTS_MAX {
            let least = points_of(to - from, POINTS_MAX);
            let detail = format!(
                "An answer has at most {POINTS_MAX} points: use a `step` of at least {least} seconds."
            );
            return Err(refused(detail));
        }
        Ok(Span::around(from, to, step))
    }
}

/// Returns the span of a sale that took these seconds, in at most `points` usual steps and a part of one.
pub(crate) fn of_sale(busy: &Range<i64>, points: i64) -> Span {
    Span::around(busy.start, busy.end, step_of(busy.end - busy.start, points))
}

fn in_range(name: &str, at: DateTime<Utc>) -> Result<(), Problem> {
    if TIMES_MS.contains(&at.timestamp_millis()) {
        return Ok(());
    }
    Err(refused(format!("Use a `{name}` between the years 1970 and 9999.")))
}

fn refused(detail: impl Into<String>) -> Problem {
    Problem::new(Code::InvalidSpan, detail)
}

/// Returns the first whole second that is not before a time.
fn second_after(at: DateTime<Utc>) -> i64 {
    at.timestamp() + i64::from(at.timestamp_subsec_nanos() > 0)
}

/// Returns how many steps a span of so many seconds needs.
fn points_of(seconds: i64, step: i64) -> i64 {
    (seconds + step - 1) / step
}

/// Returns the smallest of the usual steps with at most so many points.
fn step_of(seconds: i64, points: i64) -> i64 {
    let fits = STEPS.into_iter().find(|step| points_of(seconds, *step) <= points);
    fits.unwrap_or(STEPS[STEPS.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn window() -> Window {
        Window { starts_at: at("2026-11-27T08:00:00Z"), ends_at: at("2026-11-28T08:00:00Z") }
    }

    fn span(asked: SpanQuery, now: &str) -> Option<[i64; 3]> {
        let Span { from, to, step } = asked.span(&window(), at(now), POINTS_DEFAULT).ok()?;
        Some([from, to, step])
    }

    #[test]
    fn without_a_span_the_sale_is_shown_as_far_as_it_is() {
        let opens = window().starts_at.timestamp();
        let asked = SpanQuery::default();
        let during = span(asked, "2026-11-27T08:30:00.5Z").unwrap();
        assert_eq!(during, [opens - 3_600, opens + 1_830, 30], "whole steps around it");
        let later = span(asked, "2026-12-05T00:00:00Z").unwrap();
        assert_eq!(later, [opens - 3_600, opens + 90_000, 600]);
        let before = span(asked, "2026-11-20T08:00:00Z").unwrap();
        assert_eq!((before[1] - before[0], before[2]), (3_600, 30), "an hour, so far empty");
        let long_ago = span(asked, "2030-01-01T00:00:00Z").unwrap();
        assert_eq!(long_ago[1] - long_ago[0], 3_600, "nothing is kept");
    }

    #[test]
    fn a_span_that_is_asked_for_is_taken_and_nonsense_is_refused() {
        let now = "2026-11-27T09:00:00Z";
        let minutes = SpanQuery {
            from: Some(at("2026-11-27T08:00:30Z")),
            to: Some(at("2026-11-27T08:01:30Z")),
            step: Some(60),
        };
        let opens = window().starts_at.timestamp();
        assert_eq!(span(minutes, now), Some([opens, opens + 120, 60]));
        let from = |text: &str| SpanQuery { from: Some(at(text)), ..minutes };
        let to = |text: &str| SpanQuery { to: Some(at(text)), ..minutes };
        let step = |step: i64| SpanQuery { step: Some(step), ..minutes };
        for wrong in [
            from("2026-11-27T08:01:30Z"),
            from("2025-11-20T08:00:00Z"),
            SpanQuery { from: Some(DateTime::<Utc>::MIN_UTC), ..minutes },
            SpanQuery { from: Some(DateTime::<Utc>::MAX_UTC), to: None, step: None },
            from("1969-12-31T23:59:59Z"),
            to("2026-11-27T08:00:00Z"),
            SpanQuery { to: DateTime::from_timestamp_millis(TIMES_MS.end), ..minutes },
            SpanQuery { to: Some(DateTime::<Utc>::MIN_UTC), from: None, step: None },
            step(0),
            step(-1),
            step(86_401),
            step(i64::MAX),
            SpanQuery { step: Some(1), ..to("2026-11-28T08:00:00Z") },
            // Without an end it is now.
            SpanQuery { to: None, ..from("2026-11-27T09:00:00Z") },
        ] {
            assert_eq!(span(wrong, now), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_sale_of_seconds_is_shown_by_seconds_and_one_of_a_day_by_half_hours() {
        let opens = window().starts_at.timestamp();
        let short = of_sale(&(opens..opens + 40), 60);
        assert_eq!((short.from, short.to, short.step), (opens, opens + 40, 1));
        let long = of_sale(&(opens..opens + 86_400), 60);
        assert_eq!(long.step, 1_800);
        assert_eq!(of_sale(&(opens..opens + 1), 60).steps(), 1);
    }

    #[test]
    fn a_step_is_chosen_for_every_span() {
        for seconds in [1, 59, 301, 3_601, 86_400, SPAN_MAX.num_seconds()] {
            for points in [60, POINTS_DEFAULT] {
                let step = step_of(seconds, points);
                assert!(points_of(seconds, step) <= points, "{seconds} s by {step}");
            }
        }
    }
}
