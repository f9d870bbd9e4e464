//! `live`: follows all sales that the key may see, as the api streams them: a line for each sample, or with `--json` the
//! sample. When the first sentence changes, it has a line of its own.
//!
//! `template watch` polls one template, and ends with its sale. This has no end of its own, and no template.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{sleep, timeout};

use crate::{
    api::{Api, call::Call},
    arguments::Settings,
    failure::{Failure, Kind},
    output::Output,
    text,
};

/// Pause before the stream is opened again after its end: an api that restarts is back soon.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Longest event, in bytes: ten times a sample of the most templates.
const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// What stands for a figure that is not known.
const UNKNOWN: &str = "?";

/// Follows the sales until the time is over or, without one, until it is stopped. A stream that ends is opened again.
///
/// # Errors
/// The api refuses, or cannot be reached.
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
    loop {
        let before = samples.seen;
        let take = |piece: &[u8]| samples.take(piece, |sample, news| shown(sample, news, output));
        let streamed = api.stream(&call, "text/event-stream", take).await;
        match streamed {
            Ok(()) => {}
            // It had begun, so an api is there: another one, or this one again.
            Err(failure) if failure.kind == Kind::Unavailable && samples.seen > before => {
                output.note(&format!("coupon: {} The stream is opened again.", failure.sentence));
            }
            Err(failure) => return Err(failure),
        }
        samples.rest.clear();
        sleep(AGAIN_AFTER).await;
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
    /// The received part of the next event.
    rest: Vec<u8>,
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
        self.rest.extend_from_slice(piece);
        while let Some(end) = self.rest.windows(2).position(|two| two == b"\n\n") {
            let rest = self.rest.split_off(end + 2);
            let event = std::mem::replace(&mut self.rest, rest);
            let Some(sample) = sample(&event) else { continue };
            self.seen += 1;
            let sentence = sample["impact"]["sentence"].as_str().unwrap_or_default();
            let is_news = !sentence.is_empty() && sentence != self.sentence;
            if is_news {
                sentence.clone_into(&mut self.sentence);
            }
            show(&sample, is_news.then_some(sentence))?;
        }
        if self.rest.len() > EVENT_BYTES_MAX {
            return Err(Failure::new(Kind::Unavailable, "The answer is no stream of events."));
        }
        Ok(())
    }
}

/// Returns the sample of an event; `None`: it is a comment.
fn sample(event: &[u8]) -> Option<Value> {
    let event = String::from_utf8_lossy(event);
    let data = event.lines().find_map(|line| line.strip_prefix("data:"))?;
    serde_json::from_str(data.trim_start()).ok()
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
    let drift: i64 = templates.iter().filter_map(|template| template["drift"].as_i64()).sum();
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
        assert!(two.ends_with("240/s  DRIFT -2"), "{two}");
        assert_eq!(line(&of(Value::Null)), "08:00:01Z  well      sales not known");
        let cut = json!({ "now": "x", "templates": [], "left_out": 3 });
        assert!(line(&cut).starts_with("?Z  unknown   0 sales  0 left of 0"), "{}", line(&cut));
        assert!(line(&cut).ends_with("3 more are not shown"));
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
