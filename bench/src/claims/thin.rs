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
use chrono::{DateTime, Utc};
use coupon::{Admission, ClaimId, CouponId, Epoch, LandingMode, TemplateId, TemplateState, UserId};
use mysql_store::{
    connect,
    landing::{self, Attempt, Landing},
    migrate, template,
};
use tokio::{task::JoinSet, time::Instant};

/// Concurrent connections; with more, only the hot row's lock queue grows.
pub const CONNECTIONS: usize = 64;

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
    per_second_by(url, CONNECTIONS, now).await
}

/// Like [`per_second`], over `by` connections.
///
/// # Errors
/// The database fails.
///
/// # Panics
/// The task of a connection panicked.
pub async fn per_second_by(url: &str, by: usize, now: DateTime<Utc>) -> Result<f64> {
    migrate::run(url).await?;
    publish(url, now).await?;
    let mut connections = Vec::new();
    for _ in 0..by {
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
                let attempt =
                    landing::land(&mut connection, LandingMode::Direct, &[landing]).await?;
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
    let draft = testkit::draft(TEMPLATE, now);
    let stock = coupon::limit::STOCK_MAX;
    template::create(&mut connection, &draft, stock, "bench", now).await?;
    template::change_state(&mut connection, &draft, TemplateState::Published, now).await?;
    Ok(())
}

/// The claim of the `number`th user as the gate would have admitted it.
fn landing(number: i64, now: DateTime<Utc>) -> Landing {
    // Spread the users, as in production; a multiplier coprime to 2^31 visits each once.
    let user = UserId(number * 2_654_435_761 % (1 << 31));
    let key = format!("3f2b8c1e-7a44-4a0e-{number:012x}");
    let claim = testkit::claim(ClaimId(number), TEMPLATE, user, &key, 1, now);
    let landed = testkit::landed(&claim, [(CouponId(number), 1)]);
    let admission = Admission { claim, epoch: Epoch(1), numbers: vec![1] };
    Landing {
        admission,
        merchant_id: testkit::MERCHANT,
        terms: 1,
        landed,
        admitted_at: None,
        left_after: None,
    }
}
