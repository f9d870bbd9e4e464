//! The export of a template's coupons over HTTP, beside the same reads without it.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use chrono::TimeDelta;
use coupon::TemplateId;
use mysql_store::{
    Listed, connect,
    history::{self, BehindCoupon},
    verify::{self, BULK_ROWS},
};
use reqwest::Method;
use shopper::NewTemplate;
use tokio::time::Instant;

use crate::stage::Stage;

/// Coupons of the template.
pub const ROWS: i64 = 1_000_000;

/// Id of the first coupon, below all ids that the platform makes.
const FIRST: i64 = 1;

/// Rows of one read: as many as the api reads at a time.
const CHUNK: u32 = 2_000;

/// How long one export may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// One export.
#[derive(Debug)]
pub struct Exported {
    pub rows_per_s: f64,
    pub mib: f64,
}

/// Stops tailer, consumer and expiry worker, so that they do not work meanwhile, and makes a template with
/// [`ROWS`] coupons.
pub async fn prepare(stage: &mut Stage, url: &str) -> Result<TemplateId> {
    let new = NewTemplate::simple("An export", 1, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.create(&new).await?.id;
    let platform = &mut stage.platform;
    for process in
        [&mut platform.expiry_worker, &mut platform.sync_consumer, &mut platform.cdc_tailer]
    {
        process.stop().await?;
    }
    let mut connection = connect::single(url).await?;
    for bulk in 0..ROWS / BULK_ROWS {
        let first = FIRST + bulk * BULK_ROWS;
        verify::insert_bulk_of(&mut connection, template, first, stage.clock.now()).await?;
    }
    Ok(template)
}

/// Exports all coupons, as a client that keeps nothing.
///
/// # Errors
/// The api refuses, the answer breaks off, or a row is missing.
pub async fn measure(stage: &Stage, template: TemplateId, accept: &str) -> Result<Exported> {
    let path = format!("/v1/templates/{template}/coupons");
    let request = stage.api.operator(Method::GET, &path).header("accept", accept);
    let began = Instant::now();
    let mut answer = request.timeout(PATIENCE).send().await?.error_for_status()?;
    let mut bytes = 0_usize;
    let mut lines = 0_i64;
    while let Some(piece) = answer.chunk().await.context("the export broke off")? {
        bytes += piece.len();
        lines += i64::try_from(piece.iter().filter(|byte| **byte == b'\n').count())?;
    }
    let seconds = began.elapsed().as_secs_f64();
    // A table has a line of names.
    let rows = if accept == "text/csv" { lines - 1 } else { lines };
    ensure!(rows == ROWS, "{rows} of {ROWS} rows came");
    Ok(Exported { rows_per_s: rows as f64 / seconds, mib: bytes as f64 / 1024.0 / 1024.0 })
}

/// Reads the same rows in the same chunks on one connection, and drops them. Returns rows per second.
///
/// # Errors
/// A statement fails, or a row is missing.
pub async fn bare(url: &str, template: TemplateId) -> Result<f64> {
    let mut connection = connect::single(url).await?;
    let began = Instant::now();
    let mut behind = None;
    let mut rows = 0;
    loop {
        let chunk = history::coupons(&mut connection, template, None, behind, CHUNK).await?;
        rows += i64::try_from(chunk.len())?;
        let Some(last) = chunk.last().and_then(Listed::row) else { break };
        behind = Some(BehindCoupon { user: last.user_id, number: last.claim_no });
    }
    ensure!(rows == ROWS, "{rows} of {ROWS} rows were read");
    Ok(rows as f64 / began.elapsed().as_secs_f64())
}
