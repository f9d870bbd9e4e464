//! Sums over a template's redemptions, piece by piece: a template may have more of them than one statement can add up
//! while a client waits.

use coupon::{RedemptionId, TemplateId};
use sqlx::{FromRow, MySqlConnection};

use crate::{
    StoreError,
    coupons::redemption::{REDEEM, USER},
};

/// Rows of a piece: a tenth of a second, since each reads the other coupons of its order.
pub const PIECE: u32 = 2_000;

/// Sums over a template's redemptions that stand. Money is in minor units; redemptions without money count as 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of redemptions.
    pub redeemed: i64,
    /// What the template's coupons took off.
    pub discount: i64,
    /// What was left to pay of the orders that redeemed its coupons, each order once.
    pub revenue: i64,
}

#[derive(FromRow)]
struct Piece {
    looked_at: i64,
    last: Option<i64>,
    redeemed: i64,
    discount: i64,
    revenue: i64,
}

/// Adds the next `rows_max` redemptions of a template, normally [`PIECE`], to `totals`. Begins behind `after`; returns
/// where it stopped, or `None` at the end.
pub async fn add_piece(
    connection: &mut MySqlConnection,
    template: TemplateId,
    after: Option<RedemptionId>,
    rows_max: u32,
    totals: &mut Totals,
) -> Result<Option<RedemptionId>, StoreError> {
    let piece: Piece = sqlx::query_as(PIECE_SQL)
        .bind(REDEEM)
        .bind(REDEEM)
        .bind(USER)
        .bind(template.0)
        .bind(REDEEM)
        .bind(after.map_or(i64::MIN, |after| after.0))
        .bind(rows_max)
        .fetch_one(connection)
        .await
        .map_err(StoreError::query("sum up a template's redemptions"))?;
    totals.redeemed += piece.redeemed;
    totals.discount += piece.discount;
    totals.revenue += piece.revenue;
    Ok(piece.last.filter(|_| piece.looked_at == i64::from(rows_max)).map(RedemptionId))
}

/// An order's revenue counts with the first of its redemptions of this template that stands, wherever pieces are cut. Only
/// a redemption with money reads the rest of its order, and such an order has few: single uses of many users under one
/// name have no money.
const PIECE_SQL: &str = "\
    select count(*) as looked_at, cast(max(piece.id) as signed) as last, \
     cast(coalesce(sum(piece.stands), 0) as signed) as redeemed, \
     cast(coalesce(sum(if(piece.stands, piece.discount, 0)), 0) as signed) as discount, \
     cast(coalesce(sum(if(piece.stands and piece.amount is not null and not exists ( \
       select 1 from redemption other left join redemption undone on undone.undoes = other.id \
       where other.merchant_id = piece.merchant_id and other.order_ref = piece.order_ref \
       and other.template_id = piece.template_id and other.kind = ? and other.id < piece.id \
       and other.amount is not null and undone.id is null), \
      piece.amount - coalesce((select sum(beside.discount) from redemption beside \
       left join redemption undone on undone.undoes = beside.id \
       where beside.merchant_id = piece.merchant_id and beside.order_ref = piece.order_ref \
       and beside.kind = ? and beside.actor <> ? and undone.id is null), 0), 0)), 0) as signed) as revenue \
    from (select made.id, made.merchant_id, made.order_ref, made.template_id, made.amount, made.discount, \
      undone.id is null as stands \
      from redemption made left join redemption undone on undone.undoes = made.id \
      where made.template_id = ? and made.kind = ? and made.id > ? order by made.id limit ?) piece";
