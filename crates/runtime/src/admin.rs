//! The admin listener: `/livez`, `/readyz`, `/status`, `/health`, `/metrics`.

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{COMMIT, Health, VERSION};

/// Serves until `stop` is cancelled. `/livez` reports on the process alone, not on its dependencies: restarting this
/// process cannot repair a database.
pub(crate) async fn serve(
    name: &'static str,
    listener: TcpListener,
    health: Health,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .route("/health", get(async move |State(health): State<Health>| about(name, &health)))
        .with_state(health)
        .route("/metrics", get(move || std::future::ready(metrics.render())));
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
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
