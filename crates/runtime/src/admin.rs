//! The admin listener: `/livez`, `/readyz`, `/status`, `/metrics`.

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::Health;

/// Serves until `stop` is cancelled. `/livez` reports on the process alone, not on its dependencies: restarting this
/// process cannot repair a database.
pub(crate) async fn serve(
    listener: TcpListener,
    health: Health,
    metrics: PrometheusHandle,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(readyz))
        .route("/status", get(status))
        .with_state(health)
        .route("/metrics", get(move || std::future::ready(metrics.render())));
    axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned()).await
}

async fn readyz(State(health): State<Health>) -> impl IntoResponse {
    let unready = health.unready();
    let (status, word) = if unready.is_empty() {
        (StatusCode::OK, "ready")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, "not ready")
    };
    let roles = health.roles();
    (status, Json(serde_json::json!({ "status": word, "not_ready": unready, "roles": roles })))
}

async fn status(State(health): State<Health>) -> impl IntoResponse {
    Json(health.status())
}
