//! Background work of an api: it refreshes the keys of tokens, writes when operators' keys were used, and deletes old
//! stored answers.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use mysql_store::{MySqlPool, StoreError, api_key, connect, idempotency};
use runtime::Clock;

use crate::auth::{Auth, key_cache::USE_EVERY};

/// Interval between rounds: a key's first use is shown up to this much later.
const EVERY: Duration = Duration::from_secs(5);

/// How long an answer is stored for its `Idempotency-Key`: a client that missed it asks again within minutes, or after
/// a weekend. A day's changes of a busy merchant are some megabytes.
const ANSWERS_KEPT: TimeDelta = TimeDelta::days(7);

/// Maximum answers deleted at a time by each process: a short transaction. At this interval it is more than merchants
/// make.
const FORGOTTEN_MAX: u32 = 1_000;

/// Runs forever.
pub(crate) async fn run(pool: MySqlPool, auth: Arc<Auth>, clock: Clock) {
    tokio::join!(auth.follow(), keep(&pool, &auth, &clock));
}

async fn keep(pool: &MySqlPool, auth: &Auth, clock: &Clock) {
    loop {
        tokio::time::sleep(EVERY).await;
        if let Err(error) = once(pool, auth, clock).await {
            let error = runtime::report(&error);
            runtime::seldom!("keys' uses or old answers are left for later", error);
        }
    }
}

async fn once(pool: &MySqlPool, auth: &Auth, clock: &Clock) -> Result<(), StoreError> {
    let now = clock.now();
    let used = auth.take_used();
    let pause = TimeDelta::from_std(USE_EVERY).unwrap_or_default();
    connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        api_key::note_uses(&mut connection, &used, now, pause).await?;
        idempotency::forget(&mut connection, now - ANSWERS_KEPT, FORGOTTEN_MAX).await?;
        Ok(())
    })
    .await
}
