//! The api over HTTP: sends a call, repeats it where that is safe, and returns the answer or why there is none.

pub(crate) mod call;
pub(crate) mod way_out;

use std::{fs, path::Path, time::Duration};

use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, header, redirect};
use serde_json::Value;
use tokio::time::sleep;

use crate::{
    api::call::{Call, new_name},
    arguments::Settings,
    failure::{self, Failure, Kind, chain},
};

/// Maximum attempts for a call that may be repeated: an api that restarts is back within the waits.
const ATTEMPTS_MAX: u32 = 5;

/// Wait before the second attempt. It doubles with each attempt.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Longest wait, whatever `Retry-After` says: a person waits at the terminal.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Time limit for a streamed answer. The api ends one after an hour.
const STREAM_MAX: Duration = Duration::from_hours(2);

/// Time limit for connecting.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// Maximum characters shown of an answer that is not JSON, such as a proxy's page.
const FOREIGN_CHARS: usize = 200;

/// Advice if nothing listens at the address.
const UNREACHABLE: &str = "Is API_URL right, and does the api run?";

pub(crate) struct Api {
    client: Client,
    base_url: Url,
    operator_key: String,
    /// Trace id of this command, 32 hexadecimal digits. The audit record has it beside what was done.
    trace: String,
}

/// An attempt without a successful answer.
#[derive(Debug)]
pub(crate) struct Miss {
    pub(crate) failure: Failure,
    again: Again,
}

/// Whether the same call may be sent again.
#[derive(Debug, PartialEq, Eq)]
enum Again {
    /// It would fail in the same way.
    Never,
    /// After a wait, which the api may have named.
    Later(Option<Duration>),
    /// Nothing was sent.
    Always,
}

impl Api {
    /// Returns the api that the settings name.
    ///
    /// # Errors
    /// Address or key is missing or invalid.
    pub(crate) fn new(settings: &Settings) -> Result<Self, Failure> {
        let missing = |what: &str| {
            let flag = what.to_lowercase().replace('_', "-");
            Failure::usage(format!("{what} is not set.")).advise(format!(
                "Set it in the environment, or give `--{flag}`. After `./dev up`: \
                 `set -a; . .dev/env; set +a`."
            ))
        };
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let url = given(&settings.api_url).ok_or_else(|| missing("API_URL"))?;
        let operator_key = match &settings.operator_key_file {
            Some(file) if given(&settings.operator_key).is_none() => key_in(file)?,
            _ => given(&settings.operator_key).ok_or_else(|| missing("OPERATOR_KEY"))?,
        };
        let no_url = |why: &str| Failure::usage(format!("API_URL is no http URL: {why}."));
        let base_url = match Url::parse(&url) {
            Ok(parsed) if matches!(parsed.scheme(), "http" | "https") => parsed,
            // `localhost:8080` is a URL of the scheme `localhost`, and `127.0.0.1:8080` is none.
            _ if !url.contains("://") => {
                let failure = no_url(&format!("{url:?} does not begin with http:// or https://"));
                return Err(failure.advise(format!("Write `--api-url http://{url}`.")));
            }
            Ok(_) => return Err(no_url("it begins otherwise")),
            Err(error) => return Err(no_url(&error.to_string())),
        };
        let client = Client::builder()
            .connect_timeout(CONNECT_MAX)
            .timeout(Duration::from_secs(settings.timeout_seconds))
            // The key must not be sent to any other address.
            .redirect(redirect::Policy::none())
            .user_agent(concat!("coupon/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| Failure::usage(chain(&error)))?;
        // A trace id of zero is invalid.
        let trace = format!("{:032x}", fastrand::u128(1..));
        Ok(Self { client, base_url, operator_key, trace })
    }

    /// The address that calls go to, e.g. `https://coupons.example/`.
    pub(crate) fn base_url(&self) -> &str {
        self.base_url.as_str()
    }

    /// Sends a call, and repeats it if that is safe and the api was unable to answer. Returns the body of the answer,
    /// or null if it has none.
    ///
    /// # Errors
    /// The api refuses, nothing answers, or the outcome is unknown.
    pub(crate) async fn send(&self, call: &Call) -> Result<Value, Failure> {
        // All attempts have the same key: however many of them arrive, the effect is one.
        let name = call.request_id.clone().unwrap_or_else(new_name);
        let mut wait = FIRST_WAIT;
        let mut attempt = 1;
        let mut may_have_arrived = false;
        loop {
            let Miss { mut failure, again } = match self.attempt(call, &name).await {
                Ok(answer) => return Ok(answer),
                Err(miss) => miss,
            };
            let asked = match again {
                Again::Always => Some(None),
                Again::Later(after) => Some(after),
                Again::Never => None,
            };
            may_have_arrived |= failure.kind == Kind::Unknown;
            if let (Some(after), true) = (asked, attempt < ATTEMPTS_MAX) {
                // Jitter spreads out scripts that were refused together.
                let jitter = wait.mul_f64(fastrand::f64());
                sleep(after.unwrap_or_default().max(wait + jitter).min(WAIT_MAX)).await;
                wait *= 2;
                attempt += 1;
                continue;
            }
            if may_have_arrived && failure.kind == Kind::Unavailable {
                failure.kind = Kind::Unknown;
            }
            return Err(advised(failure, call));
        }
    }

    /// Sends a call once, for a caller who wants to know at once that nobody answers.
    ///
    /// # Errors
    /// See [`Api::send`].
    pub(crate) async fn send_once(&self, call: &Call) -> Result<Value, Failure> {
        self.attempt(call, &new_name()).await.map_err(|miss| advised(miss.failure, call))
    }

    /// Sends a call whose answer is a stream, and passes on each piece as it comes. It is sent once: pieces that were
    /// passed on cannot be taken back.
    ///
    /// # Errors
    /// The api refuses, nothing answers, the answer is of another type or breaks off, or `take` fails.
    pub(crate) async fn stream(
        &self,
        call: &Call,
        accept: &'static str,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let request = self.request(call).header(header::ACCEPT, accept).timeout(STREAM_MAX);
        let failed =
            |error: &reqwest::Error| way_out::with_advice(self.unanswered(call, error).failure);
        let mut response = request.send().await.map_err(|error| failed(&error))?;
        let status = response.status();
        let retry_after = retry_after(&response);
        if !status.is_success() {
            let body = response.text().await.map_err(|error| failed(&error))?;
            return match judged(call, status, retry_after, &body) {
                Ok(_) => Ok(()),
                Err(miss) => Err(way_out::with_advice(miss.failure)),
            };
        }
        let kind = response.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok());
        if !is_of_type(kind, accept) {
            return Err(foreign(&self.base_url, kind, accept));
        }
        while let Some(piece) = response.chunk().await.map_err(|error| broken_off(&error))? {
            take(&piece)?;
        }
        Ok(())
    }

    /// Makes a request without a body and without a name.
    fn request(&self, call: &Call) -> RequestBuilder {
        let mut url = self.base_url.clone();
        url.set_path(&format!("{}{}", self.base_url.path().trim_end_matches('/'), call.path));
        if !call.query.is_empty() {
            url.query_pairs_mut().extend_pairs(&call.query);
        }
        let request = self.client.request(call.method.clone(), url);
        let request = request.header("x-api-key", &self.operator_key);
        request.header("traceparent", self.trace_parent(call))
    }

    async fn attempt(&self, call: &Call, name: &str) -> Result<Value, Miss> {
        let mut request = self.request(call);
        if call.method == Method::POST {
            request = request.header("idempotency-key", name);
        }
        if let Some(tags) = &call.if_match {
            request = request.header(header::IF_MATCH, tags);
        }
        if let Some(body) = &call.body {
            request = request.json(body);
        }
        let answered = async {
            let response = request.send().await?;
            let status = response.status();
            let retry_after = retry_after(&response);
            Ok((status, retry_after, response.text().await?))
        };
        match answered.await {
            Ok((status, retry_after, body)) => judged(call, status, retry_after, &body),
            Err(error) => Err(self.unanswered(call, &error)),
        }
    }

    /// Changes are rare enough to be traced each time; reads are not.
    fn trace_parent(&self, call: &Call) -> String {
        let sampled = if call.reads() { "00" } else { "01" };
        format!("00-{}-{:016x}-{sampled}", self.trace, fastrand::u64(1..))
    }

    fn unanswered(&self, call: &Call, error: &reqwest::Error) -> Miss {
        if error.is_builder() {
            let sentence = format!("The request cannot be made: {}.", chain(error));
            return Miss { failure: Failure::usage(sentence), again: Again::Never };
        }
        let url = &self.base_url;
        if error.is_connect() {
            let sentence = format!("Nobody answers at {url}: {}.", innermost(error));
            let failure = Failure::new(Kind::Unavailable, sentence).advise(UNREACHABLE);
            return Miss { failure, again: Again::Always };
        }
        let sentence = if error.is_timeout() {
            format!("No answer from {url} in time.")
        } else {
            format!("No answer from {url}: {}.", innermost(error))
        };
        let kind = if call.reads() { Kind::Unavailable } else { Kind::Unknown };
        Miss { failure: Failure::new(kind, sentence), again: Again::Later(None) }
    }
}

/// Returns the body of a successful answer, or what the api says is wrong.
pub(crate) fn judged(
    call: &Call,
    status: StatusCode,
    retry_after: Option<Duration>,
    body: &str,
) -> Result<Value, Miss> {
    let json: Option<Value> = if body.is_empty() && status.is_success() {
        Some(Value::Null)
    } else {
        serde_json::from_str(body).ok()
    };
    if let (Some(json), true) = (&json, status.is_success()) {
        return Ok(json.clone());
    }
    let problem = json.unwrap_or_default();
    let word = |name: &str| problem.get(name).and_then(Value::as_str).map(str::to_owned);
    let is_made = problem.get("made").and_then(Value::as_bool) == Some(true);
    // The outcome of a change is unknown after a 5xx, unless it says that the change is made.
    let kind = match (status.is_client_error(), call.reads()) {
        (true, _) => Kind::Refused,
        (false, true) => Kind::Unavailable,
        (false, false) if is_made => Kind::Made,
        (false, false) => Kind::Unknown,
    };
    let foreign = || {
        let start: String = body.chars().take(FOREIGN_CHARS).collect();
        format!("The answer is not the api's: HTTP {status}, {start:?}")
    };
    let sentence = word("detail").unwrap_or_else(foreign);
    let field = word("field").or_else(|| unknown_field(&sentence)).map(String::into_boxed_str);
    let members = Box::new(failure::members(&problem));
    let failure = Failure { code: word("code"), field, members, ..Failure::new(kind, sentence) };
    let retryable = problem.get("retryable").and_then(Value::as_bool);
    // What is made needs no second call.
    let again = if retryable.unwrap_or(status.is_server_error()) && kind != Kind::Made {
        Again::Later(retry_after)
    } else {
        Again::Never
    };
    Err(Miss { failure, again })
}

/// Returns the unknown field of a body that the api's sentence names.
fn unknown_field(sentence: &str) -> Option<String> {
    let (_, rest) = sentence.split_once("unknown field `")?;
    Some(rest.split('`').next()?.to_owned())
}

/// Adds advice: how to find out the outcome of a call if it is unknown, or the way out of a refusal.
fn advised(failure: Failure, call: &Call) -> Failure {
    if failure.kind == Kind::Made {
        return failure.advise(way_out::MADE);
    }
    if failure.kind != Kind::Unknown {
        return way_out::with_advice(failure);
    }
    let what = match (call.once, &call.request_id) {
        (Some(find_out), _) => find_out.to_owned(),
        (None, Some(id)) => {
            format!("Send it again with `--request-id {id}`: however often, it counts once.")
        }
        (None, None) => "The same command again does no harm, and finds out.".to_owned(),
    };
    failure.advise(format!("Whether it had an effect is unknown. {what}"))
}

/// Returns the key in a file, without the line break.
fn key_in(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file).map_err(|error| {
        let file = file.display();
        Failure::usage(format!("OPERATOR_KEY_FILE: {file} cannot be read: {error}."))
    })?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns whether a `Content-Type` names this media type, whatever its parameters.
fn is_of_type(content_type: Option<&str>, wanted: &str) -> bool {
    let kind = content_type.and_then(|header| header.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case(wanted))
}

/// What answers is no api: it would have been asked in vain again.
fn foreign(url: &Url, kind: Option<&str>, wanted: &str) -> Failure {
    let kind = kind.unwrap_or("of no type");
    Failure::usage(format!("The answer of {url} is {kind}, and not {wanted}."))
        .advise("Is API_URL the address of an api, or that of a page?")
}

/// The answer broke off: what has come is not all.
fn broken_off(error: &reqwest::Error) -> Failure {
    let sentence = format!("The answer broke off: {}.", innermost(error));
    Failure::new(Kind::Unavailable, sentence).advise("What has come is not all. Ask again.")
}

/// Returns the innermost cause, which says what happened. Those around it say where in the client.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::Arguments;

    fn missed(call: &Call, status: u16, body: &str) -> (Kind, Option<String>, Again) {
        let after = Some(Duration::from_secs(2));
        let Miss { failure, again } =
            judged(call, StatusCode::from_u16(status).unwrap(), after, body).unwrap_err();
        (failure.kind, failure.code, again)
    }

    #[test]
    fn a_refusal_changed_nothing_and_what_a_server_error_did_is_unknown() {
        let look = Call::get("/");
        let change = Call::post("/");
        let problem = |code: &str, retryable: bool| {
            format!(r#"{{"code":"{code}","detail":"Why.","retryable":{retryable}}}"#)
        };
        let code = |code: &str| Some(code.to_owned());
        let later = || Again::Later(Some(Duration::from_secs(2)));
        let never = problem("NO", false);
        let passing = problem("BUSY", true);
        for call in [&look, &change] {
            assert_eq!(missed(call, 409, &never), (Kind::Refused, code("NO"), Again::Never));
            assert_eq!(missed(call, 429, &passing), (Kind::Refused, code("BUSY"), later()));
        }
        assert_eq!(missed(&look, 503, &passing), (Kind::Unavailable, code("BUSY"), later()));
        assert_eq!(missed(&change, 503, &passing), (Kind::Unknown, code("BUSY"), later()));
        let made = r#"{"code":"BUSY","detail":"Why.","retryable":true,"made":true}"#;
        assert_eq!(missed(&change, 503, made), (Kind::Made, code("BUSY"), Again::Never));
        assert_eq!(missed(&change, 409, made).0, Kind::Refused);
        // A proxy's page, and a page instead of an answer.
        assert_eq!(missed(&look, 502, "<html>"), (Kind::Unavailable, None, later()));
        assert_eq!(missed(&change, 200, "<html>"), (Kind::Unknown, None, Again::Never));
    }

    #[test]
    fn a_refusal_names_the_field_and_an_address_without_a_scheme_says_how_to_write_it() {
        let field = |body: &str| {
            let refused = judged(&Call::post("/"), StatusCode::UNPROCESSABLE_ENTITY, None, body);
            refused.unwrap_err().failure.field.map(String::from)
        };
        let named = Some("claim_ends_at".to_owned());
        assert_eq!(field(r#"{"detail":"Later.","field":"claim_ends_at"}"#), named);
        let unknown = r#"{"detail":"The body: unknown field `naem`, expected `name` at line 1."}"#;
        assert_eq!(field(unknown).as_deref(), Some("naem"));
        assert_eq!(field(r#"{"detail":"No."}"#), None);
        for url in ["localhost:8080", "127.0.0.1:8080", "shop.example"] {
            let line = ["coupon", "whoami", "--operator-key", "k", "--api-url", url];
            let settings = Arguments::try_parse_from(line).unwrap().settings;
            let failure = Api::new(&settings).err().unwrap();
            let advice = failure.advice.unwrap();
            assert!(advice.contains(&format!("http://{url}")), "{advice}");
        }
    }

    #[test]
    fn a_stream_of_another_type_is_refused_by_a_sentence() {
        let events = "text/event-stream";
        for kind in [events, "text/event-stream; charset=utf-8", "Text/Event-Stream ;x=1"] {
            assert!(is_of_type(Some(kind), events), "{kind}");
        }
        for kind in [None, Some(""), Some("text/html; charset=utf-8"), Some("text/event-streams")] {
            assert!(!is_of_type(kind, events), "{kind:?}");
        }
        assert!(is_of_type(Some("text/csv; charset=utf-8; header=present"), "text/csv"));
        let url = Url::parse("http://shop.example/").unwrap();
        let failure = foreign(&url, Some("text/html"), events);
        let said = "The answer of http://shop.example/ is text/html, and not text/event-stream.";
        assert_eq!((failure.kind, failure.sentence.as_str()), (Kind::Usage, said));
    }

    #[test]
    fn an_answer_without_a_body_is_null() {
        let answer = judged(&Call::delete("/"), StatusCode::NO_CONTENT, None, "");
        assert_eq!(answer.unwrap(), Value::Null);
    }

    #[test]
    fn an_unknown_outcome_comes_with_advice_on_finding_it_out() {
        let advice =
            |call: &Call| advised(Failure::new(Kind::Unknown, "No answer."), call).advice.unwrap();
        assert!(advice(&Call::post("/").once("Look there.")).ends_with("Look there."));
        assert!(advice(&Call::post("/").named("k-1".to_owned())).contains("--request-id k-1"));
        assert!(advice(&Call::post("/")).contains("again does no harm"));
        assert!(advised(Failure::new(Kind::Refused, "No."), &Call::post("/")).advice.is_none());
        let made = advised(Failure::new(Kind::Made, "It is made."), &Call::post("/")).advice;
        assert!(made.is_some_and(|advice| !advice.contains("unknown")));
    }
}
