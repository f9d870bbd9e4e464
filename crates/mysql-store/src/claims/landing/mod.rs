//! The landing: one transaction that makes many admissions true, all or none.
//!
//! It inserts the claims, then the coupons. The guard comes last, right before the commit, because all landings of a
//! template wait for its stock row. COMMIT is sent only after the guard's answer.

mod held;
mod renew;
mod reread;

use std::{collections::BTreeMap, future::ready, io};

use coupon::{
    Admission, ClaimId, ClaimState, CouponStatus, LandedClaim, MerchantId, RequestId, TemplateId,
    UserId, expiry_shard,
};
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

pub use self::{held::held, renew::renew, reread::reread};
use crate::{DuplicateKey, StoreError, datetime::datetime, rows};

/// An admission with all data for its rows.
#[derive(Debug, Clone)]
pub struct Landing {
    pub admission: Admission,
    /// The template's owner.
    pub merchant_id: MerchantId,
    /// Version of the template from which the validity in `landed` comes.
    pub terms: i64,
    /// The answer if it lands now. Its coupons become rows.
    pub landed: LandedClaim,
}

/// Result of an attempt. All but `Landed` were rolled back whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Everything is committed.
    Landed,
    /// A stock row was not open, of another epoch, of later terms, or short of stock.
    GuardRefused,
    /// A claim's key or id was taken.
    ClaimTaken,
    /// A user's number was taken.
    NumberTaken,
    /// A coupon's id was taken; the coupon needs a new one.
    CouponIdTaken,
}

/// Tries to land all of `landings`, with at most 1,000 coupons.
///
/// # Errors
/// A statement fails. After a conflict nothing has landed. After a lost connection it is unknown whether everything
/// has. The same call finds out, because landing is idempotent by claim id.
pub async fn land(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<Attempt, StoreError> {
    land_by_way_of(connection, landings, |_| ready(Ok(()))).await
}

/// Like [`land`], but calls `reach` with the name of each point in the transaction: `landing.after_insert`,
/// `landing.after_guard` (whatever its result) and `landing.before_commit`. There, a test can end the process, delay
/// it, or break its connection.
///
/// # Errors
/// As of [`land`]. An error of `reach` counts as a lost connection.
pub async fn land_by_way_of<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    landings: &[Landing],
    reach: impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let mut transaction = connection.begin().await.map_err(StoreError::query("begin a landing"))?;
    match write(&mut transaction, landings, &reach).await {
        Ok(Attempt::Landed) => {
            transaction.commit().await.map_err(StoreError::query("commit a landing"))?;
            Ok(Attempt::Landed)
        }
        Ok(refused) => {
            transaction.rollback().await.map_err(StoreError::query("roll back a landing"))?;
            Ok(refused)
        }
        Err(error) => {
            // Roll back now: left to the connection's next use, the transaction would keep rows locked.
            drop(transaction.rollback().await);
            Err(error)
        }
    }
}

/// Runs everything between begin and commit.
async fn write<F: Future<Output = io::Result<()>>>(
    connection: &mut MySqlConnection,
    landings: &[Landing],
    reach: &impl Fn(&'static str) -> F,
) -> Result<Attempt, StoreError> {
    let stopped = |error| StoreError::query("go on with a landing")(sqlx::Error::Io(error));
    if let Some(refused) = insert_all(connection, landings).await? {
        return Ok(refused);
    }
    reach("landing.after_insert").await.map_err(stopped)?;
    let templates = demand(landings);
    let matched = guard(connection, &templates).await?;
    reach("landing.after_guard").await.map_err(stopped)?;
    if matched < templates.len() as u64 {
        return Ok(Attempt::GuardRefused);
    }
    reach("landing.before_commit").await.map_err(stopped)?;
    Ok(Attempt::Landed)
}

async fn insert_all(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<Option<Attempt>, StoreError> {
    match insert_claims(connection, landings).await {
        Ok(()) => {}
        Err(error) if error.duplicate_key().is_some() => return Ok(Some(Attempt::ClaimTaken)),
        Err(error) => return Err(error),
    }
    match insert_coupons(connection, landings).await {
        Ok(()) => Ok(None),
        Err(error) => match error.duplicate_key() {
            Some(DuplicateKey::Primary) => Ok(Some(Attempt::CouponIdTaken)),
            Some(DuplicateKey::Other) => Ok(Some(Attempt::NumberTaken)),
            None => Err(error),
        },
    }
}

/// Sorted by the primary key, so that all transactions lock in the same order.
async fn insert_claims(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<(), StoreError> {
    let mut sorted: Vec<&Landing> = landings.iter().collect();
    sorted.sort_by_key(|landing| key_of(&landing.admission));
    for run in rows::runs(&sorted) {
        let sql = rows::repeat(
            "insert into claim (template_id, user_id, request_id, id, quantity, state, \
             payload_hash, valid_from, valid_until, created_at) values ",
            "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            ",",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for landing in run {
            let claim = &landing.admission.claim;
            query = query
                .bind(claim.template_id.0)
                .bind(claim.user_id.0)
                .bind(claim.request_id.as_str().as_bytes())
                .bind(claim.id.0)
                .bind(claim.quantity)
                .bind(ClaimState::Landed.code())
                .bind(&claim.payload_hash.0[..])
                .bind(datetime(landing.landed.valid_from))
                .bind(datetime(landing.landed.valid_until))
                .bind(datetime(landing.landed.claimed_at));
        }
        query.execute(&mut *connection).await.map_err(StoreError::query("insert claims"))?;
    }
    Ok(())
}

/// Sorted by the unique key of the numbers.
async fn insert_coupons(
    connection: &mut MySqlConnection,
    landings: &[Landing],
) -> Result<(), StoreError> {
    let mut sorted: Vec<_> = landings
        .iter()
        .flat_map(|landing| landing.landed.coupons.iter().map(move |coupon| (landing, coupon)))
        .collect();
    sorted.sort_by_key(|(landing, coupon)| {
        (landing.landed.template_id, landing.landed.user_id, coupon.claim_no)
    });
    for run in rows::runs(&sorted) {
        let sql = rows::repeat(
            "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, \
             status, version, expiry_shard, claimed_at, changed_at, valid_from, valid_until, \
             trace_parent) values ",
            "(?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?)",
            ",",
            run.len(),
            "",
        );
        let mut query = sqlx::query(AssertSqlSafe(sql));
        for (landing, coupon) in run {
            let claim = &landing.landed;
            query = query
                .bind(coupon.id.0)
                .bind(claim.template_id.0)
                .bind(claim.user_id.0)
                .bind(coupon.claim_no)
                .bind(claim.id.0)
                .bind(landing.merchant_id.0)
                .bind(CouponStatus::Unused.code())
                .bind(expiry_shard(claim.user_id))
                .bind(datetime(claim.claimed_at))
                .bind(datetime(claim.claimed_at))
                .bind(datetime(claim.valid_from))
                .bind(datetime(claim.valid_until))
                .bind(landing.admission.claim.trace_parent.as_deref());
        }
        query.execute(&mut *connection).await.map_err(StoreError::query("insert coupons"))?;
    }
    Ok(())
}

/// The batch's demand on one stock row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Demand {
    template: TemplateId,
    epoch: i64,
    /// The oldest terms in the batch.
    terms: i64,
    quantity: i64,
}

/// Returns one demand per template and epoch, ordered by template. A batch with two epochs of a template has two
/// demands for it, of which at most one matches.
fn demand(landings: &[Landing]) -> Vec<Demand> {
    let mut demands: BTreeMap<(TemplateId, i64), Demand> = BTreeMap::new();
    for landing in landings {
        let (template, epoch) = (landing.admission.claim.template_id, landing.admission.epoch.0);
        let none = Demand { template, epoch, terms: landing.terms, quantity: 0 };
        let demand = demands.entry((template, epoch)).or_insert(none);
        demand.terms = demand.terms.min(landing.terms);
        demand.quantity += i64::from(landing.admission.claim.quantity);
    }
    demands.into_values().collect()
}

/// Takes the stock of all templates in one statement and returns the number of matched rows: sqlx requests found rows,
/// and a matched row always changes.
async fn guard(connection: &mut MySqlConnection, demands: &[Demand]) -> Result<u64, StoreError> {
    let done = if let [one] = demands {
        sqlx::query(
            "update template_stock set stock = stock - ? \
             where template_id = ? and epoch = ? and open = 1 and terms <= ? and stock >= ?",
        )
        .bind(one.quantity)
        .bind(one.template.0)
        .bind(one.epoch)
        .bind(one.terms)
        .bind(one.quantity)
        .execute(connection)
        .await
    } else {
        // Padded with a template that does not exist, so that few statement sizes are prepared.
        let count = demands.len().next_power_of_two();
        let nothing = Demand { template: TemplateId(-1), epoch: 0, terms: 0, quantity: 0 };
        let padded = demands.iter().chain(std::iter::repeat(&nothing)).take(count);
        let mut query = sqlx::query(AssertSqlSafe(guard_join(count)));
        for demand in padded {
            let Demand { template, epoch, terms, quantity } = demand;
            query = query.bind(template.0).bind(epoch).bind(terms).bind(quantity);
        }
        query.execute(connection).await
    };
    done.map(|done| done.rows_affected()).map_err(StoreError::query("take the stock"))
}

/// The guard's SQL for `count` templates. The derived table comes first, so rows are locked in the order of templates.
/// The index hint is needed because for a batch with most of all templates MySQL would rather read all rows, and wait
/// for those of other landers.
pub fn guard_join(count: usize) -> String {
    rows::repeat(
        "update (",
        "select cast(? as signed) as template_id, cast(? as signed) as epoch, \
         cast(? as signed) as terms, cast(? as signed) as quantity",
        " union all ",
        count,
        ") demand straight_join template_stock stock force index (primary) \
         on stock.template_id = demand.template_id \
         set stock.stock = stock.stock - demand.quantity \
         where stock.epoch = demand.epoch and stock.open = 1 and stock.terms <= demand.terms \
         and stock.stock >= demand.quantity",
    )
}

fn key_of(admission: &Admission) -> (TemplateId, UserId, RequestId, ClaimId) {
    let claim = &admission.claim;
    (claim.template_id, claim.user_id, claim.request_id.clone(), claim.id)
}
