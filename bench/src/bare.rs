//! The baseline for "my coupons": an axum route with the same reads of Redis and nothing else. No
//! token, no limits, no metrics; like the api, it is a process of its own.

use std::{env, net::SocketAddr, process::Stdio, sync::Arc};

use anyhow::{Context as _, Result};
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::get,
};
use coupon::UserId;
use redis_view::{GenerationsFuture, PageAnswer, PageRequest, ViewStore};
use runtime::Clock;
use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

use crate::stage::Stage;

/// Coupons per page, as in the api's default.
const LIMIT: usize = 20;

/// Options of the process: the view, and the generation of its views.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// The view's Redis.
    #[arg(long)]
    view_redis_url: String,
    /// Prefix of every key.
    #[arg(long)]
    key_prefix: String,
    /// The view generation.
    #[arg(long)]
    generation: i64,
}

/// A running process, which ends when this is dropped.
#[derive(Debug)]
pub struct Bare {
    /// Its base URL, e.g. `http://127.0.0.1:40123`.
    pub url: String,
    _process: Child,
}

/// A coupon with as many fields as the api's.
#[derive(Serialize)]
struct Entry {
    id: i64,
    template_id: i64,
    claim_id: i64,
    claimed_at: i64,
    valid_from: i64,
    valid_until: i64,
}

#[derive(Clone)]
struct Lists {
    view: ViewStore,
    clock: Arc<Clock>,
}

impl Bare {
    /// Starts this program again with the `bare` command, on the stage's view.
    ///
    /// # Errors
    /// The process does not start.
    pub async fn start(stage: &Stage) -> Result<Self> {
        let generation = stage.sources.view.generation(coupon::UserId(0)).await?;
        let mut again = Self::again("view")?;
        again
            .args(["--view-redis-url", &stage.platform.endpoints.view_redis_url])
            .args(["--key-prefix", &stage.platform.options.key_prefix])
            .args(["--generation", &generation.to_string()]);
        Self::run(again).await
    }

    /// This program again with the command `bare` of a scenario, which is to [`listen`].
    pub(crate) fn again(scenario: &str) -> Result<Command> {
        let mut again = Command::new(env::current_exe()?);
        again.args([scenario, "bare"]).stdout(Stdio::piped()).kill_on_drop(true);
        Ok(again)
    }

    /// Starts a bare route's process, and waits until it listens.
    pub(crate) async fn run(mut process: Command) -> Result<Self> {
        let mut process = process.spawn().context("the bare route's process does not start")?;
        let output = process.stdout.take().context("it has no standard output")?;
        let line = BufReader::new(output).lines().next_line().await?;
        let address = line.context("the bare route's process ended")?;
        Ok(Self { url: format!("http://{address}"), _process: process })
    }
}

/// Serves a bare route until the process is killed, after printing its address to standard output.
#[expect(clippy::print_stdout, reason = "it reports to its parent where it listens")]
pub(crate) async fn listen(router: Router) -> Result<()> {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}

/// Serves `/{user}` until the process is killed, after printing its address to standard output.
///
/// # Errors
/// The view cannot be reached.
pub async fn serve(options: Options) -> Result<()> {
    let generation = options.generation;
    let generations_of = Box::new(move |served: Vec<(_, _)>| -> GenerationsFuture {
        let all = served.into_iter().map(|(slots, _)| (slots, generation)).collect();
        Box::pin(async move { Ok(all) })
    });
    let view =
        ViewStore::connect(&options.view_redis_url, options.key_prefix, generations_of).await?;
    let lists = Lists { view, clock: Arc::new(Clock::system()) };
    listen(Router::new().route("/{user}", get(list)).with_state(lists)).await
}

async fn list(
    State(lists): State<Lists>,
    Path(user): Path<i64>,
) -> Result<Json<Vec<Entry>>, StatusCode> {
    let now = lists.clock.now();
    let request = PageRequest { limit: LIMIT, cursor: None, after: None, now };
    match lists.view.page(UserId(user), &request).await {
        Ok(PageAnswer::Page(page)) => Ok(Json(page.coupons.iter().map(Entry::of).collect())),
        _ => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

impl Entry {
    fn of(coupon: &redis_view::ViewCoupon) -> Self {
        Self {
            id: coupon.id.0,
            template_id: coupon.template_id.0,
            claim_id: coupon.claim_id.0,
            claimed_at: coupon.claimed_at.timestamp_millis(),
            valid_from: coupon.valid_from.timestamp_millis(),
            valid_until: coupon.valid_until.timestamp_millis(),
        }
    }
}
