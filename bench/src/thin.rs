//! The baseline: each claim lands in its own transaction, directly in the database, on one hot
//! template with the real schema, all indexes and the trigger.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{
    Admission, Claim, ClaimId, CouponId, Discount, DiscountKind, Epoch, LandedClaim, LandedCoupon,
    MerchantId, PayloadHash, RequestId, Template, TemplateId, TemplateState, UserId, Validity,
    Window,
};
use mysql_store::{
    connect,
    landing::{self, Attempt, Landing},
    migrate, template,
};
use tokio::{task::JoinSet, time::Instant};

/// Concurrent connections; with more, only the hot row's lock queue grows.
const CONNECTIONS: usize = 64;

/// Duration of the measurement.
const MEASURED: Duration = Duration::from_secs(5);

/// The only template of this bench's own database.
const TEMPLATE: TemplateId = TemplateId(1);

/// Creates the database of `url` and measures thin transactions per second in it.
///
/// # Errors
/// The database fails.
///
/// # Panics
/// The task of a connection panicked.
pub async fn per_second(url: &str, now: DateTime<Utc>) -> Result<f64> {
    migrate::run(url).await?;
    publish(url, now).await?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(connect::single(url).await?);
    }
    let next = Arc::new(AtomicI64::new(1));
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for mut connection in connections {
        let next = Arc::clone(&next);
        tasks.spawn(async move {
            let mut landed = 0_u32;
            while began.elapsed() < MEASURED {
                let landing = landing(next.fetch_add(1, Ordering::Relaxed), now);
                let attempt = landing::land(&mut connection, &[landing]).await?;
                ensure!(attempt == Attempt::Landed, "a thin claim did not land: {attempt:?}");
                landed += 1;
            }
            Ok(landed)
        });
    }
    let mut landed = 0;
    while let Some(done) = tasks.join_next().await {
        landed += done.expect("a connection's task does not panic")?;
    }
    Ok(f64::from(landed) / began.elapsed().as_secs_f64())
}

async fn publish(url: &str, now: DateTime<Utc>) -> Result<()> {
    let mut connection = connect::single(url).await?;
    let draft = Template {
        id: TEMPLATE,
        merchant_id: MerchantId(1),
        name: "Thin".to_owned(),
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
        validity: Validity::Relative { valid_for: TimeDelta::hours(1) },
        self_redeem: false,
        state: TemplateState::Draft,
        version: 1,
    };
    let stock = coupon::limit::STOCK_MAX;
    template::create(&mut connection, &draft, stock, "bench", now).await?;
    template::change_state(&mut connection, &draft, TemplateState::Published, now).await?;
    Ok(())
}

/// The claim of the `number`th user as the gate would have admitted it.
fn landing(number: i64, now: DateTime<Utc>) -> Landing {
    // Spread the users, as in production; a multiplier coprime to 2^31 visits each once.
    let user = UserId(number * 2_654_435_761 % (1 << 31));
    let claim = Claim {
        id: ClaimId(number),
        template_id: TEMPLATE,
        user_id: user,
        request_id: RequestId::from_stored(format!("3f2b8c1e-7a44-4a0e-{number:012x}").as_bytes()),
        payload_hash: PayloadHash::of_quantity(1),
        quantity: 1,
        claimed_at: now,
        trace_parent: None,
    };
    let landed = LandedClaim {
        id: claim.id,
        template_id: TEMPLATE,
        user_id: user,
        payload_hash: claim.payload_hash,
        claimed_at: now,
        valid_from: now,
        valid_until: now + TimeDelta::hours(1),
        coupons: vec![LandedCoupon { id: CouponId(number), claim_no: 1 }],
    };
    let admission = Admission { claim, epoch: Epoch(1), numbers: vec![1] };
    Landing { admission, merchant_id: MerchantId(1), terms: 1, landed }
}
