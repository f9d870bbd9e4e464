//! `Last-Event-ID`: where a stream of a claim's events broke off. The id contains the last event's position, so any api
//! can continue the stream.

use std::{fmt, str::FromStr};

use axum::http::{HeaderMap, HeaderValue};

use crate::{code::Code, problem::Problem};

/// Header of a client that connects again.
const NAME: &str = "last-event-id";

/// Id of the last event of a stream.
const OUTCOME: &str = "end";

/// Id of an event without a position.
const UNKNOWN: &str = "-";

/// An event that a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastEvent {
    /// The claim waits at this position, if it was known.
    Waiting(Option<u64>),
    /// The claim has its outcome.
    Outcome,
}

/// The text is no id of ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoEvent;

impl LastEvent {
    /// Reads the header. `None`: it is absent, or empty as some clients send it at first.
    ///
    /// # Errors
    /// It is not the id of an event of ours.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, Problem> {
        let mut lines = headers.get_all(NAME).iter();
        let Some(line) = lines.next().filter(|line| !line.is_empty()) else { return Ok(None) };
        let text = Some(line).filter(|_| lines.next().is_none()).map(HeaderValue::to_str);
        let event = text.and_then(Result::ok).and_then(|text| text.parse().ok());
        event.map(Some).ok_or_else(|| {
            let detail =
                "Send the `id` of an event of this claim as `Last-Event-ID`, once, or none.";
            Problem::new(Code::LastEventIdInvalid, detail)
        })
    }

    /// Returns the position in that event.
    pub(crate) fn position(self) -> Option<u64> {
        match self {
            Self::Waiting(position) => position,
            Self::Outcome => None,
        }
    }
}

impl fmt::Display for LastEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting(Some(position)) => position.fmt(f),
            Self::Waiting(None) => f.write_str(UNKNOWN),
            Self::Outcome => f.write_str(OUTCOME),
        }
    }
}

impl FromStr for LastEvent {
    type Err = NoEvent;

    fn from_str(text: &str) -> Result<Self, NoEvent> {
        let event = match text {
            OUTCOME => Self::Outcome,
            UNKNOWN => Self::Waiting(None),
            number => Self::Waiting(Some(number.parse().map_err(|_| NoEvent)?)),
        };
        // Accept only the form that we write.
        if event.to_string() == text { Ok(event) } else { Err(NoEvent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&'static str]) -> Result<Option<LastEvent>, Code> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(NAME, HeaderValue::from_static(line));
        }
        LastEvent::of(&headers).map_err(|problem| problem.code())
    }

    #[test]
    fn each_event_is_read_back_from_its_id_and_nothing_else_is() {
        let waiting = [None, Some(0), Some(812), Some(u64::MAX)].map(LastEvent::Waiting);
        for event in waiting.into_iter().chain([LastEvent::Outcome]) {
            assert_eq!(event.to_string().parse(), Ok(event));
        }
        assert_eq!((read(&[]), read(&[""])), (Ok(None), Ok(None)));
        assert_eq!(read(&["812"]), Ok(Some(LastEvent::Waiting(Some(812)))));
        for wrong in ["-1", "+1", "01", "1.0", "End", "end ", "--", "18446744073709551616", "x"] {
            assert_eq!(read(&[wrong]), Err(Code::LastEventIdInvalid), "{wrong:?}");
        }
        assert_eq!(read(&["1", "1"]), Err(Code::LastEventIdInvalid), "two");
    }
}
