//! The health of the whole platform in one answer: all processes, lags, the leader, servers, clocks and gates.

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    auth::AnyOperator,
    http::{
        instant::instant,
        schemas::{Id, Instant},
    },
    problem::Problem,
    state::App,
};

/// The health of the platform.
#[derive(Serialize, ToSchema)]
#[schema(as = Health, examples(json!({
    "now": "2026-11-27T08:00:00.000Z", "status": "degraded", "leader": "127.0.0.1:9402",
    "publish_lag_seconds": 0.0, "list_lag_seconds": null,
    "processes": [{ "process": "sync-consumer", "address": "127.0.0.1:9403", "status": "not ready" }],
    "gates_not_loaded": []
})))]
pub(crate) struct HealthJson {
    /// When the processes were asked, by the api's clock.
    #[schema(value_type = Instant)]
    now: String,
    /// The worst of all processes.
    #[schema(pattern = "^(ready|degraded|not ready)$")]
    status: &'static str,
    /// Admin address of the tailer that publishes. Null: none, or none that is in `ADMIN_PEERS`.
    #[schema(required = true)]
    leader: Option<String>,
    /// Age of the oldest change that is not on the topics for certain, in seconds. Null: unknown.
    #[schema(required = true)]
    publish_lag_seconds: Option<f64>,
    /// Age of the oldest change that is not in the users' lists, in seconds. Null: unknown.
    #[schema(required = true)]
    list_lag_seconds: Option<f64>,
    /// Each process: its build, its parts and servers with since when they are up or down, and what it says of itself.
    #[schema(value_type = Vec<Object>)]
    processes: Vec<Value>,
    /// Templates that give coupons now or within `PRELOAD_SECONDS`, and whose gate was not loaded at the last look.
    gates_not_loaded: Vec<GateJson>,
}

/// A gate that should be loaded and is not.
#[derive(Serialize, ToSchema)]
#[schema(as = GateNotLoaded)]
struct GateJson {
    #[schema(value_type = Id)]
    template_id: String,
    /// When its claim window opens, or has opened.
    #[schema(value_type = Instant)]
    opens_at: String,
}

/// `GET /v1/health`: reports on the whole platform, so it is for those on call.
#[utoipa::path(
    get,
    path = "/v1/health",
    operation_id = "get_health",
    tag = "Operations",
    summary = "The health of all processes",
    description = "For the platform's own key and keys of the scope `emergency`.",
    security(("operator_key" = [])),
    responses((status = 200, description = "The processes that were asked, whether they are well or not.", body = HealthJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    AnyOperator(operator): AnyOperator,
) -> Result<Json<HealthJson>, Problem> {
    operator.needs_on_call()?;
    let processes = app.fleet.ask().await;
    let gates = app.gates.not_loaded().into_iter().map(|(template, opens_at)| GateJson {
        template_id: template.to_string(),
        opens_at: instant(opens_at),
    });
    let leader = processes.iter().find(|process| leads(process));
    Ok(Json(HealthJson {
        now: instant(app.clock.now()),
        status: worst(&processes),
        leader: leader.and_then(|leader| leader["address"].as_str().map(str::to_owned)),
        publish_lag_seconds: leader.and_then(publish_lag),
        list_lag_seconds: list_lag(&processes),
        processes,
        gates_not_loaded: gates.collect(),
    }))
}

fn leads(process: &Value) -> bool {
    process.pointer("/details/binlog/role").is_some_and(|role| role == "leader")
}

/// Returns the age of what the leader has not checkpointed; unknown while its brokers do not answer.
fn publish_lag(leader: &Value) -> Option<f64> {
    let has_brokers = leader.pointer("/parts/kafka/up").is_some_and(|up| up == true);
    leader.pointer("/details/binlog/checkpoint/age_seconds")?.as_f64().filter(|_| has_brokers)
}

/// Returns the largest lag of the consumers; unknown if there is none, or one does not know its own.
fn list_lag(processes: &[Value]) -> Option<f64> {
    let consumers = processes.iter().filter(|process| process["process"] == "sync-consumer");
    let lags: Option<Vec<f64>> = consumers
        .map(|consumer| consumer.pointer("/details/partitions/lag_seconds")?.as_f64())
        .collect();
    lags?.into_iter().reduce(f64::max)
}

fn worst(processes: &[Value]) -> &'static str {
    let is = |word: &str| processes.iter().any(|process| process["status"] == word);
    let all_known = processes
        .iter()
        .all(|process| ["ready", "degraded"].iter().any(|word| process["status"] == *word));
    match (all_known, is("degraded")) {
        (false, _) => "not ready",
        (true, true) => "degraded",
        (true, false) => "ready",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn consumer(lag: Value) -> Value {
        json!({ "process": "sync-consumer", "status": "ready", "details": { "partitions": { "lag_seconds": lag } } })
    }

    #[test]
    fn a_lag_that_one_process_does_not_know_is_unknown() {
        assert_eq!(list_lag(&[consumer(json!(0.0)), consumer(json!(2.5))]), Some(2.5));
        assert_eq!(list_lag(&[consumer(json!(0.0)), consumer(Value::Null)]), None);
        assert_eq!(list_lag(&[]), None);
        let leader = |up: bool| {
            json!({ "parts": { "kafka": { "up": up } },
                "details": { "binlog": { "role": "leader", "checkpoint": { "age_seconds": 3 } } } })
        };
        assert!(leads(&leader(true)) && !leads(&consumer(json!(0))));
        assert_eq!((publish_lag(&leader(true)), publish_lag(&leader(false))), (Some(3.0), None));
    }

    #[test]
    fn the_platform_is_as_well_as_its_worst_process() {
        let of = |words: &[&str]| {
            let processes: Vec<Value> =
                words.iter().map(|word| json!({ "status": word })).collect();
            worst(&processes)
        };
        assert_eq!(of(&["ready", "ready"]), "ready");
        assert_eq!(of(&["ready", "degraded"]), "degraded");
        assert_eq!(of(&["degraded", "not ready"]), "not ready");
        assert_eq!(of(&["ready", "no answer"]), "not ready");
    }
}
