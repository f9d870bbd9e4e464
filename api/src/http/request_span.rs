//! The server span of a request, from its head to the head of its answer. Spans that follow from the request continue
//! its trace.

use std::{
    convert::Infallible,
    fmt::Display,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    extract::{FromRequestParts, Request},
    http::{StatusCode, request::Parts},
};
use runtime::trace::{self, Kind, Span};

use crate::http::headers;

/// The span of a request. The router begins and ends it, and a handler may add attributes. Empty if it is not exported.
#[derive(Clone, Default)]
pub(crate) struct RequestSpan(Option<Arc<Mutex<Span>>>);

impl RequestSpan {
    /// Begins a request's span in its caller's trace, and attaches it to the request for its handler.
    pub(crate) fn begin(request: &mut Request, route: Option<&str>) -> Self {
        if !trace::is_on() {
            return Self::default();
        }
        let method = request.method().as_str().to_owned();
        let name = route.map_or_else(|| method.clone(), |route| format!("{method} {route}"));
        let mut span = trace::begin(name, Kind::Server, headers::trace_parent(request.headers()));
        if span.is_empty() {
            return Self::default();
        }
        span.set("http.request.method", method);
        span.set("url.path", request.uri().path().to_owned());
        if let Some(route) = route {
            span.set("http.route", route.to_owned());
        }
        let hop = Self(Some(Arc::new(Mutex::new(span))));
        request.extensions_mut().insert(hop.clone());
        hop
    }

    /// Returns the traceparent for the spans that follow.
    pub(crate) fn trace_parent(&self) -> Option<String> {
        self.span()?.trace_parent()
    }

    pub(crate) fn set(&self, key: &'static str, value: impl Display) {
        if let Some(mut span) = self.span() {
            span.set(key, value.to_string());
        }
    }

    /// Sets the status of the answer.
    pub(crate) fn answered(&self, status: StatusCode) {
        if let Some(mut span) = self.span() {
            span.set("http.response.status_code", i64::from(status.as_u16()));
        }
    }

    fn span(&self) -> Option<MutexGuard<'_, Span>> {
        self.0.as_ref().map(|span| span.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Sync> FromRequestParts<S> for RequestSpan {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.remove().unwrap_or_default())
    }
}
