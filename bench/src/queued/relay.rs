//! How fast a relay empties an outbox, by the number of its workers.

use anyhow::{Context as _, Result};
use coupon::TemplateId;
use tokio::time::{Instant, sleep, timeout};

use super::{LAND_MAX, LOOK_EVERY, accept, template, until_landed};
use crate::stage::Stage;

/// Entries in the outbox when the relay starts.
const ENTRIES: i64 = 20_000;

/// The workers that are tried.
pub const WORKERS: [u32; 3] = [1, 2, 4];

/// Measures entries published per second with that many workers.
///
/// # Errors
/// The platform fails, or an entry was not published in time.
pub async fn per_second(stage: &mut Stage, workers: u32) -> Result<f64> {
    let template = template(stage, ENTRIES, "gate").await?;
    stage.platform.relay.stop().await?;
    accept(stage, template, 0..ENTRIES).await?;
    let full = waiting(stage, template).await?;
    stage.platform.relay.set_env("RELAY_WORKERS", &workers.to_string());
    stage.platform.relay.spawn()?;
    let empty = async {
        // From the first entry on: a process takes a moment to start.
        let mut began = None;
        loop {
            let left = waiting(stage, template).await?;
            if left < full {
                began.get_or_insert((Instant::now(), left));
            }
            if let Some((since, of)) = began.filter(|_| left == 0) {
                return anyhow::Ok(of as f64 / since.elapsed().as_secs_f64());
            }
            sleep(LOOK_EVERY).await;
        }
    };
    let per_s = timeout(LAND_MAX, empty).await.context("the outbox was not emptied")??;
    until_landed(stage, template, ENTRIES).await?;
    Ok(per_s)
}

async fn waiting(stage: &Stage, template: TemplateId) -> Result<u64> {
    Ok(stage.sources.gate.outbox_len(template).await?)
}
