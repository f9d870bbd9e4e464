//! Extractors of JSON bodies, path ids and query strings, with problems that say what is wrong.

use std::{error::Error, io, iter, str::FromStr};

use axum::{
    body::Bytes,
    extract::{
        DefaultBodyLimit, FromRequest, FromRequestParts, Path, Query, Request,
        rejection::BytesRejection,
    },
    http::{StatusCode, header, request::Parts},
};
use serde::de::DeserializeOwned;

use crate::{code::Code, problem::Problem};

/// Largest body, in bytes. A template with every field filled has a tenth of this.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// Largest body of a job of grants, in bytes: the ids of [`coupon::limit::JOB_ROWS_MAX`] users.
pub(crate) const GRANTS_BYTES_MAX: usize = 1024 * 1024;

/// Returns the largest body that a request to this path may have, in bytes.
pub(crate) fn body_bytes_max(path: &str) -> usize {
    let below_a_template = path.strip_prefix("/v1/templates/");
    let is_grants = below_a_template.is_some_and(|rest| rest.ends_with("/grants"));
    if is_grants { GRANTS_BYTES_MAX } else { BODY_BYTES_MAX }
}

/// A body of up to [`GRANTS_BYTES_MAX`]: JSON, or text with one entry in each line.
pub(crate) struct Upload {
    pub(crate) bytes: Bytes,
    pub(crate) is_json: bool,
}

/// A JSON body. An empty one reads as `{}`.
pub(crate) struct Body<T>(pub(crate) T);

/// The `{id}` of a path. A text that is not an id is answered 404.
pub(crate) struct PathId<T>(pub(crate) T);

/// Both parameters of a path, as texts. One that is not text is answered 404.
pub(crate) struct PathTexts(pub(crate) String, pub(crate) String);

pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let json = is_of_kind(&request, &["application/json"]);
        let bytes = bytes(request, state, BODY_BYTES_MAX).await?;
        if bytes.is_empty() {
            return parse(b"{}");
        }
        if !json {
            let detail = "Send the body as `Content-Type: application/json`.";
            return Err(Problem::new(Code::NotJson, detail));
        }
        parse(&bytes)
    }
}

impl<S: Send + Sync> FromRequest<S> for Upload {
    type Rejection = Problem;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_of_kind(&request, &["application/json"]);
        if !is_json && !is_of_kind(&request, &["application/x-ndjson", "text/plain"]) {
            let detail = "Send the body as `Content-Type: application/json`, or lines as \
                          `application/x-ndjson` or `text/plain`.";
            return Err(Problem::new(Code::NotJson, detail));
        }
        DefaultBodyLimit::max(GRANTS_BYTES_MAX).apply(&mut request);
        let bytes = bytes(request, state, GRANTS_BYTES_MAX).await?;
        Ok(Self { bytes, is_json })
    }
}

/// Whether the body is of one of these media types. A body without a type counts as one.
fn is_of_kind(request: &Request, kinds: &[&str]) -> bool {
    request.headers().get(header::CONTENT_TYPE).is_none_or(|value| {
        let kind = value.to_str().unwrap_or("").split(';').next().unwrap_or("").trim();
        kinds.iter().any(|known| kind.eq_ignore_ascii_case(known))
    })
}

/// Reads a body that is not encoded. The layers of the route bound it to `most` bytes.
async fn bytes<S: Send + Sync>(request: Request, state: &S, most: usize) -> Result<Bytes, Problem> {
    if request.headers().get(header::CONTENT_ENCODING).is_some_and(|how| how != "identity") {
        let detail = "Send the body as it is, without a `Content-Encoding`.";
        return Err(Problem::new(Code::BodyEncoded, detail));
    }
    Bytes::from_request(request, state).await.map_err(|why| unreadable(&why, most))
}

pub(crate) fn too_large(most: usize) -> Problem {
    let detail = format!("Send a body of at most {most} bytes.");
    Problem::new(Code::BodyTooLarge, detail)
}

/// The body is shorter than announced, or came too slowly. Nothing was done.
pub(crate) fn incomplete() -> Problem {
    let detail = "The body did not come as a whole. Nothing was done: send the request again.";
    Problem::new(Code::BodyIncomplete, detail)
}

fn unreadable(rejection: &BytesRejection, most: usize) -> Problem {
    let status = rejection.status();
    let detail = rejection.body_text();
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return too_large(most);
    }
    let causes = iter::successors(rejection.source(), |&error| error.source());
    let mut kinds = causes.filter_map(|error| error.downcast_ref::<io::Error>());
    match kinds.next().map(io::Error::kind) {
        Some(io::ErrorKind::UnexpectedEof) => incomplete(),
        // `write_timeout.rs` stops reading when unfinished requests hold too much memory.
        Some(io::ErrorKind::OutOfMemory) => {
            let detail = "Too much is being received. Send the request again.";
            Problem::new(Code::Overloaded, detail)
        }
        _ => Problem::new(Code::BodyUnreadable, detail),
    }
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<Body<T>, Problem> {
    // serde would read an array as a struct's fields in order; the API accepts objects only.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(Problem::new(Code::MalformedBody, "The body: an object is expected."));
    }
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let body = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let field = error.path().to_string();
        let error = error.into_inner();
        // The body as a whole has the path `.`.
        if field == "." {
            return malformed(&error);
        }
        let detail = format!("The body: {field}: {error}.");
        Problem::new(Code::MalformedBody, detail).with("field", field)
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(Body(body))
}

fn malformed(error: &serde_json::Error) -> Problem {
    Problem::new(Code::MalformedBody, format!("The body: {error}."))
}

impl<S: Send + Sync, T: FromStr + Send> FromRequestParts<S> for PathId<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) =
            Path::<String>::from_request_parts(parts, state).await.map_err(|_| unknown_id())?;
        text.parse().map(PathId).map_err(|_| unknown_id())
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathTexts {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let texts = Path::<(String, String)>::from_request_parts(parts, state).await;
        texts.map(|Path((first, second))| Self(first, second)).map_err(|_| unknown_id())
    }
}

/// Nothing has this id, or the text is no id.
pub(crate) fn unknown_id() -> Problem {
    Problem::new(Code::NotFound, "There is nothing under this id.")
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Query::from_request_parts(parts, state).await.map(|Query(params)| Self(params)).map_err(
            |rejection| {
                let detail = format!("The query string: {}.", rejection.body_text());
                Problem::new(Code::MalformedQuery, detail)
            },
        )
    }
}
