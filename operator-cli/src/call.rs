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
    /// Its `Idempotency-Key`.
    pub(crate) request_id: Option<String>,
    /// Of a call that would have its effect twice if it were sent twice: how to find out what became of it.
    pub(crate) once: Option<&'static str>,
}

impl Call {
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// A call that may be sent again with the same effect, unless it is [`Call::once`].
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

    /// Must not be sent twice; `find_out` says what to do if nobody answers.
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
