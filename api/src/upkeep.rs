//! What an api does beside requests: it reads the keys of tokens anew, writes when operators' keys were used, and
//! forgets the answers of requests that nobody sends again.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use mysql_store::{MySqlPool, StoreError, api_key, connect, idempotency};
use runtime::Clock;
use tracing::warn;

use crate::{auth::Auth, key_cache::USE_EVERY};

/// How often it is looked what there is to do: a key's first use is shown this much later.
const EVERY: Duration = Duration::from_secs(5);

/// How long an answer is kept for its `Idempotency-Key`: whoever did not hear it asks again within minutes, or after
/// a weekend. A day's changes of a busy merchant are some megabytes.
const ANSWERS_KEPT: TimeDelta = TimeDelta::days(7);

/// Answers forgotten at a time, by each process: a short transaction. With the pause it is more than merchants make.
const FORGOTTEN_MAX: u32 = 1_000;

/// Does it for ever.
pub(crate) async fn run(pool: MySqlPool, auth: Arc<Auth>, clock: Clock) {
    tokio::join!(auth.follow(), keep(&pool, &auth, &clock));
}

async fn keep(pool: &MySqlPool, auth: &Auth, clock: &Clock) {
    loop {
        tokio::time::sleep(EVERY).await;
        if let Err(error) = once(pool, auth, clock).await {
            warn!(error = runtime::report(&error), "keys' uses or old answers are left for later");
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
