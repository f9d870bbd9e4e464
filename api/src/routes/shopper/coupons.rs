//! "My coupons": list and get.

use axum::{Json, extract::State, response::Response};
use chrono::{DateTime, Utc};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use mysql_store::{
    connect,
    user_coupon::{self, UserCoupon},
    user_view::{self, End, ListPosition, Overdue},
};
use redis_view::{Cursor, MyCouponsError, PageRequest};
use serde::Deserialize;

use crate::{
    auth::User,
    code::Code,
    http::{
        cursor::{self, EndCursor, Page, Part},
        extract::{Params, PathId},
        schemas::{self, Id},
    },
    metrics::MY_COUPONS,
    mysql_view_source,
    problem::Problem,
    routes::bodies::coupon_json::{self, CouponJson, ShownCoupon, not_found},
    state::App,
};

#[derive(Deserialize)]
pub(crate) struct ListParams {
    status: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
    /// A coupon that the list must know, so that users see what they just claimed.
    after: Option<String>,
}

/// `GET /v1/me/coupons`
#[utoipa::path(
    get,
    path = "/v1/me/coupons",
    operation_id = "list_my_coupons",
    tag = "My coupons",
    summary = "List my coupons, the newest first; expired and lapsed ones by their end, the latest first",
    description = "A page may be short, even empty, and still have a next one: it leaves out coupons that ended a moment ago.",
    security(("token" = [])),
    params(
        ("status" = Option<schemas::CouponStatus>, Query, description = "`unused` if absent."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<schemas::Cursor>, Query, description = "Where the page begins; absent: at the newest."),
        ("after" = Option<Id>, Query, description = "A coupon that the list must know of, e.g. of the claim just made. Send it with each page.")
    ),
    responses((status = 200, description = "A page.", body = Page<ShownCoupon>)),
    extensions(("x-problems" = json!(
        "RATE_LIMITED INVALID_STATUS INVALID_LIMIT INVALID_CURSOR INVALID_AFTER OVERLOADED"
    )))
)]
pub(crate) async fn list(
    State(app): State<App>,
    User(user): User,
    Params(params): Params<ListParams>,
) -> Response {
    app.read_limit.limited(user, page(&app, user, &params)).await
}

async fn page(
    app: &App,
    user: UserId,
    params: &ListParams,
) -> Result<Json<Page<ShownCoupon>>, Problem> {
    let status = params.status.as_deref().unwrap_or("unused");
    let status = CouponStatus::from_word(status).ok_or_else(|| {
        Problem::new(
            Code::InvalidStatus,
            "Use a `status` of unused, used, expired, cancelled, held or lapsed.",
        )
    })?;
    let limit = cursor::limit(params.limit)?;
    let after = params
        .after
        .as_deref()
        .map(str::parse)
        .transpose()
        .map_err(|_| Problem::new(Code::InvalidAfter, "Use the id of a coupon in `after`."))?;
    let page = match status {
        CouponStatus::Unused => usable(app, user, params, after, limit).await,
        CouponStatus::Used | CouponStatus::Cancelled | CouponStatus::Held => {
            settled(app, user, status, params, limit).await
        }
        CouponStatus::Expired => overdue(app, user, Overdue::Expired, params, limit).await,
        CouponStatus::Lapsed => overdue(app, user, Overdue::Lapsed, params, limit).await,
    }?;
    let data = coupon_json::shown(&app.templates, page.data).await;
    Ok(Json(Page::new(data, page.next_cursor).without(page.unreadable)))
}

/// Coupons with the templates that they are of.
type Coupons = Page<(TemplateId, CouponJson)>;

/// Reads from the view or, if it cannot be trusted, from MySQL.
async fn usable(
    app: &App,
    user: UserId,
    params: &ListParams,
    after: Option<CouponId>,
    limit: u32,
) -> Result<Coupons, Problem> {
    let now = app.clock.now();
    let request = PageRequest {
        limit: limit as usize,
        cursor: cursor::parse(params.cursor.as_ref())?,
        after,
        now,
    };
    let read = app.view.my_coupons(user, &request).await;
    let page = read.map_err(|error| match error {
        MyCouponsError::Rows(error) => Problem::from(error),
        MyCouponsError::Unread => Problem::no_store(),
        MyCouponsError::Overloaded => {
            Problem::new(Code::Overloaded, "Too many lists are being read. Try again.")
        }
    })?;
    metrics::counter!(MY_COUPONS.name, "origin" => page.origin.word()).increment(1);
    let next = page.page.next.map(|cursor| cursor.to_string());
    let coupons = page.page.coupons.iter();
    let coupons = coupons.map(|coupon| (coupon.template_id, CouponJson::usable(coupon)));
    Ok(Page::new(coupons.collect(), next))
}

/// Reads coupons of the other statuses, latest claim first.
async fn settled(
    app: &App,
    user: UserId,
    status: CouponStatus,
    params: &ListParams,
    limit: u32,
) -> Result<Coupons, Problem> {
    let cursor: Option<Cursor> = cursor::parse(params.cursor.as_ref())?;
    let behind = cursor.map(mysql_view_source::list_position);
    // One extra row shows whether there is a next page.
    let now = app.clock.now();
    let rows = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        user_view::page(&mut connection, user, status, behind, limit + 1).await
    });
    let Part { rows, unreadable, next } = Part::of(rows.await?, limit, ListPosition::of);
    let next = next.map(|position| mysql_view_source::cursor(position).to_string());
    let ids = unreadable.iter().map(|position| position.id);
    Ok(ended(&rows, status, now, next).without(ids))
}

/// Reads coupons whose validity ended unused or whose hold ended unconfirmed, latest end first. They count from their end
/// on, whether or not their rows say so.
async fn overdue(
    app: &App,
    user: UserId,
    list: Overdue,
    params: &ListParams,
    limit: u32,
) -> Result<Coupons, Problem> {
    let cursor: Option<EndCursor> = cursor::parse(params.cursor.as_ref())?;
    let now = app.clock.now();
    let behind = cursor.map(|EndCursor(end)| end);
    let rows = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        user_view::overdue_page(&mut connection, user, list, behind, limit + 1, now).await
    });
    let Part { rows, unreadable, next } = Part::of(rows.await?, limit, End::of);
    let next = next.map(|end| EndCursor(end).to_string());
    let ids = unreadable.iter().map(|end| end.id);
    Ok(ended(&rows, list.status(), now, next).without(ids))
}

/// Makes a page of coupons. Rows that are of another status by now are left out.
fn ended(
    rows: &[UserCoupon],
    status: CouponStatus,
    now: DateTime<Utc>,
    next: Option<String>,
) -> Coupons {
    let shown = rows.iter().filter(|row| row.status.at(row.valid_until, now) == status);
    let coupons = shown.map(|row| (row.template_id, CouponJson::of(row, now)));
    Page::new(coupons.collect(), next)
}

/// `GET /v1/me/coupons/{id}`
#[utoipa::path(
    get,
    path = "/v1/me/coupons/{id}",
    operation_id = "get_my_coupon",
    tag = "My coupons",
    summary = "Get one of my coupons",
    security(("token" = [])),
    params(("id" = Id, Path, description = "The coupon.")),
    responses((status = 200, description = "The coupon.", body = ShownCoupon)),
    extensions(("x-problems" = json!("RATE_LIMITED COUPON_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    User(user): User,
    PathId(id): PathId<CouponId>,
) -> Response {
    app.read_limit.limited(user, one(&app, user, id)).await
}

async fn one(app: &App, user: UserId, id: CouponId) -> Result<Json<ShownCoupon>, Problem> {
    let mut connection = connect::acquire(&app.pool).await?;
    let coupon = user_coupon::get(&mut connection, user, id).await?.ok_or_else(not_found)?;
    // What is read next may need a connection of its own.
    drop(connection);
    let row = CouponJson::of(&coupon, app.clock.now());
    let shown = coupon_json::shown(&app.templates, vec![(coupon.template_id, row)]).await;
    shown.into_iter().next().map(Json).ok_or_else(not_found)
}
