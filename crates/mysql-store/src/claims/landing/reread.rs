//! Rereads the stock, numbers and claims after a landing was rolled back.

use std::collections::{HashMap, HashSet};

use coupon::{
    Claim, ClaimId, ClaimRow, ClaimState, Epoch, FoundRows, Open, RequestId, StockRow, TemplateId,
    UserId,
};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::Landing;
use crate::{StoreError, code::Code, rows};

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
    let claims: Vec<&Claim> = landings.iter().map(|landing| &landing.admission.claim).collect();
    let claims = claim_rows(connection, &claims).await?;
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

/// A user's claims of a template.
pub(crate) type Owner = (TemplateId, UserId);

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
        let mut query = sqlx::query_as(AssertSqlSafe(rows::repeat(head, "?", ",", run.len(), ")")));
        for id in run {
            query = query.bind(*id);
        }
        let rows: Result<Vec<(i64, i64, i64, Code)>, _> = query.fetch_all(&mut *connection).await;
        for (id, stock, epoch, open) in rows.map_err(StoreError::query("reread the stock"))? {
            let open = Open::try_from(open)?.lands_direct();
            found.insert(TemplateId(id), StockRow { epoch: Epoch(epoch), open, stock });
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
            sqlx::query_as(AssertSqlSafe(rows::repeat(head, "(?,?,?)", ",", run.len(), ")")));
        for ((template, user), number) in run {
            query = query.bind(template.0).bind(user.0).bind(*number);
        }
        let rows: Result<Vec<(i64, i64, i64)>, _> = query.fetch_all(&mut *connection).await;
        for (template, user, number) in rows.map_err(StoreError::query("reread the numbers"))? {
            found.insert(((TemplateId(template), UserId(user)), number));
        }
    }
    Ok(found)
}

/// Returns the rows under the keys of these claims and under those of their fences.
pub(crate) async fn claim_rows(
    connection: &mut MySqlConnection,
    claims: &[&Claim],
) -> Result<HashMap<(Owner, RequestId), ClaimRow>, StoreError> {
    let wanted: Vec<(Owner, RequestId)> = claims
        .iter()
        .flat_map(|claim| {
            let owner = (claim.template_id, claim.user_id);
            [(owner, claim.request_id.clone()), (owner, RequestId::fence(claim.id))]
        })
        .collect();
    let mut found = HashMap::new();
    for run in rows::runs(&wanted) {
        let head = "select template_id, user_id, request_id, id, state from claim \
                    where (template_id, user_id, request_id) in (";
        let mut query =
            sqlx::query_as(AssertSqlSafe(rows::repeat(head, "(?,?,?)", ",", run.len(), ")")));
        for ((template, user), request) in run {
            query = query.bind(template.0).bind(user.0).bind(request.as_str().as_bytes());
        }
        let rows: Vec<(i64, i64, Vec<u8>, i64, Code)> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("reread the claims"))?;
        for (template, user, request, id, state) in rows {
            let key = ((TemplateId(template), UserId(user)), RequestId::from_stored(&request));
            found.insert(key, ClaimRow { id: ClaimId(id), state: state.try_into()? });
        }
    }
    Ok(found)
}
