//! `./dev bench overload`: what claims are answered while more come than can be landed. Exit code 1: something failed, or an invariant is
//! broken afterwards.

use std::{collections::BTreeMap, path::Path, time::Duration};

use crate::{
    cdc::usage::Usage,
    claims::hot,
    overload::{
        flood::{self, Figures as Answers, Load, Outcome},
        slow,
    },
    report::{self, Machine, conclude, quantiles, row},
    stage::{BareServers, Stage},
};
use anyhow::{Result, ensure};
use chrono::TimeDelta;
use clap::Args;
use coupon::UserId;
use serde::Serialize;
use shopper::{Crowd, NewTemplate, Wish};

/// Claims whose rate is the capacity, and those before them.
const CLAIMS: i64 = 60_000;
const WARM_UP: i64 = 80_000;

/// The share of the capacity that all others are compared with, and how long it lasts.
const CALM: f64 = 0.75;
const CALM_LENGTH: Duration = Duration::from_secs(15);

/// The overload, in capacities, and how long it lasts.
const OVERLOAD: f64 = 5.0;
const OVERLOAD_LENGTH: Duration = Duration::from_secs(30);

/// Open connections of a crowd.
const CONNECTIONS: usize = 5_000;

/// Users who come through those connections, and how long each of them tries.
const USERS: i64 = 100_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// How much longer a commit of a slow database takes, and the share of the capacity that comes meanwhile.
const COMMIT_DELAY: Duration = Duration::from_millis(200);
const SLOW: f64 = 0.5;

/// Connections of the one user who floods, beside others at half of the capacity.
const FLOODER_LINES: usize = 200;
const BESIDE_FLOODER: f64 = 0.5;

/// Limits of one user as they are by default: a stack for tests and benches has none.
const LIMITS: [(&str, &str); 2] =
    [("CLAIMS_PER_USER_SECOND", "50"), ("CLAIMS_PER_USER_MINUTE", "600")];

/// Measures the answers at five times the capacity, of a slow database, of a hundred thousand users at the door, and
/// beside a user who floods; and the api's memory.
#[derive(Args)]
pub struct Cli {
    /// The api's `CLAIMS_UNDER_WAY_MAX`, if not its default.
    #[arg(long, value_name = "CLAIMS")]
    under_way: Option<usize>,
}

/// The figures and the machine, as JSON.
#[derive(Serialize)]
struct Figures {
    #[serde(flatten)]
    machine: Machine,
    capacity_per_s: f64,
    calm: Answers,
    overload: Answers,
    overload_p99_over_calm: f64,
    recovered: Answers,
    slow_commits: Answers,
    recovered_from_slow: Answers,
    half: Answers,
    beside_flooder: Answers,
    flooder: Answers,
    users_answered_per_s: f64,
    users_p99_ms: f64,
    /// After the warm-up, and at most in the whole run.
    api_mib: f64,
    api_peak_mib: f64,
}

/// Runs it.
pub async fn run(Cli { under_way }: Cli, json: Option<&Path>) -> Result<()> {
    let servers = BareServers::start_for_minutes().await?;
    let machine = report::machine(&servers)?;
    let under_way = under_way.map(|most| most.to_string());
    let mut settings = LIMITS.to_vec();
    settings.extend(under_way.as_deref().map(|most| ("CLAIMS_UNDER_WAY_MAX", most)));
    let mut stage = servers.platform_with(&settings).await?;
    let warm = hot::warm_up(&stage, None, WARM_UP, CLAIMS).await?;
    let capacity = hot::sell(&stage, warm, CLAIMS).await?.landed_per_s;
    row("capacity", &format!("{capacity:.0}/s landed over HTTP"));
    stage.at_rest().await?;
    let api_mib = api_usage(&servers, &mut stage)?.peak_mib;

    let at =
        |share: f64, length| Load { per_s: share * capacity, length, connections: CONNECTIONS };
    let calm_load = at(CALM, CALM_LENGTH);
    shown("at 75 %, warming up", &stage, calm_load).await?;
    let calm = shown("at 75 %", &stage, calm_load).await?;
    let overload = shown("at 500 %", &stage, at(OVERLOAD, OVERLOAD_LENGTH)).await?;
    let over = overload.landed.ms(0.99) / calm.landed.ms(0.99);
    row("  p99 over that at 75 %", &format!("{over:.1} ×"));
    let recovered = shown("at 75 % again", &stage, calm_load).await?;

    slow::set_commit_delay(&servers, COMMIT_DELAY).await?;
    let slow_load = at(SLOW, CALM_LENGTH);
    let slow_commits = shown("at 50 %, commits + 200 ms", &stage, slow_load).await?;
    slow::set_commit_delay(&servers, Duration::ZERO).await?;
    let recovered_from_slow = shown("at 75 % again", &stage, calm_load).await?;

    let half_load = at(BESIDE_FLOODER, CALM_LENGTH);
    let half = shown("at 50 %", &stage, half_load).await?;
    let [others, flooder] = flood::send_beside(&stage, half_load, FLOODER_LINES).await?;
    stage.at_rest().await?;
    show("at 50 %, beside a flooder", &others);
    show("  the flooder", &flooder);

    let [users_answered_per_s, users_p99_ms] = users(&stage).await?;
    let api_peak_mib = api_usage(&servers, &mut stage)?.peak_mib;
    row("api's memory", &format!("{api_mib:.0} MiB after the warm-up, {api_peak_mib:.0} at most"));
    let invariants = stage.verify().await?;
    stage.platform.stop().await?;
    servers.end().await?;
    let figures = Figures {
        machine,
        capacity_per_s: capacity,
        calm: calm.figures(calm_load),
        overload: overload.figures(at(OVERLOAD, OVERLOAD_LENGTH)),
        overload_p99_over_calm: over,
        recovered: recovered.figures(calm_load),
        slow_commits: slow_commits.figures(slow_load),
        recovered_from_slow: recovered_from_slow.figures(calm_load),
        half: half.figures(half_load),
        beside_flooder: others.figures(half_load),
        flooder: flooder.figures(half_load),
        users_answered_per_s,
        users_p99_ms,
        api_mib,
        api_peak_mib,
    };
    conclude(json, &figures, &invariants)
}

/// Sends a load, waits until everything behind it is done, and prints the outcome.
async fn shown(name: &str, stage: &Stage, load: Load) -> Result<Outcome> {
    let outcome = flood::send(stage, load).await?;
    stage.at_rest().await?;
    show(name, &outcome);
    Ok(outcome)
}

fn show(name: &str, outcome: &Outcome) {
    let Outcome { sent, unsent, landed, refused, refusals, unanswered, .. } = outcome;
    row(name, &format!("{sent} sent, {unsent} without a connection, {unanswered} unanswered"));
    row("  201", &quantiles(landed));
    if refused.count() > 0 {
        row("  refused", &quantiles(refused));
        let codes: Vec<String> =
            refusals.iter().map(|(code, count)| format!("{code}: {count}")).collect();
        row("  ", &codes.join(", "));
    }
}

fn api_usage(servers: &BareServers, stage: &mut Stage) -> Result<Usage> {
    let pids: BTreeMap<String, u32> = stage.pids(servers)?.into_iter().collect();
    Usage::of(pids["api"])
}

/// A hundred thousand users at the door, each of whom sends until it has its coupon.
async fn users(stage: &Stage) -> Result<[f64; 2]> {
    let new = NewTemplate::simple("Door", USERS, stage.clock.now(), TimeDelta::hours(1));
    let template = stage.api.publish_new(&new).await?.id;
    let wishes = (1..=USERS)
        .map(|user| Wish::one(template, UserId(user)).with_key(format!("visit-{user}")))
        .collect();
    let run = Crowd::new(vec![stage.api.clone()], CONNECTIONS, PATIENCE).run(wishes).await?;
    ensure!(run.given_up == 0, "{} users gave up", run.given_up);
    let per_s = USERS as f64 / run.elapsed.as_secs_f64();
    row("100,000 users at 5,000 lines", &format!("{per_s:.0}/s have their coupon"));
    row("  answered", &quantiles(&run.answered));
    stage.at_rest().await?;
    Ok([per_s, run.answered.ms(0.99)])
}
