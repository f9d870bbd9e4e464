//! `./dev bench redeem`: redemptions per second beside claims per second, on the same platform in the same run. Exit code 1: something
//! failed, or an invariant is broken afterwards.

use std::path::Path;

use crate::{
    claims::hot,
    redeem,
    report::{self, Machine, conclude, quantiles, row},
    stage::BareServers,
};
use anyhow::Result;
use serde::Serialize;

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    landed_per_s: f64,
    redeemed_per_s: f64,
    redeemed_over_landed: f64,
    redeemed_p50_ms: f64,
    redeemed_p99_ms: f64,
    redeemed_at_half_p50_ms: f64,
    redeemed_at_half_p99_ms: f64,
}

/// Runs it.
pub async fn run(json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start().await?;
    let machine = report::machine(&servers)?;
    let mut stage = servers.platform().await?;
    let landed_per_s = hot::measure(&stage).await?.landed_per_s;
    row("claims landed, one template", &format!("{landed_per_s:.0}/s over HTTP"));
    stage.at_rest().await?;
    let redeemed = redeem::measure(&stage).await?;
    let ratio = redeemed.per_s / landed_per_s;
    let figure = format!("{:.0}/s over HTTP, {ratio:.2} of the claims", redeemed.per_s);
    row("redemptions, one coupon each", &figure);
    row("  answered", &quantiles(&redeemed.answered));
    row("  answered, at half of the rate", &quantiles(&redeemed.at_half));
    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;

    let figures = Figures {
        machine,
        landed_per_s,
        redeemed_per_s: redeemed.per_s,
        redeemed_over_landed: ratio,
        redeemed_p50_ms: redeemed.answered.ms(0.5),
        redeemed_p99_ms: redeemed.answered.ms(0.99),
        redeemed_at_half_p50_ms: redeemed.at_half.ms(0.5),
        redeemed_at_half_p99_ms: redeemed.at_half.ms(0.99),
    };
    conclude(json, &figures, &invariants)
}
