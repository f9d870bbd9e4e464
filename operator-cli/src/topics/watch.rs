//! `template watch`: follows a sale. On a terminal it overwrites one line with a bar; otherwise it prints a line for
//! each poll, or with `--json` an object. `tests/tests/operators/watch_terminal.rs` tests the terminal.

use std::{
    cell::Cell,
    collections::VecDeque,
    io::{self, IsTerminal as _},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    api::{Api, call::Call},
    failure::{Failure, Kind},
    output::{self, Output},
    text,
};

/// Time span of the rate: shorter and it jumps, longer and it lags.
const RATE_OVER: Duration = Duration::from_secs(5);

/// Width of the bar in characters: with it the line of a sale of thousands fits into 80 columns.
const BAR: usize = 16;

/// Goes to the start of the line, clears it, and turns line wrap off. Of a wrapped line only the last row would be
/// cleared, and the others would fill the screen.
const OVERWRITE: &str = "\r\x1b[2K\x1b[?7l";

/// Turns line wrap on again, for whatever is printed between two polls.
const DRAWN: &str = "\x1b[?7h";

/// Parameters of a watch.
pub(crate) struct Watch {
    pub(crate) template: i64,
    /// Time limit for watching.
    pub(crate) at_most: Option<Duration>,
    /// Interval between polls.
    pub(crate) every: Duration,
}

/// A template at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The state that the shop page shows, or `draft`.
    state: String,
    total: i64,
    landed: i64,
    /// Coupons that can still be claimed: from the gate if it is loaded, otherwise from MySQL.
    left: i64,
    /// Admissions that have not landed. `None`: the gate is not loaded.
    in_flight: Option<i64>,
    /// Age of the oldest of them in milliseconds: how far MySQL is behind the gate. `None` as `in_flight` is.
    lag_ms: Option<i64>,
    /// Difference between MySQL and the gate while nothing is in flight.
    drift: Option<i64>,
}

/// Watches until the template is sold out or over, or the time limit is reached; on a terminal also until Ctrl-C.
///
/// # Errors
/// The api does not answer, or there is no such template.
pub(crate) async fn watch(api: &Api, watch: &Watch, output: &Output) -> Result<(), Failure> {
    let live = !output.json && io::stdout().is_terminal();
    let drawn = Cell::new(false);
    let ended = tokio::select! {
        ended = looks(api, watch, output, live.then_some(&drawn)) => ended,
        // Without a terminal the signal ends the program, as scripts expect.
        Ok(()) = tokio::signal::ctrl_c(), if live => Ok("stopped"),
    };
    if drawn.get() {
        // What follows, the end or an error, has a line of its own.
        output.line("")?;
    }
    let end = ended?;
    if output.json { Ok(()) } else { output.line(sentence(end)) }
}

/// Polls and shows the result until there is an end, and returns it. `drawn`, on a terminal, is set once the line that
/// is overwritten exists.
async fn looks(
    api: &Api,
    watch: &Watch,
    output: &Output,
    drawn: Option<&Cell<bool>>,
) -> Result<&'static str, Failure> {
    let began = Instant::now();
    let mut rate = Rate::default();
    loop {
        let look = Look::at(api, watch.template).await?;
        let elapsed = began.elapsed();
        let per_second = rate.add(elapsed, look.landed);
        let left = watch.at_most.map(|at_most| at_most.saturating_sub(elapsed));
        let end = look.end().or_else(|| left.filter(Duration::is_zero).map(|_| "time"));
        if let Some(drawn) = drawn {
            drawn.set(true);
            output::put(format!("{OVERWRITE}{}{DRAWN}", look.bar_line(per_second)).as_bytes())?;
        } else if output.json {
            output.line(&look.json(elapsed, per_second, end).to_string())?;
        } else {
            output.line(&look.plain_line(elapsed, per_second))?;
        }
        if let Some(end) = end {
            return Ok(end);
        }
        tokio::time::sleep(left.map_or(watch.every, |left| left.min(watch.every))).await;
    }
}

fn sentence(end: &str) -> &'static str {
    match end {
        "sold_out" => "Sold out.",
        "closed" => "The time for claims is over.",
        "ended" => "The template has ended.",
        "stopped" => "Watched until you stopped it.",
        _ => "Watched for as long as asked.",
    }
}

impl Look {
    async fn at(api: &Api, template: i64) -> Result<Self, Failure> {
        let stock = api.send(&Call::get(format!("/v1/templates/{template}/stock"))).await?;
        let state = match api.send(&Call::get(format!("/v1/shop/templates/{template}"))).await {
            Ok(page) => word(&page, "state"),
            // The shop page knows no drafts. The request for the stock has checked whose template it is.
            Err(failure) if failure.kind == Kind::Refused => "draft".to_owned(),
            Err(failure) => return Err(failure),
        };
        Ok(Self::of(&stock, state))
    }

    /// Returns a look with this account and state.
    pub(crate) fn of(stock: &Value, state: String) -> Self {
        let number = |name: &str| stock.get(name).and_then(Value::as_i64);
        let some = |name: &str| number(name).unwrap_or(0);
        let in_flight = number("in_flight");
        Self {
            state,
            total: some("total"),
            landed: some("landed"),
            left: number("gate_stock").unwrap_or_else(|| some("stock")),
            in_flight,
            lag_ms: in_flight.map(|_| some("in_flight_oldest_ms")),
            drift: number("drift"),
        }
    }

    /// Returns why the watch ends. A sale is sold out once everything has landed.
    pub(crate) fn end(&self) -> Option<&'static str> {
        match self.state.as_str() {
            "ended" => Some("ended"),
            "closed" => Some("closed"),
            _ if self.left <= 0 && self.in_flight.unwrap_or(0) == 0 => Some("sold_out"),
            _ => None,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.state.as_str(), "ended" | "closed")
    }

    pub(crate) fn json(&self, elapsed: Duration, per_second: f64, end: Option<&str>) -> Value {
        let Self { state, total, landed, left, in_flight, lag_ms, drift } = self;
        json!({
            "elapsed_s": rounded(elapsed.as_secs_f64()), "state": state, "total": total,
            "landed": landed, "left": left, "in_flight": in_flight, "lag_ms": lag_ms, "drift": drift,
            "rate_per_s": rounded(per_second), "end": end,
        })
    }

    pub(crate) fn plain_line(&self, elapsed: Duration, per_second: f64) -> String {
        format!("{:>5.0}s  {}", elapsed.as_secs_f64(), self.figures(per_second))
    }

    pub(crate) fn bar_line(&self, per_second: f64) -> String {
        let full = BAR * self.percent().min(100) / 100;
        format!("[{}{}] {}", "#".repeat(full), "-".repeat(BAR - full), self.figures(per_second))
    }

    fn figures(&self, per_second: f64) -> String {
        let Self { state, total, landed, left, .. } = self;
        let percent = self.percent();
        // After the end nothing more can be claimed.
        let rest = if self.is_over() { "unclaimed" } else { "left" };
        let lag = self.lag_ms.map_or("-".to_owned(), |ms| format!("{:.1} s", ms as f64 / 1_000.0));
        let figures = format!(
            "{percent:>3}%  {landed}/{total} landed  {per_second:.0}/s  {left} {rest}  lag {lag}  {state}"
        );
        match self.drift {
            None | Some(0) => figures,
            Some(drift) => format!("{figures}  DRIFT {drift}"),
        }
    }

    /// Returns the percentage of the total that has landed.
    fn percent(&self) -> usize {
        let percent = self.landed.saturating_mul(100).checked_div(self.total);
        usize::try_from(percent.unwrap_or(0)).unwrap_or(0)
    }
}

/// Landed coupons per second.
#[derive(Default)]
struct Rate {
    seen: VecDeque<(Duration, i64)>,
}

impl Rate {
    /// Adds a look. Returns the rate over the last [`RATE_OVER`].
    fn add(&mut self, at: Duration, landed: i64) -> f64 {
        self.seen.push_back((at, landed));
        // Keep one look just beyond the span, so that the whole span counts.
        while self.seen.get(1).is_some_and(|(second, _)| at.saturating_sub(*second) >= RATE_OVER) {
            self.seen.pop_front();
        }
        let Some((since, before)) = self.seen.front() else { return 0.0 };
        let seconds = at.saturating_sub(*since).as_secs_f64();
        let more = i32::try_from(landed.saturating_sub(*before)).unwrap_or(i32::MAX);
        if seconds > 0.0 { f64::from(more) / seconds } else { 0.0 }
    }
}

fn rounded(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

fn word(value: &Value, name: &str) -> String {
    text::clean(value.get(name).and_then(Value::as_str).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(state: &str, left: i64, in_flight: Option<i64>) -> Look {
        let state = state.to_owned();
        let lag_ms = in_flight.map(|count| 70 * count);
        Look { state, total: 1_000, landed: 873, left, in_flight, lag_ms, drift: None }
    }

    #[test]
    fn it_ends_when_everything_has_landed_or_the_window_is_over() {
        assert_eq!(look("open", 1, Some(0)).end(), None);
        assert_eq!(look("sold_out", 0, Some(2)).end(), None, "two are on their way");
        assert_eq!(look("sold_out", 0, Some(0)).end(), Some("sold_out"));
        assert_eq!(look("closed", 7, None).end(), Some("closed"));
        assert_eq!(look("ended", 7, None).end(), Some("ended"));
        assert_eq!(look("draft", 7, None).end(), None);
    }

    #[test]
    fn the_lines_say_landed_rate_left_and_lag() {
        let look = look("open", 124, Some(3));
        let figures = "87%  873/1000 landed  132/s  124 left  lag 0.2 s  open";
        assert_eq!(look.plain_line(Duration::from_secs(12), 131.6), format!("   12s   {figures}"));
        let line = look.bar_line(131.6);
        assert_eq!(line, format!("[#############---]  {figures}"));
        assert!(line.chars().count() <= 80, "{line}");
        let drifting = Look { drift: Some(-2), lag_ms: None, total: 0, ..look };
        assert_eq!(
            drifting.figures(0.0),
            "  0%  873/0 landed  0/s  124 left  lag -  open  DRIFT -2"
        );
        let ended = super::Look { state: "ended".to_owned(), drift: None, ..drifting };
        assert_eq!(ended.figures(0.0), "  0%  873/0 landed  0/s  124 unclaimed  lag -  ended");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let mut rate = Rate::default();
        let mut last = 0.0;
        for second in 0..20 {
            let landed = if second < 10 { 100 * second } else { 1_000 };
            last = rate.add(Duration::from_secs(second), landed.try_into().unwrap());
            if second == 9 {
                assert!((last - 100.0).abs() < 1e-9, "{last}");
            }
        }
        assert!(last.abs() < 1e-9, "nothing landed any more: {last}");
    }
}
