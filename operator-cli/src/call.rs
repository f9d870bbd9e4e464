//! One call of the api.

use reqwest::Method;
use serde_json::Value;

/// A request, before it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(&'static str, String)>,
    pub(crate) body: Option<Value>,
    /// Its `Idempotency-Key`, if somebody shall know it; else a `POST` has one that nobody is told.
    pub(crate) request_id: Option<String>,
    /// Of a call that would have its effect twice if the command were given twice: how to find out what became of it.
    pub(crate) once: Option<&'static str>,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A call that has its effect once, however often it is sent: [`Api::send`](crate::api::Api::send) names it.
    pub(crate) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    /// An edit of the version that it names has its effect once.
    pub(crate) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    /// Withdrawn is withdrawn, however often it is asked for.
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

    /// Sent again under this name it has its effect once.
    pub(crate) fn named(self, request_id: String) -> Self {
        Self { request_id: Some(request_id), ..self }
    }

    /// Makes something new each time the command is given, and once however often this call is sent; `find_out` says
    /// what to do if nobody answers.
    pub(crate) fn once(self, find_out: &'static str) -> Self {
        Self { once: Some(find_out), ..self }
    }

    pub(crate) fn reads(&self) -> bool {
        self.method == Method::GET
    }

    fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, query: Vec::new(), body: None, request_id: None, once: None }
    }
}

/// A name for a request that no other has.
pub(crate) fn new_name() -> String {
    format!("coupon-{:032x}", fastrand::u128(..))
}
