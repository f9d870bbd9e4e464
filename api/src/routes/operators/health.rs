//! The health of the whole platform in one answer: what works for users, why the rest does not, and all processes, lags,
//! servers, clocks and gates.

use axum::{Json, extract::State};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::{
    auth::OnCall,
    fleet::{facts::ClosedGate, first_sentence::FirstSentence, impact::ImpactJson},
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
    "now": "2026-11-27T08:00:00.000Z",
    "impact": {
        "state": "degraded",
        "sentence": "Selling; lists 40 s late since 07:59:20 UTC: no tailer leads. Start a cdc-tailer, or correct what the log of the running one names (runbook: TailerNoLeader).",
        "claims": "works", "queued_claims": "works", "payments": "works", "lists": "late", "expiry": "works",
        "cause": "no tailer leads",
        "action": "Start a cdc-tailer, or correct what the log of the running one names (runbook: TailerNoLeader).",
        "since": "2026-11-27T07:59:20.000Z", "also": []
    },
    "status": "not ready", "leader": null,
    "publish_lag_seconds": null, "list_lag_seconds": null,
    "processes": [{ "process": "cdc-tailer", "address": "127.0.0.1:9402", "status": "no answer",
        "error": "Connection refused", "since": "2026-11-27T07:59:20.000Z" }],
    "gates_not_loaded": []
})))]
pub(crate) struct HealthJson {
    /// When the processes were asked, by the api's clock.
    #[schema(value_type = Instant)]
    now: String,
    impact: ImpactJson,
    /// The worst of all processes. Whether users notice, says `impact`.
    #[schema(pattern = "^(ready|degraded|not ready)$")]
    status: &'static str,
    /// Admin address of the tailer that publishes. Null: none, or none that is in `ADMIN_PEERS`.
    #[schema(required = true)]
    leader: Option<String>,
    /// Age of the oldest change that is not on the topics for certain, in seconds. Null: unknown.
    #[schema(required = true)]
    publish_lag_seconds: Option<f64>,
    /// Age of the oldest change that is on the topics and not in the users' lists, in seconds. Null: unknown, as while no
    /// tailer leads.
    #[schema(required = true)]
    list_lag_seconds: Option<f64>,
    /// Each process: its build, its parts and servers with since when they are up or down, and what it says of itself. One
    /// that does not answer has an `error`, and `since` when.
    #[schema(value_type = Vec<Object>)]
    processes: Vec<Value>,
    /// Templates that give coupons now or within `PRELOAD_SECONDS`, and whose gate was not loaded at the last look. Null:
    /// unknown, as while MySQL or the gate is away.
    #[schema(required = true)]
    gates_not_loaded: Option<Vec<GateJson>>,
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
    summary = "What works, why the rest does not, and the health of all processes",
    description = "For the platform's own key and keys of the scope `emergency`. While MySQL is away, such a key is accepted if it was within the last quarter of an hour.",
    security(("operator_key" = [])),
    responses((status = 200, description = "The processes that were asked, whether they are well or not.", body = HealthJson)),
    extensions(("x-problems" = json!("PLATFORM_ONLY")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    OnCall: OnCall,
) -> Result<Json<HealthJson>, Problem> {
    let seen = app.fleet.ask().await;
    let facts = seen.facts_with(app.gates.not_loaded());
    let leader = seen.leader();
    Ok(Json(HealthJson {
        now: instant(seen.at),
        impact: ImpactJson::of(FirstSentence::of(&facts)),
        status: worst(&seen.processes),
        leader: leader.and_then(|leader| leader["address"].as_str().map(str::to_owned)),
        publish_lag_seconds: facts.publish_lag,
        list_lag_seconds: facts.list_lag,
        processes: seen.processes,
        gates_not_loaded: facts
            .gates_not_loaded
            .map(|gates| gates.into_iter().map(GateJson::of).collect()),
    }))
}

impl GateJson {
    fn of(gate: ClosedGate) -> Self {
        Self { template_id: gate.template, opens_at: instant(gate.opens_at) }
    }
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
