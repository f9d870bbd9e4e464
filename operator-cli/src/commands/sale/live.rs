//! `live`: follows all sales that the key may see, as the api streams them: a line for each sample, or with `--json` the
//! sample. When the first sentence changes, it has a line of its own.
//!
//! `template watch` polls one template, and ends with its sale. This has no end of its own, and no template.

use std::{mem, time::Duration};

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    api::{Api, call::Call},
    arguments::Settings,
    failure::{Failure, Kind},
    output::Output,
    text,
};

/// Shortest and longest pause before the stream is opened again after its end: an api that restarts is back soon, and one
/// that stays away must not be asked all the time. It doubles until a sample comes.
const AGAIN_MIN: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(15);

/// The media type of a stream of events.
const EVENTS: &str = "text/event-stream";

/// Longest event, in bytes: ten times a sample of the most templates.
const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What stands for a figure that is not known.
const UNKNOWN: &str = "?";

/// Follows the sales until the time is over or, without one, until it is stopped. A stream that ends is opened again, as often
/// as it takes.
///
/// # Errors
/// The api refuses, or cannot be reached at the begin, or the answer is no stream of events.
pub(crate) async fn live(
    at_most: Option<Duration>,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let api = Api::new(settings)?;
    let mut samples = Samples::default();
    let following = follow(&api, output, &mut samples);
    match at_most {
        None => following.await,
        Some(at_most) => timeout(at_most, following).await.unwrap_or(Ok(())),
    }
}

async fn follow(api: &Api, output: &Output, samples: &mut Samples) -> Result<(), Failure> {
    let call = Call::get("/v1/live");
    let mut away = Away::default();
    loop {
        let before = samples.seen;
        let take = |piece: &[u8]| {
            samples.take(piece, |sample, news| {
                if away.ends() {
                    output.note("coupon: The stream is back.");
                }
                shown(sample, news, output)
            })
        };
        let streamed = api.stream(&call, EVENTS, take).await;
        if let Err(failure) = streamed {
            // Without a sample so far, the address may be that of nobody.
            if samples.seen == 0 || !is_passing(&failure) {
                return Err(failure);
            }
            if away.begins() {
                let why = failure.sentence;
                output.note(&format!("coupon: {why} The stream is opened again until it is back."));
            }
        }
        samples.break_off();
        sleep(away.pause(samples.seen > before)).await;
    }
}

/// Whether the stream may be there again later: no api is able to answer, or those who follow are too many, of whom one may be
/// this command before the api noticed its end.
fn is_passing(failure: &Failure) -> bool {
    let code = failure.code.as_deref();
    failure.kind == Kind::Unavailable || matches!(code, Some("TOO_MANY_AT_ONCE" | "RATE_LIMITED"))
}

/// Whether it was told that the stream is away, and how long to wait before it is opened again.
struct Away {
    is_told: bool,
    pause: Duration,
}

impl Default for Away {
    fn default() -> Self {
        Self { is_told: false, pause: AGAIN_MIN }
    }
}

impl Away {
    /// The stream is away. Returns whether that is to be told.
    fn begins(&mut self) -> bool {
        !mem::replace(&mut self.is_told, true)
    }

    /// A sample has come. Returns whether that is to be told.
    fn ends(&mut self) -> bool {
        mem::take(&mut self.is_told)
    }

    /// Returns the pause before the next attempt. `has_come`: the last one brought samples.
    fn pause(&mut self, has_come: bool) -> Duration {
        let pause = if has_come { AGAIN_MIN } else { self.pause };
        self.pause = pause.saturating_mul(2).min(AGAIN_MAX);
        pause
    }
}

/// Prints a sample. `news` is the first sentence, if it is another one than before.
fn shown(sample: &Value, news: Option<&str>, output: &Output) -> Result<(), Failure> {
    if output.json {
        return output.line(&sample.to_string());
    }
    if let Some(news) = news {
        output.line(&text::clean(news))?;
    }
    output.line(&line(sample))
}

/// The samples of a stream, as they come.
#[derive(Default)]
struct Samples {
    /// The received part of the next event, whose lines end with LF.
    rest: Vec<u8>,
    /// Whether the last byte was a CR: an LF behind it ends the same line.
    after_cr: bool,
    sentence: String,
    /// How many have come.
    seen: u64,
}

impl Samples {
    /// Takes a piece of a stream, and shows each sample that it completes.
    fn take(
        &mut self,
        piece: &[u8],
        mut show: impl FnMut(&Value, Option<&str>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for &byte in piece {
            match byte {
                b'\n' if self.after_cr => {}
                b'\r' => self.rest.push(b'\n'),
                byte => self.rest.push(byte),
            }
            self.after_cr = byte == b'\r';
        }
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let rest = self.rest.split_off(end + 2);
            let event = mem::replace(&mut self.rest, rest);
            let Some(sample) = sample(&event) else { continue };
            self.seen = self.seen.saturating_add(1);
            let sentence = sample["impact"]["sentence"].as_str().unwrap_or_default();
            let is_news = !sentence.is_empty() && sentence != self.sentence;
            if is_news {
                sentence.clone_into(&mut self.sentence);
            }
            show(&sample, is_news.then_some(sentence))?;
        }
        if self.rest.len() > EVENT_BYTES_MAX {
            return Err(Failure::usage("The answer is no stream of events."));
        }
        Ok(())
    }

    /// The stream has ended: what came of the next event is none.
    fn break_off(&mut self) {
        self.rest.clear();
        self.after_cr = false;
    }
}

/// Returns the sample of an event; `None`: it is a comment.
fn sample(event: &[u8]) -> Option<Value> {
    let event = String::from_utf8_lossy(event);
    let data = event.lines().filter_map(|line| line.strip_prefix("data:"));
    let data: Vec<&str> = data.collect();
    serde_json::from_str(&data.join("\n")).ok()
}

/// Formats a sample: time, state, and the sums of all sales.
fn line(sample: &Value) -> String {
    let time = sample["now"].as_str().and_then(|now| now.get(11..19)).unwrap_or(UNKNOWN);
    let state = sample["impact"]["state"].as_str().unwrap_or("unknown");
    let head = format!("{}Z  {:<8}", text::clean(time), text::clean(state));
    let Some(templates) = sample["templates"].as_array() else {
        return format!("{head}  sales not known");
    };
    let sum = |pointer: &str| {
        let each = templates.iter().map(|template| template.pointer(pointer)?.as_i64());
        let all: Option<Vec<i64>> = each.collect();
        all.map(|all| all.iter().fold(0, |sum: i64, one| sum.saturating_add(*one)))
    };
    let known = |pointer: &str| sum(pointer).map_or(UNKNOWN.to_owned(), |sum| sum.to_string());
    let count = templates.len();
    let sales = if count == 1 { "sale " } else { "sales" };
    // Without signs, so that what one sale lacks does not hide what another has too much.
    let drifts = templates.iter().filter_map(|template| template["drift"].as_i64());
    let drift = drifts.fold(0_u64, |sum, one| sum.saturating_add(one.unsigned_abs()));
    let drift = if drift == 0 { String::new() } else { format!("  DRIFT {drift}") };
    let more = sample["left_out"].as_u64().filter(|more| *more > 0);
    let more = more.map_or_else(String::new, |more| format!("  {more} more are not shown"));
    format!(
        "{head}  {count} {sales}  {} left of {}  {} in flight  {} held  {} confirmed  {}/s{drift}{more}",
        known("/left"),
        known("/total"),
        known("/in_flight"),
        known("/held"),
        known("/confirmed"),
        known("/last_second/claims"),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sale(left: Value, drift: Value) -> Value {
        json!({ "total": 1000, "left": left, "in_flight": 5, "held": 40, "confirmed": 660, "drift": drift,
            "last_second": { "claims": 120 } })
    }

    fn of(templates: Value) -> Value {
        json!({ "now": "2026-11-27T08:00:01.000Z", "impact": { "state": "well", "sentence": "All is well." },
            "templates": templates, "left_out": 0 })
    }

    #[test]
    fn a_line_has_the_sums_and_what_is_not_known_is_no_zero() {
        let one = line(&of(json!([sale(json!(295), Value::Null)])));
        let wanted = "08:00:01Z  well      1 sale   295 left of 1000  5 in flight  40 held  660 confirmed  120/s";
        assert_eq!(one, wanted);
        let two = line(&of(json!([sale(json!(295), json!(-2)), sale(Value::Null, json!(0))])));
        assert!(two.contains("2 sales  ? left of 2000  10 in flight"), "{two}");
        assert!(two.ends_with("240/s  DRIFT 2"), "{two}");
        assert_eq!(line(&of(Value::Null)), "08:00:01Z  well      sales not known");
        let cut = json!({ "now": "x", "templates": [], "left_out": 3 });
        assert!(line(&cut).starts_with("?Z  unknown   0 sales  0 left of 0"), "{}", line(&cut));
        assert!(line(&cut).ends_with("3 more are not shown"));
    }

    #[test]
    fn opposite_drifts_do_not_hide_each_other_and_no_sum_is_too_large() {
        let drifting = |drift: i64| sale(json!(i64::MAX), json!(drift));
        let two = line(&of(json!([drifting(-3), drifting(3)])));
        assert!(two.ends_with("  DRIFT 6"), "{two}");
        let most = line(&of(json!([drifting(i64::MAX), drifting(i64::MIN), drifting(i64::MAX)])));
        assert!(most.ends_with(&format!("  DRIFT {}", u64::MAX)), "{most}");
        assert!(most.contains(&format!("  {} left of 3000", i64::MAX)), "{most}");
    }

    #[test]
    fn a_stream_that_is_away_is_told_once_and_asked_for_less_and_less_often() {
        let mut away = Away::default();
        assert!(!away.ends(), "it never was");
        assert!(away.begins() && !away.begins(), "told once");
        let pauses = [true, false, false, false, false, false].map(|come| away.pause(come));
        assert_eq!(pauses.map(|pause| pause.as_secs()), [1, 2, 4, 8, 15, 15]);
        assert!(away.ends() && !away.ends(), "told once");
        assert_eq!(away.pause(true), AGAIN_MIN);
        assert!(away.begins());
    }

    #[test]
    fn a_stream_is_opened_again_unless_the_api_refuses_for_good() {
        let refused = |code: &str| Failure {
            code: Some(code.to_owned()),
            ..Failure::new(Kind::Refused, "No.")
        };
        assert!(is_passing(&Failure::new(Kind::Unavailable, "Nobody answers.")));
        assert!(is_passing(&refused("TOO_MANY_AT_ONCE")) && is_passing(&refused("RATE_LIMITED")));
        assert!(!is_passing(&refused("UNAUTHENTICATED")));
        assert!(!is_passing(&Failure::usage("The answer is no stream of events.")));
    }

    #[test]
    fn lines_end_with_lf_with_cr_or_with_both_and_data_may_have_several() {
        let lf = format!(
            ":\n\nretry: 1\ndata: {{\ndata: \"left_out\": 7}}\n\ndata: {}\n\n",
            of(json!([]))
        );
        for end in ["\n", "\r\n", "\r"] {
            let stream = lf.replace('\n', end);
            for size in [1, 2, 3, stream.len()] {
                let mut samples = Samples::default();
                let mut told = Vec::new();
                for piece in stream.as_bytes().chunks(size) {
                    let taken = samples.take(piece, |sample, _| {
                        told.push(sample["left_out"].clone());
                        Ok(())
                    });
                    assert!(taken.is_ok());
                }
                assert_eq!(told, [json!(7), json!(0)], "{end:?}, pieces of {size}");
                assert_eq!((samples.seen, samples.rest.len()), (2, 0), "{end:?}");
            }
        }
        let mut broken = Samples::default();
        broken.take(b"data: 1\r", |_, _| Ok(())).unwrap();
        broken.break_off();
        broken.take(b"\ndata: 2\n\n", |_, _| Ok(())).unwrap();
        assert_eq!(broken.seen, 1, "what broke off is no part of the next stream");
    }

    #[test]
    fn samples_are_taken_however_the_stream_is_cut_and_a_sentence_is_told_once() {
        let event = format!("retry: 1000\ndata: {}\n\n", of(json!([])));
        let stream = format!("{event}:\n\n{event}");
        for size in [1, 7, stream.len()] {
            let mut samples = Samples::default();
            let mut told = Vec::new();
            for piece in stream.as_bytes().chunks(size) {
                let taken = samples.take(piece, |sample, news| {
                    told.push((sample["left_out"].clone(), news.map(str::to_owned)));
                    Ok(())
                });
                assert!(taken.is_ok());
            }
            let first = (json!(0), Some("All is well.".to_owned()));
            assert_eq!(told, [first, (json!(0), None)], "pieces of {size}");
        }
        let endless = Samples::default().take(&vec![b'x'; EVENT_BYTES_MAX + 1], |_, _| Ok(()));
        assert!(endless.is_err());
    }
}
