//! `Idempotency-Key` of operators' requests: a request that is sent again takes effect once and gets the same answer,
//! byte by byte.
//!
//! A handler that changes something takes a [`Once`]. [`Once::begin`] begins the transaction that makes the change,
//! [`Once::end`] is its last step before the commit, so answer and change are stored together. Only successful answers
//! are stored; a refused request is judged again. Claims and stock movements store their keys in rows of their
//! own. A request that names its result (a use for an order, a revocation, an edit of a version) needs no key.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use coupon::{AuditId, MerchantId, RequestId};
use mysql_store::{
    MySqlConnection,
    connect::{self, Transaction},
    idempotency::{self, Digest, Request},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{auth::Operator, code::Code, http::headers, problem::Problem, state::App};

/// Marks the answer of an earlier request with the same key.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Routes whose `POST` makes something new each time. Without a key, a client must not be advised to repeat a request
/// whose answer was lost.
const MAKES_ANEW: [&str; 6] = [
    "/v1/templates",
    "/v1/templates/{id}/clone",
    "/v1/merchants",
    "/v1/api-keys",
    "/v1/api-keys/{id}/rotate",
    "/v1/dead-letter-replays",
];

/// The key of a request, if it has one, and what it asks for.
#[derive(Debug, Clone)]
pub(crate) struct Once {
    key: Option<RequestId>,
    route: [u8; 16],
    /// Digest of what is asked for: `If-Match` and body.
    asked: Digest,
}

/// A request that was begun.
pub(crate) struct Begun {
    /// The transaction that makes the change. An equal request waits for its end.
    pub(crate) transaction: Transaction,
    pub(crate) known: Known,
}

/// What is known of a request.
pub(crate) enum Known {
    /// The request is new.
    Nothing,
    /// The stored answer of the request.
    Answer(Answer),
    /// The request was begun under this line of the record, and its end was not recorded.
    UnderWay(AuditId),
}

/// A successful answer, as it is sent and stored.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: StatusCode,
    location: Option<String>,
    version: Option<i64>,
    body: String,
    replayed: bool,
}

impl Once {
    /// Adds the body of the request to what it asks for.
    pub(crate) fn asking(self, body: &impl Serialize) -> Self {
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self {
            asked: Sha256::new_with_prefix(self.asked).chain_update(body).finalize().into(),
            ..self
        }
    }

    /// Begins the request, and the transaction that makes its change. Waits while an equal request is being processed.
    pub(crate) async fn begin(&self, app: &App, operator: Operator) -> Result<Begun, Problem> {
        let Some(request) = self.request(operator) else {
            let transaction = connect::begin(&app.pool).await?;
            return Ok(Begun { transaction, known: Known::Nothing });
        };
        let begun = idempotency::begin(&app.pool, request, app.clock.now()).await?;
        Ok(Begun { transaction: begun.transaction, known: Known::of(begun.known)? })
    }

    /// Returns the stored answer of the request, if there is one, for use before checks of the current state: later
    /// changes do not matter to a replay. Does not wait for an equal request in progress, so [`Self::begin`] decides.
    pub(crate) async fn answered(
        &self,
        app: &App,
        operator: Operator,
    ) -> Result<Option<Answer>, Problem> {
        let Some(request) = self.request(operator) else { return Ok(None) };
        let known = connect::within(async {
            let mut connection = connect::acquire(&app.pool).await?;
            idempotency::look_up(&mut connection, request).await
        });
        match Known::of(known.await?)? {
            Known::Answer(answer) => Ok(Some(answer)),
            Known::Nothing | Known::UnderWay(_) => Ok(None),
        }
    }

    /// Returns the answer to a request that the current state refuses: that of an equal request, if it was faster and
    /// changed the state so that this one is refused.
    pub(crate) async fn answered_or(
        &self,
        app: &App,
        operator: Operator,
        refused: Problem,
    ) -> Result<Answer, Problem> {
        self.answered(app, operator).await?.ok_or(refused)
    }

    /// Stores the answer: in the transaction of the change, or after an action outside MySQL.
    pub(crate) async fn end(
        &self,
        operator: Operator,
        connection: &mut MySqlConnection,
        answer: &Answer,
    ) -> Result<(), Problem> {
        let Some(request) = self.request(operator) else { return Ok(()) };
        Ok(idempotency::end(connection, request, &answer.kept()).await?)
    }

    /// Stores the line of the record under which an action outside MySQL is being done.
    pub(crate) async fn is_under_way(
        &self,
        operator: Operator,
        transaction: &mut MySqlConnection,
        audit_id: AuditId,
    ) -> Result<(), Problem> {
        let Some(request) = self.request(operator) else { return Ok(()) };
        Ok(idempotency::is_under_way(transaction, request, audit_id).await?)
    }

    /// Returns the request in a form that outlives this process: its answer is stored later.
    pub(crate) fn kept(&self, operator: Operator) -> Option<KeptRequest> {
        let Request { merchant_id, route, key, digest } = self.request(operator)?;
        let key = key.as_str().to_owned();
        Some(KeptRequest { merchant_id: merchant_id.0, route, key, digest })
    }

    fn request(&self, operator: Operator) -> Option<Request<'_>> {
        let key = self.key.as_ref()?;
        // The digest includes the operator's key: another key may lack the right to see the answer.
        let digest = Sha256::new_with_prefix(self.asked).chain_update(operator.caller.digest);
        let merchant_id = operator.merchant_id;
        let digest = digest.finalize().into();
        Some(Request { merchant_id, route: self.route, key, digest })
    }
}

/// A request with an `Idempotency-Key`, as text keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptRequest {
    merchant_id: i64,
    route: [u8; 16],
    key: String,
    digest: [u8; 32],
}

/// A kept request, read again.
pub(crate) struct ReadRequest {
    kept: KeptRequest,
    key: RequestId,
}

impl KeptRequest {
    /// `None`: its key is none that a client can send.
    pub(crate) fn request(&self) -> Option<ReadRequest> {
        let key = RequestId::from_client(&self.key).ok()?;
        Some(ReadRequest { kept: self.clone(), key })
    }
}

impl ReadRequest {
    pub(crate) fn borrowed(&self) -> Request<'_> {
        let KeptRequest { merchant_id, route, digest, .. } = self.kept;
        Request { merchant_id: MerchantId(merchant_id), route, key: &self.key, digest }
    }
}

impl Known {
    fn of(known: idempotency::Known) -> Result<Self, Problem> {
        match known {
            idempotency::Known::New => Ok(Self::Nothing),
            idempotency::Known::Answered(answer) => Ok(Self::Answer(Answer::read(answer))),
            idempotency::Known::UnderWay(audit_id) => Ok(Self::UnderWay(audit_id)),
            idempotency::Known::Other => {
                let detail = "This `Idempotency-Key` was used for another request, or with another key \
                              of an operator. Send a new one; if the outcome of that request is not known, look \
                              first what it did.";
                Err(Problem::new(Code::IdempotencyKeyReused, detail))
            }
        }
    }
}

impl FromRequestParts<App> for Once {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let key = headers::idempotency_key(&parts.headers)?;
        let endpoint = format!("{} {}", parts.method, parts.uri.path());
        let mut route = [0; 16];
        route.copy_from_slice(&Sha256::digest(endpoint)[..16]);
        let mut asked = Sha256::new();
        for value in parts.headers.get_all(header::IF_MATCH) {
            asked.update(value.as_bytes());
            asked.update([0]);
        }
        Ok(Self { key, route, asked: asked.finalize().into() })
    }
}

/// Returns whether a request that was not answered may be sent again as it is: it changes nothing, has a key, or leads
/// to the same result however often it is sent.
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

    /// Sets the `Location` of what was made.
    pub(crate) fn at(self, location: String) -> Self {
        Self { location: Some(location), ..self }
    }

    /// Sets the version, sent as `ETag`.
    pub(crate) fn of_version(self, version: i64) -> Self {
        Self { version: Some(version), ..self }
    }

    /// Replaces a part of the body.
    pub(crate) fn with(self, part: &str, instead: &str) -> Self {
        Self { body: self.body.replace(part, instead), ..self }
    }

    /// Adds a field for what is true only now. Call it after [`Once::end`], which stores the answer.
    pub(crate) fn and(self, field: &str, value: bool) -> Self {
        let body = match self.body.strip_suffix('}') {
            Some(fields) => format!("{fields},\"{field}\":{value}}}"),
            None => self.body,
        };
        Self { body, ..self }
    }

    pub(crate) fn body(&self) -> &str {
        &self.body
    }

    /// The answer as it is stored.
    pub(crate) fn kept(&self) -> idempotency::Answer {
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
        let first = answer.into_response();
        let again = again.into_response();
        assert_eq!(first.status(), again.status());
        for name in [header::LOCATION, header::ETAG, header::CONTENT_TYPE] {
            assert!(first.headers().contains_key(&name), "{name}");
            assert_eq!(first.headers().get(&name), again.headers().get(&name));
        }
    }

    #[test]
    fn a_field_is_added_behind_the_others() {
        let answer = Answer::new(StatusCode::OK, &serde_json::json!({ "a": { "b": 1 } }));
        assert_eq!(answer.and("c", false).body(), r#"{"a":{"b":1},"c":false}"#);
    }

    #[test]
    fn a_request_that_creates_something_is_repeated_only_under_a_key() {
        let none = HeaderMap::new();
        let key = HeaderMap::from_iter([(
            HeaderName::from_static("idempotency-key"),
            HeaderValue::from_static("k"),
        )]);
        assert!(!may_be_repeated(&Method::POST, "/v1/templates", &none));
        assert!(may_be_repeated(&Method::POST, "/v1/templates", &key));
        assert!(may_be_repeated(&Method::GET, "/v1/templates", &none));
        assert!(may_be_repeated(&Method::POST, "/v1/templates/{id}/{verb}", &none));
    }
}
