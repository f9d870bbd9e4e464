//! Users who let holds lapse: `GET /v1/templates/{id}/users/{user}` shows how often, `…/ban/lift` resets the count, and
//! `GET /v1/templates/{id}/bans` lists who is refused for it.
//!
//! A lift is a movement of the template's stock, so it has its place among the lapses. The gate refuses and admits by
//! movements only.

use axum::{Json, extract::State, http::StatusCode};
use coupon::{Template, TemplateId, UserId};
use mysql_store::{
    connect,
    returns::{self, CountedLapses, LAPSES_MAX},
};
use serde::Serialize;
use serde_json::json;
use tracing::{info, warn};
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    http::{
        cursor::{self, Page, PageParams},
        extract::{Body, Params, PathId, PathTexts, unknown_id},
        schemas::{Cursor, Id, RequestId},
    },
    problem::{Problem, unknown_template},
    routes::{
        audit::{
            self, Action,
            idempotency::{Answer, Begun, Known, Once},
        },
        operators::{
            desk::changes::{ReasonRequest, valid_reason},
            templates::{self, target},
        },
    },
    state::App,
};

/// A user's lapses of a template.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = UserLapses, examples(json!({
    "template_id": "2123985067360387072", "user_id": "42", "lapses": 2, "lapses_allowed": 3, "banned": false
})))]
pub(crate) struct LapsesBody {
    #[schema(value_type = Id)]
    template_id: String,
    #[schema(value_type = Id)]
    user_id: String,
    /// Coupons that the user let lapse since a ban was last lifted. A claim of three counts three.
    #[schema(minimum = 0)]
    lapses: i64,
    /// As many as the template allows; 0: any number.
    lapses_allowed: u32,
    /// Whether the user's claims are refused with `BANNED`.
    banned: bool,
}

/// `GET /v1/templates/{id}/bans`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/bans",
    operation_id = "list_bans",
    tag = "Support",
    summary = "List users who are refused because they let too many holds lapse",
    description = "By user. A page may be short, even empty, and still have a next one: it looks at 10,000 users who let holds lapse.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the first.")
    ),
    responses((status = 200, description = "A page. Empty for a template that allows any number of lapses.", body = Page<LapsesBody>)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND INVALID_LIMIT INVALID_CURSOR")))
)]
pub(crate) async fn list(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<TemplateId>,
    Params(params): Params<PageParams>,
) -> Result<Json<Page<LapsesBody>>, Problem> {
    let limit = params.limit()?;
    let after: Option<UserId> = cursor::parse(params.cursor.as_ref())?;
    let template = templates::owned(&app, operator, id).await?;
    if template.hold.lapses_allowed == 0 {
        return Ok(Json(Page::new(Vec::new(), None)));
    }
    // No user's id is below 0.
    let after = after.unwrap_or(UserId(-1));
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        returns::lapses_after(&mut connection, id, after).await
    });
    Ok(Json(banned(&template, &read.await?, limit as usize, LAPSES_MAX as usize)))
}

/// Makes a page of those of the users read who are refused. Fewer than `most` were read: no others follow.
fn banned(
    template: &Template,
    read: &[CountedLapses],
    limit: usize,
    most: usize,
) -> Page<LapsesBody> {
    let of = |one: &CountedLapses| LapsesBody::of(template, one.user, one.count);
    let mut shown: Vec<LapsesBody> = read.iter().map(of).filter(|one| one.banned).collect();
    let last_read = read.last().filter(|_| read.len() >= most).map(|one| one.user.to_string());
    let is_cut = shown.len() > limit;
    shown.truncate(limit);
    let last_shown = shown.last().filter(|_| is_cut).map(|one| one.user_id.clone());
    Page::new(shown, last_shown.or(last_read))
}

/// `GET /v1/templates/{id}/users/{user}`
#[utoipa::path(
    get,
    path = "/v1/templates/{id}/users/{user}",
    operation_id = "get_user_lapses",
    tag = "Support",
    summary = "How often a user let holds lapse",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("user" = Id, Path, description = "The user.")
    ),
    responses((status = 200, description = "The user's lapses; 0 of a user who never had any.", body = LapsesBody)),
    extensions(("x-problems" = json!("TEMPLATE_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    path: PathTexts,
) -> Result<Json<LapsesBody>, Problem> {
    let (id, user) = ids(&path)?;
    let template = templates::owned(&app, operator, id).await?;
    let read = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        returns::lapses_of(&mut connection, id, user).await
    });
    let lapses = read.await?.map_or(0, |(count, _)| count);
    Ok(Json(LapsesBody::of(&template, user, lapses)))
}

/// `POST /v1/templates/{id}/users/{user}/ban/lift`
#[utoipa::path(
    post,
    path = "/v1/templates/{id}/users/{user}/ban/lift",
    operation_id = "lift_ban",
    tag = "Support",
    summary = "Let a user claim again who let too many holds lapse",
    description = "The lapses count from 0 again. The same call again is the same answer.",
    security(("operator_key" = [])),
    params(
        ("id" = Id, Path, description = "The template."),
        ("user" = Id, Path, description = "The user."),
        ("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request has the same answer.")
    ),
    request_body = ReasonRequest,
    responses((status = 200, description = "The user may claim.", body = LapsesBody)),
    extensions(("x-problems" = json!(
        "INVALID_CHANGE TEMPLATE_NOT_FOUND HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED"
    )))
)]
pub(crate) async fn lift(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    path: PathTexts,
    Body(request): Body<ReasonRequest>,
) -> Result<Answer, Problem> {
    valid_reason(&request.reason)?;
    let (id, user) = ids(&path)?;
    let template = templates::owned(&app, operator, id).await?;
    let once = once.asking(&request);
    let work = || try_lift(&app, operator, &once, &template, user, &request.reason);
    let answer = connect::within(connect::retried(work, Problem::is_contended)).await?;
    if let Err(error) = app.gates.catch_up(id).await {
        let error = runtime::report(&error);
        warn!(template.id = %id, error, "the gate will hear of a lift later");
    }
    Ok(answer)
}

async fn try_lift(
    app: &App,
    operator: Operator,
    once: &Once,
    template: &Template,
    user: UserId,
    reason: &str,
) -> Result<Answer, Problem> {
    let id = template.id;
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    if let Known::Answer(answer) = known {
        return Ok(answer);
    }
    let lapses = returns::lapses_of(&mut transaction, id, user).await?;
    let lapses = lapses.map_or(0, |(count, _)| count);
    if lapses > 0 {
        let actor = operator.actor();
        let now = app.clock.now();
        let seq = returns::lift(&mut transaction, id, user, reason, &actor, now).await?;
        let seq = seq.ok_or_else(unknown_template)?;
        let action = Action {
            merchant_id: operator.merchant_id,
            name: "ban.lift".to_owned(),
            target: target(id),
            before: Some(json!({ "user_id": user.to_string(), "lapses": lapses })),
            after: Some(json!({
                "user_id": user.to_string(), "lapses": 0, "seq": seq, "reason": reason,
            })),
        };
        audit::record(app, operator, &mut transaction, action).await?;
        info!(template.id = %id, seq, "lifting a ban");
    }
    let answer = Answer::new(StatusCode::OK, &LapsesBody::of(template, user, 0));
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    Ok(answer)
}

fn ids(PathTexts(id, user): &PathTexts) -> Result<(TemplateId, UserId), Problem> {
    let id = id.parse().map_err(|_| unknown_template())?;
    Ok((id, user.parse().map_err(|_| unknown_id())?))
}

impl LapsesBody {
    fn of(template: &Template, user: UserId, lapses: i64) -> Self {
        let allowed = template.hold.lapses_allowed;
        Self {
            template_id: template.id.to_string(),
            user_id: user.to_string(),
            lapses,
            lapses_allowed: allowed,
            banned: allowed > 0 && lapses >= i64::from(allowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::HoldTerms;

    use super::*;

    /// Users on a page of those who let two holds lapse, and where the next one begins. Of each user: id and lapses.
    fn page(read: &[(i64, i64)], limit: usize, most: usize) -> (Vec<String>, Option<String>) {
        let hold = HoldTerms { lapses_allowed: 2, ..HoldTerms::default() };
        let template = Template { hold, ..testkit::draft(TemplateId(7), DateTime::UNIX_EPOCH) };
        let counted =
            |one: &(i64, i64)| CountedLapses { user: UserId(one.0), count: one.1, seq: 1 };
        let read: Vec<CountedLapses> = read.iter().map(counted).collect();
        let page = banned(&template, &read, limit, most);
        (page.data.into_iter().map(|one| one.user_id).collect(), page.next_cursor)
    }

    #[test]
    fn a_page_goes_on_behind_the_last_user_that_it_shows_or_else_behind_the_last_that_was_read() {
        let read = [(1, 2), (2, 1), (3, 5), (4, 2), (5, 0)];
        let users = |all: &[&str]| all.iter().map(|&id| id.to_owned()).collect::<Vec<_>>();
        let next = |id: &str| Some(id.to_owned());
        assert_eq!(page(&read, 9, 9), (users(&["1", "3", "4"]), None));
        assert_eq!(page(&read, 3, 9), (users(&["1", "3", "4"]), None), "no other is banned");
        assert_eq!(page(&read, 2, 9), (users(&["1", "3"]), next("3")));
        assert_eq!(page(&read, 9, 5), (users(&["1", "3", "4"]), next("5")), "more may follow");
        assert_eq!(page(&read, 2, 5), (users(&["1", "3"]), next("3")));
        assert_eq!(
            page(&[(1, 0), (2, 1)], 9, 2),
            (users(&[]), next("2")),
            "empty, and not the last"
        );
        assert_eq!(page(&[], 9, 2), (users(&[]), None));
    }
}
