//! Rereads the templates, numbers and claims after a landing was rolled back.

use std::collections::HashMap;

use coupon::{
    ClaimId, ClaimRow, ClaimState, Epoch, FoundRows, LandingMode, Open, RequestId, StockRow,
    TemplateId, TemplateState, UserId, limit,
};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::Landing;
use crate::{StoreError, claims::fence, code::Code, rows};

/// Returns the rows found for each of `landings`, in order. Those of queued claims are read after lifting the foreign
/// fences of their ids.
///
/// Under READ COMMITTED each statement sees its own moment, so the claim rows are read last: a claim that landed
/// meanwhile is then visible, and the stale rows read before it do not matter.
///
/// # Errors
/// A statement fails, or a row cannot be read.
pub async fn reread(
    connection: &mut MySqlConnection,
    mode: LandingMode,
    landings: &[Landing],
) -> Result<Vec<FoundRows>, StoreError> {
    if mode == LandingMode::Queued {
        let own: Vec<_> =
            landings.iter().map(|one| (one.claim().id, one.claim().template_id)).collect();
        fence::lift_foreign(connection, &own).await?;
    }
    let templates = templates(connection, landings).await?;
    let numbers = taken_numbers(connection, landings).await?;
    let claims = claim_rows(connection, landings).await?;
    let found = landings.iter().map(|landing| {
        let claim = landing.claim();
        let owner = owner(landing);
        let fence = RequestId::fence(claim.id);
        let template = templates.get(&claim.template_id);
        FoundRows {
            by_key: claims.get(&(owner, claim.request_id.clone())).copied(),
            fenced: claims.get(&(owner, fence)).is_some_and(|row| row.state == ClaimState::Void),
            taken: numbers.get(&owner).cloned().unwrap_or_default(),
            limit: template.map_or(0, |template| template.limit),
            stock: template.map(|template| template.stock),
            // Not read without a stock row.
            template_state: template.map_or(TemplateState::Ended, |template| template.state),
        }
    });
    Ok(found.collect())
}

/// A user's claims of a template.
type Owner = (TemplateId, UserId);

fn owner(landing: &Landing) -> Owner {
    let claim = landing.claim();
    (claim.template_id, claim.user_id)
}

/// A template and its stock row, of one moment.
struct TemplateFacts {
    state: TemplateState,
    limit: u32,
    stock: StockRow,
}

async fn templates(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<HashMap<TemplateId, TemplateFacts>, StoreError> {
    let mut ids: Vec<i64> = landings.iter().map(|landing| landing.claim().template_id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let mut found = HashMap::new();
    for run in rows::runs(&ids) {
        let head = "select stock.template_id, stock.stock, stock.epoch, stock.queued_epoch, \
                    stock.open, template.state, template.per_user_limit from template_stock stock \
                    join coupon_template template on template.id = stock.template_id \
                    where stock.template_id in (";
        let mut query = sqlx::query_as(AssertSqlSafe(rows::repeat(head, "?", ",", run.len(), ")")));
        for id in run {
            query = query.bind(*id);
        }
        let rows: Vec<(i64, i64, i64, i64, Code, Code, i32)> = query
            .fetch_all(&mut *connection)
            .await
            .map_err(StoreError::query("reread the stock"))?;
        for (id, stock, epoch, queued_epoch, open, state, limit) in rows {
            let open = Open::try_from(open)?;
            let epoch = Epoch(epoch);
            let queued_epoch = Epoch(queued_epoch);
            let facts = TemplateFacts {
                state: state.try_into()?,
                limit: limit.unsigned_abs(),
                stock: StockRow { epoch, queued_epoch, open, stock },
            };
            found.insert(TemplateId(id), facts);
        }
    }
    Ok(found)
}

/// Returns all numbers of the users, not only those of the claims, to find free ones. Returned coupons and
/// replacements have numbers beyond every limit, which no claim takes.
async fn taken_numbers(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<HashMap<Owner, Vec<u8>>, StoreError> {
    // Without a limit a user may have any number of coupons, and none of them conflicts.
    let limited = landings.iter().filter(|landing| !landing.admission.numbers.is_empty());
    let mut wanted: Vec<Owner> = limited.map(owner).collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut found: HashMap<Owner, Vec<u8>> = HashMap::new();
    for run in rows::runs(&wanted) {
        let head = "select template_id, user_id, claim_no from user_coupon force index (uq_number) \
                    where claim_no <= ? and (template_id, user_id) in (";
        let sql = rows::repeat(head, "(?,?)", ",", run.len(), ")");
        let mut query = sqlx::query_as(AssertSqlSafe(sql)).bind(limit::PER_USER_MAX);
        for (template, user) in run {
            query = query.bind(template.0).bind(user.0);
        }
        let rows: Result<Vec<(i64, i64, i64)>, _> = query.fetch_all(&mut *connection).await;
        for (template, user, number) in rows.map_err(StoreError::query("reread the numbers"))? {
            let number = u8::try_from(number).map_err(|_| {
                StoreError::unreadable(format!("claim_no = {number} under a limit"))
            })?;
            found.entry((TemplateId(template), UserId(user))).or_default().push(number);
        }
    }
    Ok(found)
}

/// Returns the rows under the keys of the claims and under those of their fences.
async fn claim_rows(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<HashMap<(Owner, RequestId), ClaimRow>, StoreError> {
    let wanted: Vec<(Owner, RequestId)> = landings
        .iter()
        .flat_map(|landing| {
            let claim = landing.claim();
            let owner = owner(landing);
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
