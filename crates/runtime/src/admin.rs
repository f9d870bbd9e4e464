//! The admin listener: `/livez`, `/readyz`, `/status`, `/health`, `/metrics`, and what a process adds.

use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Json, Router,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{COMMIT, Health, VERSION};

/// An answer that is being made.
pub type Answering = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Answers a request.
type Answer = Arc<dyn Fn(Request) -> Answering + Send + Sync>;

/// What a process answers on its admin listener besides the routes of every process. Clones share it.
#[derive(Clone, Default)]
pub struct AdminRoutes(Arc<Mutex<Option<Answer>>>);

impl AdminRoutes {
    /// Answers all paths from now on that are none of every process.
    pub fn open(&self, answer: impl Fn(Request) -> Answering + Send + Sync + 'static) {
        self.set(Some(Arc::new(answer)));
    }

    /// Ends this, and drops what answered, once it has nothing under way.
    pub fn close(&self) {
        self.set(None);
    }

    fn set(&self, answer: Option<Answer>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// The lock is not held while it answers.
    fn current(&self) -> Option<Answer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves until `stop` is cancelled. `/livez` reports on the process alone, not on its dependencies: restarting this
/// process cannot repair a database.
pub(crate) async fn serve(
    name: &'static str,
    listener: TcpListener,
    health: Health,
    further: AdminRoutes,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .route("/health", get(async move |State(health): State<Health>| about(name, &health)))
        .with_state(health)
        .route("/metrics", get(move || std::future::ready(metrics.render())))
        .fallback(async move |request: Request| answered(&further, request).await);
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn answered(further: &AdminRoutes, request: Request) -> Response {
    match further.current() {
        Some(answer) => answer(request).await,
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    let word = health.word();
    let status = if word == "not ready" { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
    let body = json!({
        "status": word,
        "not_ready": health.unready(),
        "degraded": health.degraded(),
        "roles": health.roles(),
        "parts": health.parts(),
    });
    (status, Json(body))
}

async fn status(State(health): State<Health>) -> impl IntoResponse {
    Json(health.status())
}

/// Everything about this process in one answer: for the page that shows all processes.
fn about(name: &'static str, health: &Health) -> Json<Value> {
    Json(json!({
        "process": name,
        "version": VERSION,
        "commit": COMMIT,
        "status": health.word(),
        "roles": health.roles(),
        "parts": health.parts(),
        "details": health.status(),
    }))
}
