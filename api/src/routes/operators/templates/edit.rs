//! `PATCH /v1/templates/{id}`: edits a template.
//!
//! `coupon::TemplateField` defines what may be edited in which state. A new validity or window applies exactly from the
//! answer on: MySQL lets no claim land under the old one after it. Issued coupons keep their validity unless they are
//! to follow ([`crate::routes::operators::templates::validity`]).

use axum::{extract::State, http::HeaderMap};
use coupon::{HoldTerms, NotEditable, Template, TemplateField, TemplateId, TemplateState, Window};
use mysql_store::{
    connect,
    template_edit::{self, Edited},
};
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, json};
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        etag::{IfMatch, Tagged},
        extract::{Body, PathId},
        instant::RequestInstant,
        schemas::{self, Id},
    },
    problem::Problem,
    routes::{
        audit::{self, Action},
        bodies::{
            discount_json::DiscountJson,
            template_json::{self, TemplateJson},
        },
        operators::templates::{
            changed_meanwhile,
            expected::Expected,
            gate_news::{show_mode, show_window},
            owned, target,
            validity::{self, IssuedBody},
        },
    },
    state::App,
};

/// Request to edit a template: the fields to change.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TemplateEdit, examples(json!({ "version": 2, "valid_for_ms": 1209600000 })))]
pub(crate) struct EditRequest {
    /// The template's version that the operator has seen. `If-Match` means the same.
    version: Option<i64>,
    #[schema(min_length = 1, max_length = 200, pattern = "\\S")]
    name: Option<String>,
    discount: Option<DiscountJson>,
    #[schema(minimum = 0, maximum = 100)]
    per_user_limit: Option<u32>,
    #[schema(minimum = 1, maximum = 100)]
    max_per_claim: Option<u32>,
    claim_starts_at: Option<RequestInstant>,
    claim_ends_at: Option<RequestInstant>,
    valid_from: Option<RequestInstant>,
    valid_until: Option<RequestInstant>,
    #[schema(minimum = 1, maximum = 315360000000i64)]
    valid_for_ms: Option<i64>,
    self_redeem: Option<bool>,
    stackable: Option<bool>,
    /// For claims from the answer on. Those that were accepted before land behind their queue.
    #[schema(value_type = Option<schemas::ClaimMode>)]
    claim_mode: Option<String>,
    #[schema(value_type = Option<schemas::AcceptAfter>)]
    accept_after: Option<String>,
    #[schema(minimum = 0, maximum = 2592000000i64)]
    hold_ms: Option<i64>,
    #[schema(minimum = 0, maximum = 100)]
    lapses_allowed: Option<u32>,
    #[schema(value_type = Option<schemas::ReturnedStock>)]
    returned_stock: Option<String>,
    issued_coupons: Option<IssuedCoupons>,
    /// Accepted only to say how it is changed instead.
    #[schema(ignore)]
    total_stock: Option<IgnoredAny>,
}

/// What happens to coupons that were issued before a change of the validity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = KeepOrFollow)]
enum IssuedCoupons {
    /// They keep their validity.
    Keep,
    /// They take the new validity.
    Follow,
}

/// The edited template, and what happens to its issued coupons.
#[derive(Serialize, ToSchema)]
#[schema(as = EditedTemplate, examples(example))]
pub(crate) struct EditedBody {
    #[serde(flatten)]
    template: TemplateJson,
    /// Present if the request names a validity.
    #[schema(value_type = IssuedBody)]
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_coupons: Option<IssuedBody>,
}

/// Example of a template after an edit of its validity, for the OpenAPI document.
fn example() -> Value {
    let mut edited = template_json::example();
    edited["issued_coupons"] = json!({
        "follow": true, "count": 127, "progress": "/v1/templates/2123985067360387072/validity-move",
    });
    edited
}

/// `PATCH /v1/templates/{id}`
#[utoipa::path(
    patch,
    path = "/v1/templates/{id}",
    operation_id = "edit_template",
    tag = "Templates",
    summary = "Edit a template",
    description = "What may be edited depends on its state: `FIELD_NOT_EDITABLE` names the states.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("If-Match" = Option<schemas::IfMatch>, Header, description = "The `ETag` of the template that the operator has seen; or send its `version`.")
    ),
    request_body = EditRequest,
    responses(
        (status = 200, description = "The template after its edit. The same call again is the same answer.", body = EditedBody,
            headers(("ETag" = String, description = "Its version.")))
    ),
    extensions(("x-problems" = json!(
        "TEMPLATE_NOT_FOUND INVALID_TEMPLATE IF_MATCH_INVALID PRECONDITION_REQUIRED PRECONDITION_FAILED \
         FIELD_NOT_EDITABLE CHANGED_MEANWHILE MOVE_UNDER_WAY QUOTA_EXCEEDED HOURLY_QUOTA_EXCEEDED GATE_LOADING OVERLOADED"
    )))
)]
pub(crate) async fn edit(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    headers: HeaderMap,
    Body(request): Body<EditRequest>,
) -> Result<Tagged<EditedBody>, Problem> {
    let expected = Expected { version: request.version, if_match: IfMatch::of(&headers)? };
    let before = owned(&app, operator, id).await?;
    let wanted = request.applied_to(&before)?;
    expected.is_said()?;
    let follow = request.issued_coupons == Some(IssuedCoupons::Follow);
    if !stands(&app, &request, &before, &expected).await? {
        expected.check(before.version)?;
        allowed(&app, &before, &wanted)?;
        let edited = apply(&app, operator, &before, &wanted, follow).await?;
        if edited == Edited::Meanwhile {
            // Perhaps by an equal request.
            let current = owned(&app, operator, id).await?;
            if !stands(&app, &request, &current, &expected).await? {
                expected.check(current.version)?;
                return Err(changed_meanwhile(current.version));
            }
        }
    }
    let after = owned(&app, operator, id).await?;
    if after.state != TemplateState::Draft {
        app.templates.apply(after.clone());
    }
    if request.claim_starts_at.is_some() || request.claim_ends_at.is_some() {
        show_window(&app, &after).await?;
    }
    // A window that is sent as it is loads no gate anew.
    if request.claim_mode.is_some() {
        show_mode(&app, &after).await?;
    }
    let issued_coupons = if request.names_validity() {
        Some(validity::issued(&app, id, after.version).await?)
    } else {
        None
    };
    let version = after.version;
    Ok(Tagged {
        version,
        body: EditedBody { template: TemplateJson::from(&after), issued_coupons },
    })
}

/// Returns whether the template already is as requested.
async fn stands(
    app: &App,
    request: &EditRequest,
    present: &Template,
    expected: &Expected,
) -> Result<bool, Problem> {
    let follow = request.issued_coupons == Some(IssuedCoupons::Follow);
    let follow = request.names_validity().then_some(follow);
    let wanted = request.applied_to(present)?;
    Ok(present.differences(&wanted).is_empty()
        && is_answered(app, present, expected, follow).await?)
}

/// Returns whether a template that is as requested was so, or became so by the same call, whose answer was lost. `follow`
/// is set for an edit of the validity: a call that makes coupons follow counts as answered only if exactly that version
/// made them.
async fn is_answered(
    app: &App,
    before: &Template,
    expected: &Expected,
    follow: Option<bool>,
) -> Result<bool, Problem> {
    let version = before.version;
    let again = expected.names(version - 1);
    if !again && !expected.admits(version) {
        return Ok(false);
    }
    let Some(follow) = follow else { return Ok(true) };
    if again {
        let followed = validity::move_of(app, before.id, version).await?.is_some();
        return Ok(followed == follow);
    }
    Ok(!follow)
}

/// Checks that the edit is allowed in the template's state, and results in an acceptable template.
fn allowed(app: &App, before: &Template, wanted: &Template) -> Result<(), Problem> {
    before.may_be_edited_to(wanted).map_err(not_editable)?;
    let now = app.clock.now();
    if before.moves_a_start_that_has_come(wanted, now) {
        return Err(has_opened(before.state));
    }
    template_json::validate(wanted)?;
    before.check_start(wanted, now).map_err(template_json::not_acceptable)?;
    before.check_end(wanted, now).map_err(template_json::not_acceptable)
}

async fn apply(
    app: &App,
    operator: Operator,
    before: &Template,
    wanted: &Template,
    follow: bool,
) -> Result<Edited, Problem> {
    let now = app.clock.now();
    let mut after =
        json!(TemplateJson::from(&Template { version: before.version + 1, ..wanted.clone() }));
    if follow {
        after["issued_coupons"] = json!("follow");
    }
    let action = Action {
        merchant_id: before.merchant_id,
        name: "template.edit".to_owned(),
        target: target(before.id),
        before: Some(json!(TemplateJson::from(before))),
        after: Some(after),
    };
    let edit = || async {
        let mut transaction = connect::begin(&app.pool).await?;
        if before.window.ends_at <= now && wanted.window.ends_at > now {
            app.quotas.one_more_open_template(&mut transaction, operator, now).await?;
        }
        let edited = template_edit::edit(&mut transaction, before, wanted, follow, now).await?;
        if edited == Edited::Done {
            // The edit may have waited for others. From here on no claim lands before it ends.
            if before.moves_a_start_that_has_come(wanted, app.clock.now()) {
                return Err(has_opened(before.state));
            }
            audit::record(app, operator, &mut transaction, action.clone()).await?;
            app.commit(transaction).await?;
        }
        Ok::<_, Problem>(edited)
    };
    match connect::within(connect::retried(edit, Problem::is_contended)).await? {
        Edited::Done => {
            info!(template.id = %before.id, follow, "edited a template");
            Ok(Edited::Done)
        }
        Edited::Meanwhile => Ok(Edited::Meanwhile),
        Edited::MoveUnderWay => {
            let detail = "Issued coupons are being moved to an earlier change's validity. Wait until \
                          they are, or let them follow this change too.";
            Err(Problem::new(Code::MoveUnderWay, detail)
                .with("progress", validity::progress_url(before.id)))
        }
    }
}

/// Users have claimed since the window opened, so its start is fixed.
fn has_opened(state: TemplateState) -> Problem {
    let field = TemplateField::ClaimStartsAt.word();
    let detail = format!("{field}: the window has opened, so its start stays.");
    Problem::new(Code::FieldNotEditable, detail)
        .with("field", field)
        .with("state", state.word())
        .with("editable_in", vec![TemplateState::Draft.word()])
}

fn not_editable(error: NotEditable) -> Problem {
    let states = error.field.states().map(TemplateState::word).collect();
    not_editable_in(error.field.word(), error.state, states)
}

fn not_editable_in(field: &str, state: TemplateState, states: Vec<&str>) -> Problem {
    let detail = match states.as_slice() {
        [] => format!("{field}: it is changed by stock movements, in every state."),
        states => {
            format!(
                "{field}: the template is {}; edit it while {}.",
                state.word(),
                states.join(" or ")
            )
        }
    };
    Problem::new(Code::FieldNotEditable, detail)
        .with("field", field)
        .with("state", state.word())
        .with("editable_in", states)
}

impl EditRequest {
    fn names_validity(&self) -> bool {
        self.valid_from.is_some() || self.valid_until.is_some() || self.valid_for_ms.is_some()
    }

    fn is_empty(&self) -> bool {
        !self.names_validity()
            && self.name.is_none()
            && self.discount.is_none()
            && self.per_user_limit.is_none()
            && self.max_per_claim.is_none()
            && self.claim_starts_at.is_none()
            && self.claim_ends_at.is_none()
            && self.self_redeem.is_none()
            && self.stackable.is_none()
            && self.claim_mode.is_none()
            && self.accept_after.is_none()
            && self.hold_ms.is_none()
            && self.lapses_allowed.is_none()
            && self.returned_stock.is_none()
    }

    /// Returns the template with the requested changes.
    fn applied_to(&self, before: &Template) -> Result<Template, Problem> {
        if self.total_stock.is_some() {
            return Err(not_editable_in("total_stock", before.state, Vec::new()));
        }
        if self.issued_coupons.is_some() && !self.names_validity() {
            let problem = "it goes with a validity".to_owned();
            return Err(template_json::invalid("issued_coupons", problem));
        }
        if self.is_empty() {
            let problem = "name at least one field to be edited".to_owned();
            return Err(template_json::invalid("body", problem));
        }
        let was = before.clone();
        let window = Window {
            starts_at: self.claim_starts_at.map_or(was.window.starts_at, |at| at.0),
            ends_at: self.claim_ends_at.map_or(was.window.ends_at, |at| at.0),
        };
        let validity = if self.names_validity() {
            template_json::validity(self.valid_from, self.valid_until, self.valid_for_ms)?
        } else {
            was.validity
        };
        let discount = self.discount.as_ref().map(DiscountJson::read).transpose()?;
        let claim_mode = template_json::claim_mode(self.claim_mode.as_deref())?;
        let accept_after = template_json::accept_after(self.accept_after.as_deref())?;
        let returned_stock = template_json::returned_stock(self.returned_stock.as_deref())?;
        let hold = HoldTerms {
            hold: self.hold_ms.map_or(Ok(was.hold.hold), template_json::hold)?,
            lapses_allowed: self.lapses_allowed.unwrap_or(was.hold.lapses_allowed),
            returned_stock: returned_stock.unwrap_or(was.hold.returned_stock),
        };
        Ok(Template {
            name: self.name.clone().unwrap_or(was.name),
            discount: discount.unwrap_or(was.discount),
            per_user_limit: self.per_user_limit.unwrap_or(was.per_user_limit),
            max_per_claim: self.max_per_claim.unwrap_or(was.max_per_claim),
            window,
            validity,
            self_redeem: self.self_redeem.unwrap_or(was.self_redeem),
            stackable: self.stackable.unwrap_or(was.stackable),
            claim_mode: claim_mode.unwrap_or(was.claim_mode),
            accept_after: accept_after.unwrap_or(was.accept_after),
            hold,
            ..was
        })
    }
}
