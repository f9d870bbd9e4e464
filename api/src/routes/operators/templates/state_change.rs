//! `POST /v1/templates/{id}/{verb}`: publish, pause, resume, end.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode},
};
use chrono::{DateTime, Utc};
use coupon::{AcceptedClaims, Scope, Template, TemplateId, TemplateState, Transition};
use mysql_store::{MySqlConnection, connect, stock, template};
use serde::Serialize;
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::{Operator, RecentOperator},
    code::Code,
    http::{
        etag::IfMatch,
        extract::{Body, PathTexts},
        schemas::{self, Id, RequestId, TemplateVerb},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::{
            self,
            idempotency::{Answer, Begun, Known, Once},
        },
        bodies::template_json::{self, TemplateJson},
        operators::templates::{
            action, changed_meanwhile,
            expected::{StateRequest, confirmed},
            gate_news::show_gate,
            halt::{self, PausedAtGate},
            owned_on, seen, seen_on,
        },
    },
    state::App,
};

/// Changes of a state that stop a sale or let it go on, and lose nothing.
const HALTS: [&str; 2] = ["pause", "resume"];

/// Field of an answer that says whether the gate knows of a pause or an end.
const INFORMED: &str = "gate_informed";

/// `POST /v1/templates/{id}/{verb}`: publish, pause, resume, end.
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/{verb}",
    operation_id = "change_template_state",
    tag = "Templates",
    summary = "Publish, pause, resume or end a template",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("verb" = TemplateVerb, Path, description = "What it shall do."),
        ("If-Match" = Option<schemas::IfMatch>, Header, description = "The `ETag` of the template that the operator has seen. An `end` needs it, or `confirm`."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer, whatever others did meanwhile.")
    ),
    request_body = Option<StateRequest>,
    responses(
        (status = 200, description = "The template in its new state. The same call again is the same answer.", body = ChangedTemplate,
            headers(("ETag" = String, description = "Its version, for `If-Match`."))),
        (status = 202, description = "A pause, while the database does not answer: the gate refuses claims as paused, and \
            the database is told once it answers. Not with `If-Match` or `accepted: reject`, which need the database.",
            body = PausedAtGate)
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND INVALID_TEMPLATE INVALID_TRANSITION VALIDITY_OVER CONFIRMATION_REQUIRED IF_MATCH_INVALID PRECONDITION_FAILED \
         CHANGED_MEANWHILE HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED GATE_LOADING OVERLOADED"
    )))
)]
pub(crate) async fn change_state(
    State(app): State<App>,
    RecentOperator { operator, unread }: RecentOperator,
    once: Once,
    PathTexts(id, verb): PathTexts,
    headers: HeaderMap,
    Body(request): Body<StateRequest>,
) -> Result<Answer, Problem> {
    // An empty body leaves the digest as it was stored before there were bodies.
    let once = if request.is_empty() { once } else { once.asking(&request) };
    let needs_mysql = request.rejects_accepted() || IfMatch::of(&headers)?.is_given();
    let may_pause = verb == "pause" && !needs_mysql;
    let template = id.clone();
    let changed = match unread {
        None => change(&app, operator, &once, PathTexts(id, verb), &headers, request).await,
        Some(problem) => Err(problem),
    };
    match changed {
        Err(problem) if problem.code() == Code::StoreUnavailable && may_pause => {
            let id = template.parse().map_err(|_| unknown_template())?;
            halt::pause(&app, operator, &once, id, problem).await
        }
        changed => changed,
    }
}

/// Changes the state in MySQL, and then in the gate.
async fn change(
    app: &App,
    operator: Operator,
    once: &Once,
    PathTexts(id, verb): PathTexts,
    headers: &HeaderMap,
    request: StateRequest,
) -> Result<Answer, Problem> {
    let way = TemplateState::TRANSITIONS.into_iter().find(|way| way.by == verb);
    // An operator on call may pause and resume every merchant's templates.
    let halts =
        operator.is_on_call() && HALTS.contains(&verb.as_str()) && !request.rejects_accepted();
    if !halts {
        operator.needs(Scope::Operate)?;
    }
    let id = id.parse().map_err(|_| unknown_template())?;
    let way = way.ok_or_else(|| {
        let detail = "The changes of a template's state are publish, pause, resume and end.";
        Problem::new(Code::NotFound, detail)
    })?;
    let if_match = IfMatch::of(headers)?;
    let accepted = request.accepted(way.to)?;
    let change = Change { id, way, halts, if_match, confirm: request.confirm, accepted };
    halt::carry_over_first(app, id).await?;
    let apply = || change.apply(app, operator, once);
    let answer = connect::within(connect::retried(apply, Problem::is_contended)).await?;
    // The current state, which may be newer than the answer to this request.
    let current = seen(app, operator, id).await?;
    app.templates.apply(current.clone());
    let informed = show_gate(app, &current).await?;
    Ok(informed.into_iter().fold(answer, |answer, is_so| answer.and(INFORMED, is_so)))
}

/// A template after a change of its state.
#[derive(Serialize, ToSchema)]
#[schema(as = ChangedTemplate, examples(template_json::example))]
struct ChangedTemplate {
    #[serde(flatten)]
    template: TemplateJson,
    /// Whether the gate knows of a pause or an end, which holds for queued claims from then on. If not, it will by itself.
    /// Absent for templates whose claims are not queued.
    #[schema(value_type = bool)]
    #[serde(skip_serializing_if = "Option::is_none")]
    gate_informed: Option<bool>,
}

/// A requested change of a template's state.
struct Change {
    id: TemplateId,
    way: Transition<TemplateState>,
    /// Whether it is one that may be made to another merchant's template.
    halts: bool,
    if_match: IfMatch,
    /// The template's name, as the operator typed it.
    confirm: Option<String>,
    /// What becomes of claims that were accepted before a pause or an end, if the operator says so.
    accepted: Option<AcceptedClaims>,
}

impl Change {
    async fn apply(&self, app: &App, operator: Operator, once: &Once) -> Result<Answer, Problem> {
        let Begun { mut transaction, known } = once.begin(app, operator).await?;
        if let Known::Answer(answer) = known {
            return Ok(answer);
        }
        let before = self.template(operator, &mut transaction).await?;
        // A repeated call whose answer was lost gets the same answer.
        let stands = before.state == self.way.to && self.if_match.admits(before.version - 1);
        if !stands {
            self.if_match.check(before.version)?;
        }
        let after = if before.state == self.way.to {
            self.choose_again(app, operator, &mut transaction, &before).await?;
            before
        } else {
            self.make(app, operator, &mut transaction, &before).await?
        };
        let template = TemplateJson::from(&after);
        let gate_informed = None;
        let body = ChangedTemplate { template, gate_informed };
        let answer = Answer::new(StatusCode::OK, &body);
        let answer = answer.of_version(after.version);
        once.end(operator, &mut transaction, &answer).await?;
        app.commit(transaction).await?;
        Ok(answer)
    }

    async fn make(
        &self,
        app: &App,
        operator: Operator,
        transaction: &mut MySqlConnection,
        before: &Template,
    ) -> Result<Template, Problem> {
        let now = app.clock.now();
        self.allowed(before, now)?;
        let next = self.way.to;
        let accepted = self.accepted.unwrap_or_default();
        if !template::change_state_with(transaction, before, next, accepted, now).await? {
            let current = self.template(operator, transaction).await?;
            if current.state == self.way.to {
                // An equal request was faster: begin again, and find what it did.
                return Err(Problem::overtaken());
            }
            self.if_match.check(current.version)?;
            return Err(changed_meanwhile(current.version));
        }
        let after = Template { state: self.way.to, version: before.version + 1, ..before.clone() };
        let [was, mut is] = [before, &after].map(|template| json!(TemplateJson::from(template)));
        if let Some(accepted) = self.accepted {
            is["accepted"] = json!(accepted.word());
        }
        let action = action(before, self.way.by, Some(was), is);
        audit::record(app, operator, transaction, action).await?;
        let from = before.state.word();
        let to = self.way.to.word();
        info!(template.id = %self.id, from, to, "changed a template");
        Ok(after)
    }

    /// The template is paused or ended already: only what becomes of accepted claims may change.
    async fn choose_again(
        &self,
        app: &App,
        operator: Operator,
        transaction: &mut MySqlConnection,
        before: &Template,
    ) -> Result<(), Problem> {
        let Some(accepted) = self.accepted else { return Ok(()) };
        if self.way.to == TemplateState::Ended {
            confirmed(&before.name, self.confirm.as_deref(), &self.if_match)?;
        }
        // Locked, because a resume in between would be undone: its template would be published and closed.
        let current = template::hold_version(transaction, self.id).await?;
        let current = current.ok_or_else(unknown_template)?;
        if current != before.version {
            return Err(changed_meanwhile(current));
        }
        stock::set_open(transaction, self.id, before.state, accepted).await?;
        let after = json!({ "accepted": accepted.word() });
        let action = action(before, self.way.by, None, after);
        audit::record(app, operator, transaction, action).await?;
        Ok(())
    }

    async fn template(
        &self,
        operator: Operator,
        connection: &mut MySqlConnection,
    ) -> Result<Template, Problem> {
        if self.halts {
            seen_on(connection, operator, self.id).await
        } else {
            owned_on(connection, operator, self.id).await
        }
    }

    /// Checks that the change is allowed.
    fn allowed(&self, before: &Template, now: DateTime<Utc>) -> Result<(), Problem> {
        if !self.way.from.contains(&before.state) {
            let state = before.state.word();
            let detail = format!("The template is {state}: it cannot {}.", self.way.by);
            let problem = Problem::new(Code::InvalidTransition, detail);
            return Err(problem.with("state", state));
        }
        if self.way.to == TemplateState::Published && before.validity.is_over(now) {
            let detail = "No coupon of it could be used any more: edit its validity first.";
            return Err(Problem::new(Code::ValidityOver, detail));
        }
        if self.way.to == TemplateState::Ended {
            confirmed(&before.name, self.confirm.as_deref(), &self.if_match)?;
        }
        Ok(())
    }
}
