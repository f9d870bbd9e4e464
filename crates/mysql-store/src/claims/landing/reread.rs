//! Rereads the stock, numbers and claims after a landing was rolled back.

use std::collections::{HashMap, HashSet};

use coupon::{ClaimRow, ClaimState, FoundRows, RequestId, StockRow, TemplateId, UserId};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::Landing;
use crate::{StoreError, claims::claim, rows, templates::stock};

/// Returns the rows found for each of `landings`, in order.
///
/// Under READ COMMITTED each statement sees its own moment, so the claim rows are read last: a claim that landed
/// meanwhile is then visible, and the stale rows read before it do not matter.
///
/// # Errors
/// A statement fails.
pub async fn reread(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<Vec<FoundRows>, StoreError> {
    let stocks = stock_rows(connection, landings).await?;
    let numbers = taken_numbers(connection, landings).await?;
    let claims = claim_rows(connection, landings).await?;
    let found = landings.iter().map(|landing| {
        let claim = &landing.admission.claim;
        let owner = (claim.template_id, claim.user_id);
        let fence = RequestId::fence(claim.id);
        FoundRows {
            by_key: claims.get(&(owner, claim.request_id.clone())).copied(),
            fenced: claims.get(&(owner, fence)).is_some_and(|row| row.state == ClaimState::Void),
            number_taken: landing
                .landed
                .coupons
                .iter()
                .any(|coupon| numbers.contains(&(owner, coupon.claim_no))),
            stock: stocks.get(&claim.template_id).copied(),
        }
    });
    Ok(found.collect())
}

type Owner = (TemplateId, UserId);

async fn stock_rows(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<HashMap<TemplateId, StockRow>, StoreError> {
    let mut ids: Vec<i64> =
        landings.iter().map(|landing| landing.admission.claim.template_id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut found = HashMap::new();
    for run in rows::runs(&ids) {
        let head =
            "select template_id, stock, epoch, open from template_stock where template_id in (";
        let mut query = sqlx::query(AssertSqlSafe(rows::repeat(head, "?", ",", run.len(), ")")));
        for id in run {
            query = query.bind(*id);
        }
        let rows = query.fetch_all(&mut *connection).await;
        for row in rows.map_err(StoreError::query("reread the stock"))? {
            let (template, stock) =
                stock::row_of(&row).map_err(StoreError::query("reread the stock"))?;
            found.insert(template, stock);
        }
    }
    Ok(found)
}

async fn taken_numbers(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<HashSet<(Owner, i64)>, StoreError> {
    let wanted: Vec<(Owner, i64)> = landings
        .iter()
        .flat_map(|landing| {
            let owner = (landing.landed.template_id, landing.landed.user_id);
            landing.landed.coupons.iter().map(move |coupon| (owner, coupon.claim_no))
        })
        .collect();
    let mut found = HashSet::new();
    for run in rows::runs(&wanted) {
        let head = "select template_id, user_id, claim_no from user_coupon \
                    where (template_id, user_id, claim_no) in (";
        let mut query =
            sqlx::query(AssertSqlSafe(rows::repeat(head, "(?,?,?)", ",", run.len(), ")")));
        for ((template, user), number) in run {
            query = query.bind(template.0).bind(user.0).bind(*number);
        }
        let rows = query.fetch_all(&mut *connection).await;
        for row in rows.map_err(StoreError::query("reread the numbers"))? {
            let read = || -> Result<_, sqlx::Error> {
                Ok(((TemplateId(row.try_get(0)?), UserId(row.try_get(1)?)), row.try_get(2)?))
            };
            found.insert(read().map_err(StoreError::query("reread the numbers"))?);
        }
    }
    Ok(found)
}

async fn claim_rows(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<HashMap<(Owner, RequestId), ClaimRow>, StoreError> {
    let wanted: Vec<(Owner, RequestId)> = landings
        .iter()
        .flat_map(|landing| {
            let claim = &landing.admission.claim;
            let owner = (claim.template_id, claim.user_id);
            [(owner, claim.request_id.clone()), (owner, RequestId::fence(claim.id))]
        })
        .collect();
    let mut found = HashMap::new();
    for run in rows::runs(&wanted) {
        let head = "select template_id, user_id, request_id, id, state from claim \
                    where (template_id, user_id, request_id) in (";
        let mut query =
            sqlx::query(AssertSqlSafe(rows::repeat(head, "(?,?,?)", ",", run.len(), ")")));
        for ((template, user), request) in run {
            query = query.bind(template.0).bind(user.0).bind(request.as_str().as_bytes());
        }
        let rows = query.fetch_all(&mut *connection).await;
        for row in rows.map_err(StoreError::query("reread the claims"))? {
            let read = || -> Result<_, sqlx::Error> {
                let owner = (TemplateId(row.try_get(0)?), UserId(row.try_get(1)?));
                Ok((owner, RequestId::from_stored(row.try_get(2)?)))
            };
            let key = read().map_err(StoreError::query("reread the claims"))?;
            found.insert(key, claim::row_of(&row)?);
        }
    }
    Ok(found)
}
