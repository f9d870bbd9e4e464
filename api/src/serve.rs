//! Starts the api and drains it: intake, claims, landers, settler, in the order of their dependencies.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
use landing::{
    claims::{CLAIMS_MAX, Claims},
    gates::Gates,
    ids::Ids,
    keeper::Keeper,
    lander::{self, Lander},
    resolver::{GRACE, Resolver},
    settler::Settler,
};
use mysql_store::{MySqlPool, StoreError, connect, migrate, view_generation};
use redis_gate::{Gate, GateRedis};
use redis_view::{GenerationsOf, ViewReader, ViewStore};
use runtime::{Backoff, Clock, Context, Outage};
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::{
    auth::{
        Auth,
        fence_limit::FenceLimit,
        key_cache::KeyCache,
        rate_limit::RateLimit,
        session::Sessions,
        tokens::{Rules, Tokens},
        upkeep,
    },
    config::Config,
    connections::{Connections, admin, listener, open_files},
    console::Console,
    fleet::Fleet,
    jobs,
    live::Live,
    metrics as api_metrics,
    mysql_view_source::MySqlViewSource,
    queue::Queue,
    receipt::Receipts,
    router::router,
    routes::{
        operators::{live::sampler, templates::halt},
        shop::batch,
    },
    servers::{
        ServerHealth, Watched,
        lost_claims::{Found, LostClaims},
        sale_clock::SaleClock,
    },
    shop::{batches::Batches, stock::ShopStock},
    state::{App, Parts},
    stats,
    story::Stories,
    template_cache::TemplateCache,
    work_limits::Places,
};

/// How long a server may be unreachable at start before the process gives up.
const CONNECT_FOR: Duration = Duration::from_secs(15);

/// Exports at a time, and of one merchant: each keeps about a connection busy.
const EXPORTS_AT_ONCE: usize = 8;
const EXPORTS_OF_MERCHANT: usize = 2;

/// Serves until the process is to stop.
pub async fn serve(config: Config, context: Context) -> anyhow::Result<()> {
    // Added before the first wait: a part that is missing from `/readyz` counts as ready.
    let http = context.health.part("http");
    let servers = ServerHealth::of(&config, &context.health);
    config.validate()?;
    let console = Console::of(&config.console)?;
    let (listener, connections) = intake(&config)?;
    let pool = mysql(&config).await?;
    let gate = Gate::new(gate_redis(&config).await?, &config.key_prefix);
    let (view, views) = view(&config, &pool).await?;
    let holder = holder();
    let ids = Arc::new(Ids::lease(pool.clone(), &holder).await?);

    // Cancelled at the end, once everything that needs these parts has drained.
    let last = CancellationToken::new();
    let points = &config.fail_points;
    let (landers, workers) =
        lander::landers(config.landers, CLAIMS_MAX, config.database_url.expose(), &ids, points);
    let landing_wait = landers.wait();
    let mut landing: JoinSet<()> = workers.into_iter().map(Lander::run).collect();
    let (settler, settling) = Settler::new(gate.clone(), points.clone());
    let settling = tokio::spawn(settling);
    let queue = Arc::new(Queue::new(&config, context.stop_token()));
    let (gates, keeper) = gates(&config, &pool, &gate, &queue, &holder);
    let sale_clock = sale_clock(&context, &pool).await?;
    let now = now_of(&sale_clock);
    let bounds = config.bounds_of_claims();
    let claims = Claims::new(gates.clone(), landers, settler, now, bounds, points.clone());
    let templates = TemplateCache::new(pool.clone(), context.clock.clone(), &config);
    let auth = auth(&config, &pool, context.clock.clone()).await?;
    let (stats, publishing) = stats::start(&config, &holder, context.clock.clone(), last.clone());
    let (batches, to_serve) = Batches::new();
    let clock = context.clock.clone();
    let fleet = Arc::new(Fleet::new(context.health.clone(), clock, &config.admin_peers)?);
    let app = App::new(Parts {
        clock: context.clock.clone(),
        sale_clock: sale_clock.clone(),
        pool: pool.clone(),
        auth: Arc::clone(&auth),
        ids: Arc::clone(&ids),
        templates: templates.clone(),
        gates,
        claims: claims.clone(),
        queue: Arc::clone(&queue),
        receipts: Receipts::new(config.receipt_secret.expose(), config.operator_key.expose()),
        view,
        shop_stock: ShopStock::new(gate.clone(), pool.clone()),
        stats,
        stories: Stories::new(&config.kafka_brokers, &config.topic_prefix),
        claim_limit: RateLimit::new(config.claims_per_user_second, config.claims_per_user_minute),
        read_limit: RateLimit::new(config.reads_per_user_second, config.reads_per_user_minute),
        fence_limit: FenceLimit::new(),
        quotas: config.quotas.clone(),
        exports: Places::new(EXPORTS_AT_ONCE, EXPORTS_OF_MERCHANT),
        batches,
        fleet: Arc::clone(&fleet),
        live: Live::among(config.connections_max),
        points: points.clone(),
    });

    jobs::start(&app, &context, &holder);
    batch::start(&app, &context, to_serve);
    halt::start(&app, &context);
    sampler::start(&app, &context);
    keep_gates(&app, &context, keeper, resolver(&config, &pool, &gate, &queue), &last);
    let lease = keep_lease(&ids, &context, &last);
    context.spawn("template cache", follow_templates(templates, config.clone()));
    context.spawn("queue of claims", ended(queue.follow()));
    let lost_claims = lost_claims(&config, &pool, &views, holder, &context);
    context.spawn("lost claims", ended(lost_claims.watch(context.stop_token())));
    context.spawn("upkeep", ended(upkeep::run(pool.clone(), auth, context.clock.clone())));
    context.spawn("fleet", ended(async move { fleet.follow().await }));
    measure(&context, &claims, &pool, &connections, queue);
    let watched = Watched { sales: sale_clock, pool, landing: landing_wait, gate, views };
    context.spawn("servers", servers.watch(&config, &context, watched));

    info!(http.address = %listener.local_addr()?, "serving");
    http.ready();
    let routes = router(app, &console, &config.allowed_origins, connections.limits());
    let admin = admin::serve(&context, routes.clone());
    listener::serve(listener, routes, connections, context.stop_token()).await;
    // It also serves the console while a balancer keeps callers away, and ends before what it calls does.
    admin.end();
    claims.drain().await;
    // The landers and the settler end when the last handle of claims is dropped.
    drop(claims);
    while landing.join_next().await.is_some() {}
    settling.await.context("the settler")?;
    last.cancel();
    publishing.await.context("the statistics")?;
    lease.await.context("the worker number's lease")
}

fn lost_claims(
    config: &Config,
    pool: &MySqlPool,
    views: &ViewStore,
    holder: String,
    context: &Context,
) -> LostClaims {
    LostClaims {
        pool: pool.clone(),
        brokers: config.kafka_brokers.clone(),
        names: topic::TopicNames::new(&config.topic_prefix),
        views: views.clone(),
        found: Found::default(),
        holder,
        clock: context.clock.clone(),
    }
}

/// Starts the task that measures. It holds the landers, so it ends with the intake.
fn measure(
    context: &Context,
    claims: &Claims,
    pool: &MySqlPool,
    connections: &Arc<Connections>,
    queue: Arc<Queue>,
) {
    let measured = Arc::clone(connections);
    let stop = context.stop_token();
    let measuring = api_metrics::measure(claims.clone(), pool.clone(), measured, queue, stop);
    context.spawn("measure", ended(measuring));
}

/// Starts the tasks that restore lost gates, that end admissions whose process died, and that know which templates are
/// sold out, until `last`.
fn keep_gates(
    app: &App,
    context: &Context,
    keeper: Keeper,
    resolver: Resolver,
    last: &CancellationToken,
) {
    let sold_out = app.gates.sold_out().clone();
    let stop = last.clone();
    context.spawn("sold out", ended(async move { sold_out.watch(stop).await }));
    // By both clocks: what it ends for a sale that is over, it ends for good.
    let own = context.clock.clone();
    let sale = app.sale_clock.clone();
    let keeping = keeper.run(move || own.now().min(sale.now()), last.clone());
    context.spawn("gate keeper", ended(keeping));
    let resolving = resolver.run(now_of(&app.sale_clock), last.clone());
    context.spawn("resolver", ended(resolving));
}

/// Keeps the worker number until `last`.
fn keep_lease(ids: &Arc<Ids>, context: &Context, last: &CancellationToken) -> JoinHandle<()> {
    let ids = Arc::clone(ids);
    let clock = context.clock.clone();
    let last = last.clone();
    tokio::spawn(async move { ids.keep(|| clock.now(), last).await })
}

/// Returns the gates of this process, and the task that keeps them.
fn gates(
    config: &Config,
    pool: &MySqlPool,
    gate: &Gate,
    queue: &Queue,
    holder: &str,
) -> (Gates, Keeper) {
    let preload = config.preload();
    let points = config.fail_points.clone();
    Gates::new(pool.clone(), gate.clone(), queue.of_claims(), holder, preload, points)
}

/// Returns the task that ends admissions whose process died.
fn resolver(config: &Config, pool: &MySqlPool, gate: &Gate, queue: &Queue) -> Resolver {
    Resolver {
        pool: pool.clone(),
        gate: gate.clone(),
        queue: queue.of_claims(),
        grace: GRACE,
        points: config.fail_points.clone(),
    }
}

/// Describes the metrics, opens the listener, and sets what clients may use.
fn intake(config: &Config) -> anyhow::Result<(TcpListener, Arc<Connections>)> {
    api_metrics::describe();
    open_files::allow(config.connections_max, config.connections_to_mysql())?;
    let listener = listener::bind(config.listen)
        .with_context(|| format!("the address {} cannot be used (LISTEN)", config.listen))?;
    Ok((listener, Connections::new(config.limits(), config.proxies()?)))
}

async fn ended(part: impl Future<Output = ()>) -> anyhow::Result<()> {
    part.await;
    Ok(())
}

/// Returns a name that no other process has. Leases are held under it.
fn holder() -> String {
    format!("api-{}-{:016x}", std::process::id(), fastrand::u64(..))
}

async fn mysql(config: &Config) -> anyhow::Result<MySqlPool> {
    let url = config.database_url.expose();
    let pool = retried("MySQL", "DATABASE_URL", url, StoreError::is_denied, || {
        connect::pool(url, config.database_connections)
    })
    .await?;
    migrate::check_over(&pool).await.context("MySQL cannot be used (DATABASE_URL)")?;
    Ok(pool)
}

async fn auth(config: &Config, pool: &MySqlPool, clock: Clock) -> anyhow::Result<Arc<Auth>> {
    let tokens = tokens(config).await?;
    let keys = KeyCache::new(pool.clone());
    let operator_key = config.operator_key.expose();
    let sessions = Sessions::new(config.receipt_secret.expose(), operator_key);
    Ok(Arc::new(Auth::new(tokens, operator_key, keys, sessions, clock)))
}

/// Returns the clock of sales, which is compared with MySQL's already.
async fn sale_clock(context: &Context, pool: &MySqlPool) -> anyhow::Result<SaleClock> {
    SaleClock::of(pool, context.clock.clone()).await.context("MySQL's clock")
}

fn now_of(clock: &SaleClock) -> impl Fn() -> DateTime<Utc> + Send + Sync + use<> + 'static {
    let clock = clock.clone();
    move || clock.now()
}

async fn tokens(config: &Config) -> anyhow::Result<Tokens> {
    let rules = Rules {
        leeway_seconds: config.jwt_leeway_seconds,
        issuer: config.jwt_issuer.clone().filter(|issuer| !issuer.is_empty()),
        audience: config.jwt_audience.clone().filter(|audience| !audience.is_empty()),
        user_claim: config.jwt_user_claim.clone().into(),
    };
    rules.warn_of_unchecked_issuer_or_audience();
    if config.jwks.is_empty() {
        Ok(Tokens::by_secret(config.jwt_secret.expose(), &rules))
    } else {
        Tokens::by_keys(&config.jwks, &rules).await
    }
}

async fn gate_redis(config: &Config) -> anyhow::Result<GateRedis> {
    let url = config.gate_redis_url.expose();
    let connect = || GateRedis::connect(url);
    retried("the gate's Redis", "GATE_REDIS_URL", url, |_| false, connect).await
}

async fn view(
    config: &Config,
    pool: &MySqlPool,
) -> anyhow::Result<(ViewReader<MySqlViewSource>, ViewStore)> {
    let connect = || {
        let pool = pool.clone();
        let generations: GenerationsOf = Box::new(move |served| {
            let pool = pool.clone();
            Box::pin(async move {
                let read = connect::within(async {
                    let mut connection = connect::acquire(&pool).await?;
                    view_generation::generations_of(&mut connection, &served).await
                });
                Ok(read.await?)
            })
        });
        ViewStore::connect(config.view_redis_url.expose(), &config.key_prefix, generations)
    };
    let url = config.view_redis_url.expose();
    let store = retried("the view's Redis", "VIEW_REDIS_URL", url, |_| false, connect).await?;
    let truth = MySqlViewSource::new(pool.clone(), config.fail_points.clone());
    Ok((ViewReader::new(store.clone(), truth), store))
}

/// Retries until it succeeds, a failure is final, or [`CONNECT_FOR`] is over. `setting` names the URL.
async fn retried<T, E, F>(
    what: &str,
    setting: &str,
    url: &str,
    is_final: impl Fn(&E) -> bool,
    mut connect: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = Result<T, E>>,
    E: std::error::Error + Send + Sync + 'static,
{
    let what = format!("{what} at {} ({setting})", runtime::address(url));
    let outage = Outage::of(format!("{what} cannot be reached yet"));
    let started = tokio::time::Instant::now();
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        match connect().await {
            Ok(connected) => return Ok(connected),
            Err(error) if is_final(&error) => {
                return Err(error).with_context(|| format!("{what} refuses us"));
            }
            Err(error) if started.elapsed() >= CONNECT_FOR => {
                return Err(error).with_context(|| {
                    format!("{what} could not be reached for {CONNECT_FOR:?}; is it running?")
                });
            }
            Err(error) => outage.failed(&runtime::report(&error)),
        }
        backoff.wait().await;
    }
}

/// Keeps the template cache fresh from the topic, and lists of shops complete from MySQL. Without the topic, single
/// templates are read on a miss.
async fn follow_templates(templates: TemplateCache, config: Config) -> anyhow::Result<()> {
    let follow = follow_topic(&templates, &config);
    let ((), followed) = tokio::join!(templates.keep_listed(), follow);
    followed
}

async fn follow_topic(templates: &TemplateCache, config: &Config) -> anyhow::Result<()> {
    let topic = topic::TopicNames::new(&config.topic_prefix).template();
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    loop {
        if let Err(error) = templates.follow(&config.kafka_brokers, &topic).await {
            let error = runtime::report(error.as_ref());
            runtime::seldom!("template changes cannot be read", error);
        }
        backoff.wait().await;
    }
}
