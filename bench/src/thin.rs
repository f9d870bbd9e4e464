//! The baseline of landing: one transaction per claim, at the database alone. The same statements,
//! the same schema with its trigger and all its indexes, the same full durability, no HTTP, no gate.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{
    Admission, Claim, ClaimId, CouponId, Discount, DiscountKind, Epoch, LandedClaim, LandedCoupon,
    MerchantId, PayloadHash, RequestId, Template, TemplateId, TemplateState, UserId, Validity,
    Window, limit,
};
use mysql_store::{
    connect,
    landing::{self, Attempt, Landing},
    migrate, template,
};
use tokio::task::JoinSet;

/// Connections: where thin landing is fastest on two cores (measured from 1 to 128).
const CONNECTIONS: usize = 64;

/// How long it is measured.
const MEASURED_FOR: Duration = Duration::from_secs(5);

/// Claims landed per second by thin transactions on one hot template of a database of its own.
///
/// # Errors
/// A statement fails.
pub async fn landed_per_s(database_url: &str, now: DateTime<Utc>) -> Result<f64> {
    migrate::run(database_url).await?;
    let template = hot_template(now);
    let mut connection = connect::single(database_url).await?;
    template::create(&mut connection, &template, limit::STOCK_MAX, "bench", now).await?;
    let published = TemplateState::Published;
    ensure!(template::change_state(&mut connection, &template, published, now).await?);
    let next = Arc::new(AtomicI64::new(1));
    let mut workers = JoinSet::new();
    let started = Instant::now();
    for _ in 0..CONNECTIONS {
        workers.spawn(land_until(database_url.to_owned(), Arc::clone(&next), started, now));
    }
    while let Some(worker) = workers.join_next().await {
        worker.context("a worker")??;
    }
    let landed = next.load(Ordering::Relaxed) - 1;
    Ok(landed as f64 / started.elapsed().as_secs_f64())
}

async fn land_until(
    database_url: String,
    next: Arc<AtomicI64>,
    started: Instant,
    now: DateTime<Utc>,
) -> Result<()> {
    let mut connection = connect::lander(&database_url).await?;
    while started.elapsed() < MEASURED_FOR {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let one = [one_landing(number, now)];
        // Neighbours in the user index lock each other's gaps: the same claim again, as a lander would.
        loop {
            match landing::land(&mut connection, &one).await {
                Ok(Attempt::Landed) => break,
                Ok(other) => anyhow::bail!("a thin landing was {other:?}"),
                Err(error) if error.is_conflict() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn one_landing(number: i64, now: DateTime<Utc>) -> Landing {
    // Spread over the indexes, as real users' ids are.
    let user_id = UserId((number.wrapping_mul(2_654_435_761) & 0xffff_ffff) + 1);
    let claim = Claim {
        id: ClaimId(number),
        template_id: TemplateId(1),
        user_id,
        request_id: RequestId::absent(),
        payload_hash: PayloadHash::of_quantity(1),
        quantity: 1,
        claimed_at: now,
        trace_parent: None,
    };
    let landed = LandedClaim {
        id: claim.id,
        template_id: claim.template_id,
        user_id,
        payload_hash: claim.payload_hash,
        claimed_at: now,
        valid_from: now,
        valid_until: now + TimeDelta::days(2),
        coupons: vec![LandedCoupon { id: CouponId(number), claim_no: 1 }],
    };
    let admission = Admission { claim, epoch: Epoch(1), numbers: vec![1] };
    Landing { admission, merchant_id: MerchantId(1), landed }
}

fn hot_template(now: DateTime<Utc>) -> Template {
    Template {
        id: TemplateId(1),
        merchant_id: MerchantId(1),
        name: "hot".to_owned(),
        discount: Discount {
            kind: DiscountKind::AmountOff,
            value: 500,
            cap: None,
            minimum_spend: 0,
            currency: "EUR".to_owned(),
        },
        per_user_limit: 1,
        max_per_claim: 1,
        window: Window { starts_at: now, ends_at: now + TimeDelta::hours(1) },
        validity: Validity::Relative { valid_for: TimeDelta::days(2) },
        state: TemplateState::Draft,
        version: 1,
    }
}
