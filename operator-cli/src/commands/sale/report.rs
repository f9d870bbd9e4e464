//! `template report` and `template timeseries`: a sale in figures, as text with a sparkline.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{api::call::Call, arguments::Span, commands::money, text};

/// Bars of a sparkline, from nothing to the most.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Width of the names before the figures: of the longest, and two spaces.
const NAMES: usize = 16;

/// Columns of a time series.
const POINTS: [&str; 10] = [
    "at",
    "requests",
    "landed",
    "replayed",
    "accepted",
    "refused",
    "unknown",
    "peak_per_second",
    "p50_ms",
    "p99_ms",
];

/// Figures by code: refusals, and answers that decided nothing.
const BY_CODE: [&str; 2] = ["refused", "unknown"];

/// Returns the call for a span of the statistics.
pub(crate) fn of_span(path: String, span: Span) -> Call {
    let given = [("from", span.from), ("to", span.to)];
    let given = given.into_iter().filter_map(|(name, at)| at.map(|at| (name, at)));
    given.fold(Call::get(path), |call, (name, at)| call.with_query(name, at))
}

/// Formats a report.
pub(crate) fn report(answer: &Value) -> String {
    let word = |pointer: &str| text::cell(answer.pointer(pointer));
    let mut lines = format!(
        "{} ({})  {} to {}\n",
        word("/name"),
        word("/state"),
        word("/claim_starts_at"),
        word("/claim_ends_at")
    );
    let mut line = |name: &str, figure: String| {
        // Writing to a string never fails.
        let _written = writeln!(lines, "{name:<NAMES$}{figure}");
    };
    line("statistics", known(answer));
    if let Some(answers) = answer.get("answers").filter(|answers| answers.is_object()) {
        let of = |name: &str| text::cell(answers.get(name));
        let course = answers.pointer("/course/requests").map(numbers).unwrap_or_default();
        line("", sparkline(&course));
        let step = text::cell(answers.pointer("/course/step_seconds"));
        let begin = text::cell(answers.pointer("/course/from"));
        line("", format!("from {begin}, a bar is {step} s"));
        line("requests", of("requests"));
        line("peak", format!("{}/s at {}", of("peak_per_second"), of("peak_at")));
        line("p50, p99", format!("{} ms, {} ms", of("p50_ms"), of("p99_ms")));
        line("answered 201", format!("{}, again {}", of("landed"), of("replayed")));
        if answers.get("accepted").and_then(Value::as_u64).is_some_and(|count| count > 0) {
            line("answered 202", of("accepted"));
        }
        for name in BY_CODE {
            for (code, count) in answers.get(name).and_then(Value::as_object).into_iter().flatten()
            {
                line(name, format!("{} {}", text::cell(Some(count)), text::clean(code)));
            }
        }
        line("sold out", sold_out(answers));
    }
    let total = word("/stock/total");
    let landed = word("/stock/landed");
    line("landed", format!("{landed} of {total}, {} left", word("/stock/left")));
    let counted = answer.pointer("/coupons/all_counted") == Some(&Value::Bool(true));
    let of =
        if counted { String::new() } else { format!(" of the first {}", word("/coupons/counted")) };
    for name in ["used", "expired"] {
        let percent = word(&format!("/coupons/{name}_percent"));
        line(name, format!("{}, {percent} %{of}", word(&format!("/coupons/{name}"))));
    }
    for name in ["held", "lapsed", "cancelled"] {
        let count = answer.pointer(&format!("/coupons/{name}")).filter(|count| **count != json!(0));
        if let Some(count) = count {
            line(name, format!("{}{of}", text::cell(Some(count))));
        }
    }
    let redemption = money::told(&answer["redemption"], None);
    for name in ["redeemed", "discount", "revenue"] {
        line(name, text::cell(redemption.get(name)));
    }
    lines
}

/// Formats a time series: a sparkline of all steps, and a table of those with requests.
pub(crate) fn timeseries(answer: &Value) -> String {
    let points = answer.get("points").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let requests = |point: &Value| point.get("requests").and_then(Value::as_u64).unwrap_or(0);
    let all: Vec<u64> = points.iter().map(requests).collect();
    let rows: Vec<Value> = points.iter().filter(|point| requests(point) > 0).map(row).collect();
    let step = text::cell(answer.get("step_seconds"));
    let line = sparkline(&all);
    let known = known(answer);
    format!("{line}\nsteps of {step} s, statistics {known}\n\n{}", text::table(&rows, &POINTS))
}

/// Returns a point with the sums of what it has by code.
fn row(point: &Value) -> Value {
    let fields = POINTS.iter().map(|name| {
        let is_sum = BY_CODE.contains(name);
        let value = if is_sum { json!(sum(point.get(*name))) } else { point[*name].clone() };
        ((*name).to_owned(), value)
    });
    Value::Object(fields.collect())
}

/// Returns the sum of figures by code.
fn sum(by_code: Option<&Value>) -> u64 {
    let counts = by_code.and_then(Value::as_object).into_iter().flatten();
    counts.filter_map(|(_, count)| count.as_u64()).fold(0, u64::saturating_add)
}

/// Says which part of the statistics was read.
fn known(answer: &Value) -> String {
    let at = |name: &str| text::cell(answer.get(name));
    if answer.get("complete") == Some(&Value::Bool(true)) {
        return format!("{} to {}", at("from"), at("to"));
    }
    match answer.get("known_from") {
        None | Some(Value::Null) => "cannot be read at the moment".to_owned(),
        Some(_) => format!("incomplete: only {} to {}", at("known_from"), at("known_to")),
    }
}

fn sold_out(answers: &Value) -> String {
    match answers.get("sold_out_after_ms").and_then(Value::as_u64) {
        Some(ms) => {
            let at = text::cell(answers.get("sold_out_at"));
            format!("after {} s, at {at}", ms / 1_000)
        }
        None => "no".to_owned(),
    }
}

fn numbers(values: &Value) -> Vec<u64> {
    let values = values.as_array().into_iter().flatten();
    values.map(|value| value.as_u64().unwrap_or(0)).collect()
}

/// Draws numbers as bars: the lowest for 0 only, the highest for the largest.
fn sparkline(numbers: &[u64]) -> String {
    let most = u128::from(numbers.iter().copied().max().unwrap_or(0)).max(1);
    let steps = BARS.len() as u128 - 1;
    let bar = |number: &u64| {
        let level = (u128::from(*number) * steps).div_ceil(most);
        BARS[usize::try_from(level).unwrap_or(0).min(BARS.len() - 1)]
    };
    numbers.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_shows_nothing_something_and_the_most() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[7]), "█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[u64::MAX, u64::MAX / 2, 1]), "█▅▂");
    }

    #[test]
    fn bars_are_as_many_as_numbers_and_rise_with_them() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let most = 1 << random.u32(0..63);
            let mut numbers: Vec<u64> =
                (0..random.usize(1..80)).map(|_| random.u64(0..=most)).collect();
            numbers.sort_unstable();
            let bars: Vec<char> = sparkline(&numbers).chars().collect();
            assert_eq!(bars.len(), numbers.len());
            assert!(bars.is_sorted(), "{numbers:?}: {bars:?}");
            for (bar, number) in bars.iter().zip(&numbers) {
                assert_eq!(*bar == BARS[0], *number == 0, "{number} of {numbers:?}");
            }
        }
    }

    fn answer() -> Value {
        json!({
            "name": "A sale\u{1b}", "state": "ended", "from": "F", "to": "T", "complete": true,
            "claim_starts_at": "S", "claim_ends_at": "E", "known_from": "F", "known_to": "K",
            "answers": {
                "requests": 5950, "landed": 1000, "replayed": 129, "refused": {"SOLD_OUT": 4761},
                "unknown": {"CLAIM_PENDING": 3}, "p50_ms": 50, "p99_ms": null, "peak_per_second": 4498, "peak_at": "P",
                "sold_out_at": "P", "sold_out_after_ms": 1207,
                "course": {"from": "F", "step_seconds": 60, "requests": [0, 5950]},
            },
            "stock": {"total": 1000, "landed": 1000, "left": 0},
            "coupons": {"counted": 1000, "all_counted": true, "used": 100, "expired": 900, "held": 0,
                "lapsed": 0, "cancelled": 0, "used_percent": 10.0, "expired_percent": 90.0},
            "redemption": {"redeemed": 100, "discount": 50000, "revenue": 450_000, "currency": "EUR"},
        })
    }

    #[test]
    fn a_report_is_lines_of_names_and_figures() {
        let wanted = "\
A sale\u{fffd} (ended)  S to E
statistics      F to T
                ▁█
                from F, a bar is 60 s
requests        5950
peak            4498/s at P
p50, p99        50 ms, - ms
answered 201    1000, again 129
refused         4761 SOLD_OUT
unknown         3 CLAIM_PENDING
sold out        after 1 s, at P
landed          1000 of 1000, 0 left
used            100, 10.0 %
expired         900, 90.0 %
redeemed        100
discount        €500.00
revenue         €4500.00
";
        assert_eq!(report(&answer()), wanted);
        let mut partial = answer();
        partial["complete"] = json!(false);
        partial["coupons"]["all_counted"] = json!(false);
        partial["answers"]["accepted"] = json!(800);
        let said = report(&partial);
        assert!(said.contains("again 129\nanswered 202    800\nrefused "), "{said}");
        assert!(said.contains("incomplete: only F to K\n"), "{said}");
        assert!(said.contains("10.0 % of the first 1000\n"), "{said}");
        let mut held = answer();
        for (name, count) in [("held", 3), ("lapsed", 20), ("cancelled", 1)] {
            held["coupons"][name] = json!(count);
        }
        let said = report(&held);
        let wanted = "90.0 %\nheld            3\nlapsed          20\ncancelled       1\nredeemed ";
        assert!(said.contains(wanted), "{said}");
        partial["answers"] = Value::Null;
        partial["known_from"] = Value::Null;
        let said = report(&partial);
        assert!(said.contains("cannot be read at the moment\nlanded "), "{said}");
    }

    #[test]
    fn a_time_series_shows_all_steps_as_bars_and_those_with_requests_as_rows() {
        let point = |requests: u64| {
            json!({"at": "A", "requests": requests, "landed": 1, "replayed": 0, "accepted": 2,
                "refused": {"SOLD_OUT": 2, "PAUSED": 1}, "unknown": {"OVERLOADED": 7}, "peak_per_second": 3, "p50_ms": 5, "p99_ms": 9})
        };
        let answer = json!({"from": "F", "to": "T", "complete": true, "step_seconds": 60,
            "points": [point(0), point(4)]});
        let said = timeseries(&answer);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[..3], ["▁█", "steps of 60 s, statistics F to T", ""]);
        assert_eq!(
            lines[4].split_whitespace().collect::<Vec<_>>(),
            ["A", "4", "1", "0", "2", "3", "7", "3", "5", "9"]
        );
        assert_eq!(lines.len(), 5, "{said}");
        assert_eq!(timeseries(&Value::Null).lines().count(), 4, "an answer that is none");
    }
}
