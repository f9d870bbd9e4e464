//! `Idempotency-Key` of operators' requests: one that is sent again does nothing twice and is answered byte by byte
//! as it was.
//!
//! A handler that changes something takes a [`Once`]. [`Once::begin`] is the first step of the transaction that makes the
//! change, [`Once::end`] the last before its commit: answer and change stand together. Only good answers are kept; what
//! was refused is judged anew. Claims and stock movements have rows of their own that remember their keys, and what
//! names its result (a use for an order, a revocation, an edit of a version) needs no key.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use coupon::{AuditId, RequestId};
use mysql_store::{
    MySqlConnection, connect,
    idempotency::{self, Begun, Digest, Request},
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::{auth::Operator, headers, problem::Problem, state::App};

/// Tells a client that the answer is that of an earlier request with the same key.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Routes whose `POST` makes something new each time: without a key nobody may be told to send one again whose
/// answer did not come.
const MAKES_ANEW: [&str; 5] = [
    "/v1/templates",
    "/v1/merchants",
    "/v1/api-keys",
    "/v1/api-keys/{id}/rotate",
    "/v1/dead-letter-replays",
];

/// A request's key, if it has one, and what it asks for.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    key: Option<RequestId>,
    route: [u8; 16],
    /// Of what is asked for, `If-Match` and body.
    asked: Digest,
}

/// What [`Once::begin`] found.
pub(crate) enum Known {
    /// It is to be done now.
    Nothing,
    /// It was answered so.
    Answer(Answer),
    /// It was begun under this line of the record, and nobody saw its end.
    UnderWay(AuditId),
}

/// A good answer, as it is sent and kept.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: StatusCode,
    location: Option<String>,
    version: Option<i64>,
    body: String,
    replayed: bool,
}

impl Once {
    /// The same for a request with a body.
    pub(crate) fn asking(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self {
            asked: Sha256::new_with_prefix(self.asked).chain_update(body).finalize().into(),
            ..self
        }
    }

    /// Begins the request in the transaction that does it. Waits for an equal one that is being done.
    pub(crate) async fn begin(
        &self,
        app: &App,
        operator: Operator,
        transaction: &mut MySqlConnection,
    ) -> Result<Known, Problem> {
        let Some(request) = self.request(operator) else { return Ok(Known::Nothing) };
        match idempotency::begin(transaction, request, app.clock.now()).await? {
            Begun::New => Ok(Known::Nothing),
            Begun::Answered(answer) => Ok(Known::Answer(Answer::read(answer))),
            Begun::UnderWay(audit_id) => Ok(Known::UnderWay(audit_id)),
            Begun::Other => {
                let detail = "This `Idempotency-Key` was used for another request, or with another key \
                              of an operator. Send a new one.";
                Err(Problem::invalid("IDEMPOTENCY_KEY_REUSED", detail))
            }
        }
    }

    /// The answer that the request had, if it had one, outside any transaction: what has changed since does not
    /// matter to it.
    pub(crate) async fn answered(
        &self,
        app: &App,
        operator: Operator,
    ) -> Result<Option<Answer>, Problem> {
        if self.key.is_none() {
            return Ok(None);
        }
        connect::within(async {
            // Rolled back: it only reads what stands.
            let mut transaction = connect::begin(&app.pool).await?;
            match self.begin(app, operator, &mut transaction).await? {
                Known::Answer(answer) => Ok(Some(answer)),
                Known::Nothing | Known::UnderWay(_) => Ok(None),
            }
        })
        .await
    }

    /// Keeps the answer: in the transaction of the change, or after what is done outside MySQL.
    pub(crate) async fn end(
        &self,
        operator: Operator,
        connection: &mut MySqlConnection,
        answer: &Answer,
    ) -> Result<(), Problem> {
        let Some(request) = self.request(operator) else { return Ok(()) };
        Ok(idempotency::end(connection, request, &answer.kept()).await?)
    }

    /// Says under which line of the record it is done outside MySQL.
    pub(crate) async fn is_under_way(
        &self,
        operator: Operator,
        transaction: &mut MySqlConnection,
        audit_id: AuditId,
    ) -> Result<(), Problem> {
        let Some(request) = self.request(operator) else { return Ok(()) };
        Ok(idempotency::is_under_way(transaction, request, audit_id).await?)
    }

    fn request(&self, operator: Operator) -> Option<Request<'_>> {
        let key = self.key.as_ref()?;
        // Answers of one operator's key are not for another, which may lack the right to see them.
        let digest = Sha256::new_with_prefix(self.asked).chain_update(operator.caller.digest);
        let (merchant_id, digest) = (operator.merchant_id, digest.finalize().into());
        Some(Request { merchant_id, route: self.route, key, digest })
    }
}

impl FromRequestParts<App> for Once {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let key = headers::idempotency_key(&parts.headers)?;
        let place = format!("{} {}", parts.method, parts.uri.path());
        let mut route = [0; 16];
        route.copy_from_slice(&Sha256::digest(place)[..16]);
        let mut asked = Sha256::new();
        for value in parts.headers.get_all(header::IF_MATCH) {
            asked.update(value.as_bytes());
            asked.update([0]);
        }
        Ok(Self { key, route, asked: asked.finalize().into() })
    }
}

/// Whether a request that was not answered may be sent again as it is: it changes nothing, has a key, or leads to
/// the same however often it is sent.
pub(crate) fn may_be_repeated(method: &Method, route: &str, headers: &HeaderMap) -> bool {
    *method != Method::POST
        || headers.contains_key("idempotency-key")
        || !MAKES_ANEW.contains(&route)
}

impl Answer {
    pub(crate) fn new(status: StatusCode, body: &impl Serialize) -> Self {
        let body = serde_json::to_string(body).unwrap_or_default();
        Self { status, location: None, version: None, body, replayed: false }
    }

    /// Says where what was made is.
    pub(crate) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// Says of which version the answer is.
    pub(crate) fn of_version(self, version: i64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// The same with a part of its body in place of another.
    pub(crate) fn with(self, part: &str, instead: &str) -> Self {
        Self { body: self.body.replace(part, instead), ..self }
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    fn kept(&self) -> idempotency::Answer {
        let location = self.location.iter().map(|location| format!("location {location}"));
        let version = self.version.iter().map(|version| format!("version {version}"));
        let head = location.chain(version).collect::<Vec<_>>().join("\n");
        idempotency::Answer { status: self.status.as_u16(), head, body: self.body.clone() }
    }

    fn read(kept: idempotency::Answer) -> Self {
        let line = |name: &str| {
            let lines = kept.head.lines();
            lines.filter_map(|line| line.split_once(' ')).find(|(own, _)| *own == name)
        };
        Self {
            status: StatusCode::from_u16(kept.status).unwrap_or(StatusCode::OK),
            location: line("location").map(|(_, location)| location.to_owned()),
            version: line("version").and_then(|(_, version)| version.parse().ok()),
            body: kept.body,
            replayed: true,
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let mut response = (self.status, [(header::CONTENT_TYPE, json)], self.body).into_response();
        let mut add = |name: HeaderName, value: Option<String>| {
            if let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) {
                response.headers_mut().insert(name, value);
            }
        };
        add(header::LOCATION, self.location);
        add(header::ETAG, self.version.map(|version| format!("\"{version}\"")));
        add(REPLAYED, self.replayed.then(|| "true".to_owned()));
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_whole() {
        let answer =
            Answer::new(StatusCode::CREATED, &["a"]).at("/v1/templates/7".to_owned()).of_version(3);
        let again = Answer::read(answer.kept());
        assert_eq!((answer.replayed, again.replayed), (false, true));
        let (first, again) = (answer.into_response(), again.into_response());
        assert_eq!(first.status(), again.status());
        for name in [header::LOCATION, header::ETAG, header::CONTENT_TYPE] {
            assert!(first.headers().contains_key(&name), "{name}");
            assert_eq!(first.headers().get(&name), again.headers().get(&name));
        }
    }

    #[test]
    fn what_makes_something_new_is_repeated_only_under_a_key() {
        let (none, key) = (
            HeaderMap::new(),
            HeaderMap::from_iter([(
                HeaderName::from_static("idempotency-key"),
                HeaderValue::from_static("k"),
            )]),
        );
        assert!(!may_be_repeated(&Method::POST, "/v1/templates", &none));
        assert!(may_be_repeated(&Method::POST, "/v1/templates", &key));
        assert!(may_be_repeated(&Method::GET, "/v1/templates", &none));
        assert!(may_be_repeated(&Method::POST, "/v1/templates/{id}/{verb}", &none));
    }
}
