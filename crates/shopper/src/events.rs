//! [`Events`]: server-sent events, of an accepted claim or of the live figures.

use std::time::Duration;

use reqwest::{Method, RequestBuilder, Response};
use serde::de::DeserializeOwned;

use crate::{Accepted, Fate, Shopper, ShopperError};

/// Longest life of a stream: longer than any test or bench waits for a claim.
const STREAM_MAX: Duration = Duration::from_mins(10);

/// An open stream of events.
#[derive(Debug)]
pub struct Events {
    response: Response,
    /// The received part of the next event.
    rest: String,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// What a client sends as `Last-Event-ID` when it connects again.
    pub id: Option<String>,
    pub name: Option<String>,
    pub data: String,
}

impl Event {
    /// What it says about the claim, if anything.
    pub fn fate(&self) -> Option<Fate> {
        Fate::read(&self.data)
    }

    /// Reads an event's lines; `None` if they are only comments.
    fn read(text: &str) -> Option<Self> {
        let mut event = Self::default();
        let mut is_some = false;
        for (field, value) in text.lines().filter_map(|line| line.split_once(':')) {
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => event.id = Some(value.to_owned()),
                "event" => event.name = Some(value.to_owned()),
                "data" => event.data.push_str(value),
                _ => continue,
            }
            is_some = true;
        }
        is_some.then_some(event)
    }
}

impl Shopper {
    /// Follows an accepted claim; `after` is the id of the last event of an earlier stream.
    pub async fn events(
        &self,
        accepted: &Accepted,
        after: Option<&str>,
    ) -> Result<Events, ShopperError> {
        let path = accepted.events();
        let request = self.request(Method::GET, &path);
        let request = after.into_iter().fold(request, |ask, id| ask.header("last-event-id", id));
        Events::open(&path, request).await
    }
}

impl Events {
    /// Opens a stream. `request` asks for `path`, which names it in errors.
    ///
    /// # Errors
    /// The stream is refused, or nobody answers.
    pub async fn open(path: &str, request: RequestBuilder) -> Result<Self, ShopperError> {
        let response = request.timeout(STREAM_MAX).send().await;
        let response = response.map_err(|error| no_event(path, error))?;
        let status = response.status().as_u16();
        if status != 200 {
            let body = response.text().await.unwrap_or_default();
            return Err(ShopperError::Refused { request: format!("GET {path}"), status, body });
        }
        Ok(Self { response, rest: String::new() })
    }

    /// Waits for the next event, and reads its data; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection broke, or the data does not have this form.
    pub async fn next_json<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ShopperError> {
        let Some(event) = self.next().await? else { return Ok(None) };
        let read = serde_json::from_str(&event.data);
        read.map(Some).map_err(|source| ShopperError::Unreadable { body: event.data, source })
    }

    /// Waits for the next event; `None` at the end of the stream.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> Result<Option<Event>, ShopperError> {
        loop {
            while let Some((text, rest)) = self.rest.split_once("\n\n") {
                let event = Event::read(text);
                self.rest = rest.to_owned();
                if event.is_some() {
                    return Ok(event);
                }
            }
            let path = self.response.url().path().to_owned();
            let chunk = self.response.chunk().await.map_err(|error| no_event(&path, error))?;
            let Some(chunk) = chunk else { return Ok(None) };
            self.rest.push_str(&String::from_utf8_lossy(&chunk));
        }
    }
}

fn no_event(path: &str, source: reqwest::Error) -> ShopperError {
    ShopperError::NoAnswer { request: format!("GET {path}"), source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_read_and_a_comment_is_none() {
        let event = Event::read("id: 5\nevent: position\ndata: {\"a\":1}").unwrap();
        assert_eq!((event.id.as_deref(), event.name.as_deref()), (Some("5"), Some("position")));
        assert_eq!(event.data, r#"{"a":1}"#);
        assert_eq!(Event::read(": keep-alive"), None);
        assert_eq!(Event::read(":"), None);
    }
}
