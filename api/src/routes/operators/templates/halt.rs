//! A pause at the gate: what an operator can still do while MySQL does not answer. Queued claims are accepted meanwhile,
//! and nobody could stop them. The gate refuses claims from then on, and each api carries the pauses that it made or
//! found at a gate over to MySQL ([decision 0111](../../../../../docs/decisions/0111-a-pause-at-the-gate-outlasts-an-outage-of-mysql.md)).
//! crates/model (`claim/halt.rs`) searches the protocol.

use std::time::Duration;

use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use coupon::{AcceptedClaims, ApiKeyId, AuditId, Scope, Template, TemplateId, TemplateState};
use landing::rebuild::RebuildError;
use mysql_store::{
    StoreError,
    audit::{self, Entry},
    connect, idempotency, template,
};
use redis_gate::{Halted, Meta};
use runtime::Context;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        instant::{TIMES_MS, instant},
        schemas::{Id, Instant},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::idempotency::{Answer, KeptRequest, Once},
        bodies::template_json::TemplateJson,
        operators::templates::action,
    },
    state::App,
};

/// Interval between attempts to carry pauses over. Operators see MySQL's state this much later.
const CARRY_EVERY: Duration = Duration::from_secs(1);

/// What the gate keeps of a pause: the line of the audit record that it gets in MySQL. Its id is a primary key there, so
/// two processes that carry it over write one line, and pause once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Halt {
    audit_id: i64,
    /// `None`: the platform's own key.
    key_id: Option<i64>,
    trace_id: Option<u128>,
    at_ms: i64,
    /// The key under which it is answered the same once MySQL is back.
    request: Option<KeptRequest>,
}

/// A template that is paused at its gate, and will be in MySQL.
#[derive(Serialize, ToSchema)]
#[schema(as = PausedAtGate, examples(json!({
    "id": "2123985067360387072", "paused_at_gate": true, "since": "2026-11-27T08:00:00.000Z",
    "detail": "The gate refuses claims as paused. The database does not answer; it is told as soon as it does."
})))]
pub(super) struct PausedAtGate {
    #[schema(value_type = Id)]
    id: String,
    paused_at_gate: bool,
    /// When it was paused first.
    #[schema(value_type = Instant)]
    since: String,
    detail: &'static str,
}

/// Pauses a template at its gate. `unanswered` is the answer if that cannot be done either.
pub(super) async fn pause(
    app: &App,
    operator: Operator,
    once: &Once,
    id: TemplateId,
    unanswered: Problem,
) -> Result<Answer, Problem> {
    // Without MySQL only the memory says whose template it is.
    let Ok(known) = app.templates.visible(id).await else { return Err(unanswered) };
    let known = known.filter(|known| operator.sees(known.merchant_id));
    let known = known.ok_or_else(unknown_template)?;
    if known.state == TemplateState::Ended {
        let problem =
            Problem::new(Code::InvalidTransition, "The template is ended: it cannot pause.");
        return Err(problem.with("state", known.state.word()));
    }
    if !operator.is_on_call() {
        operator.needs(Scope::Operate)?;
    }
    let halt = Halt {
        audit_id: app.ids.audit()?.0,
        key_id: operator.key_id.map(|key| key.0),
        trace_id: operator.trace_id,
        at_ms: app.clock.now().timestamp_millis(),
        request: once.kept(operator),
    };
    let text = serde_json::to_vec(&halt).unwrap_or_default();
    let kept = match app.gates.gate().halt(known.id, &text).await {
        Ok(Halted::Now) => text,
        Ok(Halted::Before(earlier)) => earlier,
        Ok(Halted::NotLoaded) => {
            let detail = "The database does not answer, and the template's gate is not loaded: no claim is accepted. \
                          Send the request again.";
            return Err(Problem::new(Code::GateLoading, detail));
        }
        Err(error) => {
            let error = runtime::report(&error);
            warn!(template.id = %id, error, "a template cannot be paused at its gate");
            return Err(unanswered);
        }
    };
    info!(template.id = %id, "paused a template at its gate");
    app.gates.note_halt(known.id, &kept);
    Ok(Halt::read(&kept).unwrap_or(halt).answer(known.id))
}

/// Carries over a pause at the template's gate, if there is one, before another change of its state: else the pause
/// would undo that change.
pub(super) async fn carry_over_first(app: &App, id: TemplateId) -> Result<(), Problem> {
    // A gate that is away or lost admits nothing. This process still knows the pauses that it made.
    if let Ok(Some(Meta { halt: Some(halt), .. })) = app.gates.gate().meta(id).await {
        app.gates.note_halt(id, &halt);
    }
    let Some(halt) = app.gates.halt_of(id) else { return Ok(()) };
    match carry_over(app, id, &halt).await {
        Err(RebuildError::Store(error)) => Err(error.into()),
        // MySQL has it; the gate is told again.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Starts the task that carries pauses over.
pub(crate) fn start(app: &App, context: &Context) {
    context.spawn("pauses at gates", carry_over_all(app.clone(), context.stop_token()));
}

async fn carry_over_all(app: App, stop: CancellationToken) -> anyhow::Result<()> {
    while stop.run_until_cancelled(tokio::time::sleep(CARRY_EVERY)).await.is_some() {
        for (id, halt) in app.gates.halts() {
            if let Err(error) = carry_over(&app, id, &halt).await {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("a pause at a gate is not carried over", why);
            }
        }
    }
    Ok(())
}

/// Records a pause in MySQL, tells the gate MySQL's state, and only then lifts the pause there.
async fn carry_over(app: &App, id: TemplateId, halt: &[u8]) -> Result<(), RebuildError> {
    let record = || connect::within(record(app, id, halt));
    if let Some(current) = connect::retried(record, StoreError::is_conflict).await? {
        app.gates.send_state(&current).await?;
        app.templates.apply(current);
    }
    app.gates.gate().lift_halt(id, halt).await?;
    app.gates.forget_halt(id, halt);
    Ok(())
}

/// Pauses a published template in MySQL with a line of the audit record, unless MySQL has that line. Returns the
/// template as it is then; `None` if it was deleted.
async fn record(app: &App, id: TemplateId, halt: &[u8]) -> Result<Option<Template>, StoreError> {
    let halt = Halt::read(halt);
    let request = halt.as_ref().and_then(|halt| halt.request.as_ref());
    let request = request.and_then(KeptRequest::request);
    let mut transaction = match &request {
        None => connect::begin(&app.pool).await?,
        Some(request) => {
            idempotency::begin(&app.pool, request.borrowed(), app.clock.now()).await?.transaction
        }
    };
    // Two processes that carry over the same pause wait for each other here.
    template::hold_version(&mut transaction, id).await?;
    let Some(before) = template::get(&mut transaction, id).await? else { return Ok(None) };
    if let Some(halt) = &halt
        && audit::get(&mut transaction, AuditId(halt.audit_id)).await?.is_some()
    {
        return Ok(Some(before));
    }
    let mut after = before.clone();
    if before.state == TemplateState::Published {
        let paused = TemplateState::Paused;
        let land = AcceptedClaims::Land;
        let now = app.clock.now();
        template::change_state_with(&mut transaction, &before, paused, land, now).await?;
        after = Template { state: paused, version: before.version + 1, ..after };
    }
    // What somebody else wrote to the gate stops the sale too, and nobody knows who it was.
    if let Some(halt) = halt {
        audit::record(&mut transaction, &halt.entry(&before, &after)).await?;
        if let Some(request) = request {
            let answer = halt.answer(id).kept();
            idempotency::end(&mut transaction, request.borrowed(), &answer).await?;
        }
    }
    connect::commit(transaction).await?;
    Ok(Some(after))
}

impl Halt {
    /// `None`: it is none of ours, and MySQL could not take its line.
    fn read(text: &[u8]) -> Option<Self> {
        let halt: Self = serde_json::from_slice(text).ok()?;
        let is_kept = halt.audit_id > 0 && TIMES_MS.contains(&halt.at_ms);
        is_kept.then_some(halt)
    }

    fn at(&self) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(self.at_ms).unwrap_or_default()
    }

    fn answer(&self, id: TemplateId) -> Answer {
        let body = PausedAtGate {
            id: id.to_string(),
            paused_at_gate: true,
            since: instant(self.at()),
            detail: "The gate refuses claims as paused. The database does not answer; it is told as soon as it does.",
        };
        Answer::new(StatusCode::ACCEPTED, &body)
    }

    /// Returns its line of the record.
    fn entry(&self, before: &Template, after: &Template) -> Entry {
        let [was, mut is] = [before, after].map(|template| json!(TemplateJson::from(template)));
        is["paused_at_gate"] = json!(true);
        let key_id = self.key_id.map(ApiKeyId);
        let action = action(before, "pause", Some(was), is);
        action.entry(AuditId(self.audit_id), key_id, self.trace_id, self.at())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mysql_could_not_take_is_no_line_of_the_record() {
        let halt = |audit_id, at_ms| {
            let halt = Halt { audit_id, key_id: None, trace_id: Some(7), at_ms, request: None };
            Halt::read(&serde_json::to_vec(&halt).unwrap())
        };
        assert!(halt(1, 1_796_000_000_000).is_some());
        for (audit_id, at_ms) in [(0, 1), (-1, 1), (1, i64::MAX), (1, -1), (1, 900_000_000_000_000)]
        {
            assert_eq!(halt(audit_id, at_ms), None, "{audit_id} {at_ms}");
        }
        for text in [&b"\xff\xfe"[..], b"", b"{}", b"[1]", b"null"] {
            assert_eq!(Halt::read(text), None);
        }
    }
}
