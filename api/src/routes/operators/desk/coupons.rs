//! Looking up coupons: `GET /v1/coupons/{id}` and `GET /v1/coupons`.

use std::{fmt, str::FromStr};

use axum::{Json, extract::State};
use coupon::{CouponId, CouponStatus, TemplateId, UserId};
use mysql_store::{
    Listed, checkout, connect, desk,
    search::{self, Along, Position, ROWS_MAX},
    user_coupon::UserCoupon,
};
use serde::Deserialize;

use super::coupon_body::{DeskCoupon, InFull};
use crate::{
    auth::Operator,
    code::Code,
    http::{
        cursor::{self, NoCursor, Page},
        extract::{Params, PathId},
        schemas::{self, Cursor, Id},
    },
    problem::Problem,
    routes::{bodies::coupon_json, operators::templates, shop::redemption},
    state::App,
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filter {
    order_ref: Option<String>,
    user_id: Option<UserId>,
    template_id: Option<TemplateId>,
    status: Option<String>,
    limit: Option<u32>,
    cursor: Option<String>,
}

/// A position as clients see it: `user.number.coupon`.
struct PositionCursor(Position);

impl fmt::Display for PositionCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { user, number, id } = self.0;
        write!(f, "{user}.{number}.{id}")
    }
}

impl FromStr for PositionCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let mut parts = text.split('.');
        let mut part = || parts.next().and_then(|part| part.parse::<UserId>().ok());
        let (Some(user), Some(number), Some(id)) = (part(), part(), part()) else {
            return Err(NoCursor);
        };
        let cursor = Self(Position { user, number: number.0, id: CouponId(id.0) });
        // Accept only the form that we write.
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
    }
}

/// `GET /v1/coupons/{id}`
#[utoipa::path(
    get,
    path = "/v1/coupons/{id}",
    operation_id = "get_coupon",
    tag = "Support",
    summary = "Look up a coupon",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The coupon, of a template of one's own.")),
    responses((status = 200, description = "The coupon, whatever became of it.", body = InFull)),
    extensions(("x-problems" = json!("COUPON_NOT_FOUND")))
)]
pub(crate) async fn get(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<CouponId>,
) -> Result<Json<InFull>, Problem> {
    let read = async {
        let mut connection = connect::acquire(&app.pool).await?;
        let coupon = desk::get(&mut connection, operator.merchant_id, id).await?;
        let Some(coupon) = coupon else { return Err(coupon_json::not_found()) };
        let replaces = desk::replaced_by(&mut connection, id).await?;
        let replaced_by = desk::replacement_of(&mut connection, id).await?.map(|other| other.id);
        let lock = checkout::lock_in_force(&mut connection, id).await?;
        let coupon = DeskCoupon::of(&coupon, app.clock.now()).locked(lock);
        Ok(InFull::of(coupon, replaces, replaced_by))
    };
    connect::within(read).await.map(Json)
}

/// `GET /v1/coupons`
#[utoipa::path(
    get,
    path = "/v1/coupons",
    operation_id = "find_coupons",
    tag = "Support",
    summary = "Find coupons by order, user or template",
    description = "At least one of `order_ref`, `user_id` and `template_id`; a coupon must fit all that are given. A page \
                   may be short, even empty, and still have a next one: a page looks at 1,000 coupons at most. \
                   Those of a template come by user; else the newest come first.",
    security(("operator_key" = [])),
    params(
        ("order_ref" = Option<String>, Query, description = "The order that uses the coupon, or was the last to give it back."),
        ("user_id" = Option<Id>, Query, description = "The user."),
        ("template_id" = Option<Id>, Query, description = "The template."),
        ("status" = Option<schemas::CouponStatus>, Query, description = "Its status now."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 100, description = "How many, at most; 20 if absent."),
        ("cursor" = Option<Cursor>, Query, description = "Where the page begins; absent: at the beginning.")
    ),
    responses((status = 200, description = "A page: of a template by user, else the newest first.", body = Page<DeskCoupon>)),
    extensions(("x-problems" = json!(
        "INVALID_SEARCH INVALID_STATUS INVALID_LIMIT INVALID_CURSOR INVALID_ORDER_REF TEMPLATE_NOT_FOUND"
    )))
)]
pub(crate) async fn find(
    State(app): State<App>,
    operator: Operator,
    Params(filter): Params<Filter>,
) -> Result<Json<Page<DeskCoupon>>, Problem> {
    let limit = cursor::limit(filter.limit)?;
    let status = filter.status()?;
    let behind: Option<PositionCursor> = cursor::parse(filter.cursor.as_ref())?;
    let along = filter.along()?;
    if let Along::Template(template, _) = along {
        // Another merchant's template would be read to its end without showing a row.
        templates::owned(&app, operator, template).await?;
    }
    // If every row fits, one extra row shows whether there is a next page.
    let most = if filter.fits_all(along, status) { limit + 1 } else { ROWS_MAX };
    let rows = connect::within(async {
        let mut connection = connect::acquire(&app.pool).await?;
        let behind = behind.map(|cursor| cursor.0);
        search::page(&mut connection, operator.merchant_id, along, behind, most).await
    });
    let rows = rows.await?;
    let now = app.clock.now();
    let fits = |row: &UserCoupon| {
        filter.fits(row)
            && status.is_none_or(|status| row.status.at(row.valid_until, now) == status)
    };
    let mut shown = Vec::new();
    let mut unreadable = Vec::new();
    let mut last = None;
    let is_cut = rows.len() == most as usize;
    for row in &rows {
        if shown.len() == limit as usize {
            // There is at least this row to look at.
            let next = last.map(|last| PositionCursor(last).to_string());
            return Ok(Json(Page::new(shown, next).without(unreadable)));
        }
        match row {
            Listed::Row(row) if fits(row) => shown.push(DeskCoupon::of(row, now)),
            Listed::Row(_) => {}
            Listed::Unreadable(position) => unreadable.push(position.id),
        }
        last = Some(row.position(Position::of));
    }
    let next = last.filter(|_| is_cut).map(|last| PositionCursor(last).to_string());
    Ok(Json(Page::new(shown, next).without(unreadable)))
}

impl Filter {
    fn status(&self) -> Result<Option<CouponStatus>, Problem> {
        let Some(word) = &self.status else { return Ok(None) };
        CouponStatus::from_word(word).map(Some).ok_or_else(|| {
            let detail = "Use a `status` of unused, used, expired, cancelled, held or lapsed.";
            Problem::new(Code::InvalidStatus, detail)
        })
    }

    /// Returns the index to follow: the one that leads to the fewest coupons.
    fn along(&self) -> Result<Along<'_>, Problem> {
        match (&self.order_ref, self.template_id, self.user_id) {
            (Some(order), _, _) => redemption::order_ref(order).map(Along::Order),
            (None, Some(template), user) => Ok(Along::Template(template, user)),
            (None, None, Some(user)) => Ok(Along::User(user)),
            (None, None, None) => {
                let detail = "Name at least one of `order_ref`, `user_id` and `template_id`.";
                Err(Problem::new(Code::InvalidSearch, detail))
            }
        }
    }

    /// Whether each row along the index fits.
    fn fits_all(&self, along: Along<'_>, status: Option<CouponStatus>) -> bool {
        let others = match along {
            Along::Order(_) => self.user_id.is_some() || self.template_id.is_some(),
            Along::User(_) | Along::Template(..) => false,
        };
        !others && status.is_none()
    }

    fn fits(&self, row: &UserCoupon) -> bool {
        self.user_id.is_none_or(|user| row.user_id == user)
            && self.template_id.is_none_or(|template| row.template_id == template)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_no_other_text_is_one() {
        let position = Position { user: UserId(7), number: 2, id: CouponId(40) };
        let text = PositionCursor(position).to_string();
        assert_eq!(text, "7.2.40");
        let read: PositionCursor = text.parse().unwrap();
        assert_eq!(read.0, position);
        for wrong in ["", "7", "7.2", "7.2.40.1", "07.2.40", "7.-2.40", "a.b.c"] {
            assert!(wrong.parse::<PositionCursor>().is_err(), "{wrong:?}");
        }
    }
}
