//! One call of the api.

use reqwest::Method;
use serde_json::Value;

#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// The `Idempotency-Key`, if it is shown to the user. Otherwise a `POST` gets one that is not shown.
    pub(crate) request_id: Option<String>,
    /// How to find out the outcome of a call that takes effect twice if the command is repeated.
    pub(crate) once: Option<&'static str>,
    /// The versions that it may change: an `If-Match` header.
    pub(crate) if_match: Option<String>,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A call that takes effect once, however often it is sent: [`Api::send`](crate::api::Api::send) gives it a key.
    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// Takes effect once: it names the version that it edits.
    pub(crate) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Takes effect once: a revoked or deleted object stays so.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    pub(crate) fn with_query(mut self, name: &'static str, value: impl ToString) -> Self {
        self.query.push((name, value.to_string()));
        self
    }

    pub(crate) fn with_body(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }

    /// Sets the `Idempotency-Key`, under which the call takes effect once.
    pub(crate) fn named(self, request_id: String) -> Self {
        Self { request_id: Some(request_id), ..self }
    }

    /// For a command that makes something new each time it is given; the call itself takes effect once. `find_out` says
    /// what to do if no answer arrives.
    pub(crate) fn once(self, find_out: &'static str) -> Self {
        Self { once: Some(find_out), ..self }
    }

    pub(crate) fn if_match(self, tags: impl Into<String>) -> Self {
        Self { if_match: Some(tags.into()), ..self }
    }

    pub(crate) fn reads(&self) -> bool {
        self.method == Method::GET
    }

    fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        let query = Vec::new();
        Self { method, path, query, body: None, request_id: None, once: None, if_match: None }
    }
}

/// Returns a name that no other request has.
pub(crate) fn new_name() -> String {
    format!("coupon-{:032x}", fastrand::u128(..))
}
