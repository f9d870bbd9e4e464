//! Starts the api and drains it: intake, claims, landers, settler, in the order of their dependencies.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use chrono::TimeDelta;
use landing::{
    claims::{CLAIMS_MAX, Claims},
    gates::Gates,
    ids::Ids,
    lander::{self, Lander},
    resolver::{GRACE, Resolver},
    settler::Settler,
};
use metrics::gauge;
use mysql_store::{MySqlPool, StoreError, connect, migrate, settings, view_generation};
use redis_gate::{Gate, GateRedis};
use redis_view::{GenerationsOf, ViewReader, ViewStore};
use runtime::{Backoff, Clock, Context, Part};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::{
    auth::{
        Auth,
        key_cache::KeyCache,
        rate_limit::RateLimit,
        tokens::{Rules, Tokens},
        upkeep,
    },
    config::Config,
    connections::{Connections, listener, open_files},
    metrics::{self as api_metrics, CLOCK_SKEW},
    router::router,
    shop_stock::ShopStock,
    state::{App, Parts},
    template_cache::TemplateCache,
    truth::MySqlTruth,
};

/// How long a server may be unreachable at start before the process gives up.
const CONNECT_FOR: Duration = Duration::from_secs(15);

/// Limits of fences that one user may place through the poll URL. Each is a permanent row. More than a client needs to
/// ask for claims that were never answered.
const FENCES_PER_SECOND: u32 = 2;
const FENCES_PER_MINUTE: u32 = 10;

/// Interval between checks of MySQL, the gate and the generations of the views.
const HEALTH_EVERY: Duration = Duration::from_secs(1);

/// Clock difference to MySQL above which a warning is logged. Clocks kept by NTP are within a few milliseconds.
const SKEW_MAX: TimeDelta = TimeDelta::milliseconds(250);

/// Serves until the process is to stop.
pub async fn serve(config: Config, context: Context) -> anyhow::Result<()> {
    // Added before the first wait: a part that is missing from `/readyz` counts as ready.
    let [http, mysql_part, gate_part] =
        ["http", "mysql", "gate"].map(|name| context.health.part(name));
    config.validate()?;
    api_metrics::describe();
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
    let mut landing: JoinSet<()> = workers.into_iter().map(Lander::run).collect();
    let (settler, settling) = Settler::new(gate.clone(), points.clone());
    let settling = tokio::spawn(settling);
    let (gates, keeper) =
        Gates::new(pool.clone(), gate.clone(), &holder, config.preload(), points.clone());
    let clock = context.clock.clone();
    let now = move || clock.now();
    let claims =
        Claims::new(pool.clone(), gates.clone(), landers, settler, now, GRACE, points.clone());
    let templates = TemplateCache::new(pool.clone());
    let auth = auth(&config, &pool, context.clock.clone()).await?;
    let app = App::new(Parts {
        clock: context.clock.clone(),
        pool: pool.clone(),
        auth: Arc::clone(&auth),
        ids: Arc::clone(&ids),
        templates: templates.clone(),
        gates,
        claims: claims.clone(),
        view,
        shop_stock: ShopStock::new(gate.clone()),
        rate_limit: RateLimit::new(config.claims_per_user_second, config.claims_per_user_minute),
        reads: RateLimit::new(config.reads_per_user_second, config.reads_per_user_minute),
        fences: RateLimit::new(FENCES_PER_SECOND, FENCES_PER_MINUTE),
        quotas: config.quotas.clone(),
        points: points.clone(),
    });

    let (keeps, resolves) = (context.clock.clone(), context.clock.clone());
    context.spawn("gate keeper", ended(keeper.run(move || keeps.now(), last.clone())));
    let resolver =
        Resolver { pool: pool.clone(), gate: gate.clone(), grace: GRACE, points: points.clone() };
    context.spawn("resolver", ended(resolver.run(move || resolves.now(), last.clone())));
    let (keep, token, clock) = (Arc::clone(&ids), last.clone(), context.clock.clone());
    let keeping = tokio::spawn(async move { keep.keep(|| clock.now(), token).await });
    context.spawn("template cache", follow_templates(templates, config.clone()));
    context.spawn("upkeep", ended(upkeep::run(pool.clone(), auth, context.clock.clone())));
    // It keeps the landers, so it ends with the intake.
    let (stop, measures) = (context.stop_token(), Arc::clone(&connections));
    let measured = api_metrics::measure(claims.clone(), pool.clone(), measures, stop);
    context.spawn("measure", ended(measured));
    let watched = watch_health(context.clone(), (mysql_part, pool), (gate_part, gate), views);
    context.spawn("health", watched);

    info!(http.address = %listener.local_addr()?, "serving");
    http.ready();
    let routes = router(app, &config.allowed_origins, connections.limits());
    listener::serve(listener, routes, connections, context.stop_token()).await;
    claims.drain().await;
    // The landers and the settler end when the last handle of claims is dropped.
    drop(claims);
    while landing.join_next().await.is_some() {}
    settling.await.context("the settler")?;
    last.cancel();
    keeping.await.context("the worker number's lease")
}

/// Opens the listener, and sets what clients may use.
fn intake(config: &Config) -> anyhow::Result<(TcpListener, Arc<Connections>)> {
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
    let pool =
        retried("MySQL (DATABASE_URL)", || connect::pool(url, config.database_connections)).await?;
    migrate::check_over(&pool).await?;
    Ok(pool)
}

async fn auth(config: &Config, pool: &MySqlPool, clock: Clock) -> anyhow::Result<Arc<Auth>> {
    let (tokens, keys) = (tokens(config).await?, KeyCache::new(pool.clone()));
    Ok(Arc::new(Auth::new(tokens, config.operator_key.expose(), keys, clock)))
}

async fn tokens(config: &Config) -> anyhow::Result<Tokens> {
    let rules = Rules {
        leeway_seconds: config.jwt_leeway_seconds,
        issuer: config.jwt_issuer.clone().filter(|issuer| !issuer.is_empty()),
        audience: config.jwt_audience.clone().filter(|audience| !audience.is_empty()),
    };
    rules.warn_of_what_is_not_asked();
    if config.jwks.is_empty() {
        Ok(Tokens::by_secret(config.jwt_secret.expose(), &rules))
    } else {
        Tokens::by_keys(&config.jwks, &rules).await
    }
}

async fn gate_redis(config: &Config) -> anyhow::Result<GateRedis> {
    let url = config.gate_redis_url.expose();
    retried("the gate's Redis (GATE_REDIS_URL)", || GateRedis::connect(url)).await
}

async fn view(
    config: &Config,
    pool: &MySqlPool,
) -> anyhow::Result<(ViewReader<MySqlTruth>, ViewStore)> {
    let connect = || {
        let pool = pool.clone();
        let generations: GenerationsOf = Box::new(move |served| {
            let pool = pool.clone();
            Box::pin(async move {
                let mut connection = connect::acquire(&pool).await?;
                Ok(view_generation::generations_of(&mut connection, &served).await?)
            })
        });
        ViewStore::connect(config.view_redis_url.expose(), &config.key_prefix, generations)
    };
    let store = retried("the view's Redis (VIEW_REDIS_URL)", connect).await?;
    let truth = MySqlTruth::new(pool.clone(), config.fail_points.clone());
    Ok((ViewReader::new(store.clone(), truth), store))
}

/// Learns generations of views that others have raised. Our own connection may last for weeks, and a view built under
/// an older generation is dropped by the next change, again and again. Returns whether MySQL knows the same servers of
/// the view as we do.
async fn learn_generations(pool: &MySqlPool, views: &ViewStore, was_known: bool) -> bool {
    let Some(served) = views.served() else { return was_known };
    let known = connect::within(async {
        let mut connection = connect::acquire(pool).await?;
        view_generation::known_generations(&mut connection, &served).await
    });
    match known.await {
        Ok(Some(generations)) => {
            views.learn(&generations);
            true
        }
        // Another process met another server of the view: it is misconfigured, or we are.
        Ok(None) => {
            if was_known {
                warn!("another process met another Redis as the view's: compare VIEW_REDIS_URL");
            }
            false
        }
        // The check of the clock reports this.
        Err(_) => was_known,
    }
}

/// Retries until it succeeds or [`CONNECT_FOR`] is over.
async fn retried<T, E, F>(what: &str, mut connect: impl FnMut() -> F) -> anyhow::Result<T>
where
    F: Future<Output = Result<T, E>>,
    E: std::error::Error + Send + Sync + 'static,
{
    let started = tokio::time::Instant::now();
    let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(2));
    loop {
        match connect().await {
            Ok(connected) => return Ok(connected),
            Err(error) if started.elapsed() >= CONNECT_FOR => {
                return Err(error).with_context(|| {
                    format!("{what} could not be reached for {CONNECT_FOR:?}; is it running?")
                });
            }
            Err(error) => warn!(error = runtime::report(&error), "{what} cannot be reached yet"),
        }
        backoff.wait().await;
    }
}

/// Keeps the template cache fresh from the topic. Without changes the cache relies on misses.
async fn follow_templates(templates: TemplateCache, config: Config) -> anyhow::Result<()> {
    let topic = topic::TopicNames::new(&config.topic_prefix).template();
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    loop {
        if let Err(error) = templates.follow(&config.kafka_brokers, &topic).await {
            warn!(error = runtime::report(error.as_ref()), "template changes cannot be read");
        }
        backoff.wait().await;
    }
}

/// Keeps `/readyz` current. A clock that differs from MySQL's is only logged: if MySQL's own is wrong, all apis would
/// become unready, and what the clocks decide is checked by both (a use) or passes (a window).
async fn watch_health(
    context: Context,
    (mysql, pool): (Part, MySqlPool),
    (redis, gate): (Part, Gate),
    views: ViewStore,
) -> anyhow::Result<()> {
    let (mut agreed, mut is_known) = (true, true);
    loop {
        is_known = learn_generations(&pool, &views, is_known).await;
        match skew(&pool, &context.clock).await {
            Ok(skew) => {
                mysql.ready();
                gauge!(CLOCK_SKEW).set(skew.as_seconds_f64());
                let agrees = skew.abs() <= SKEW_MAX;
                if agreed && !agrees {
                    let ms = skew.num_milliseconds();
                    warn!(clock.skew_ms = ms, "our clock is not MySQL's: set the clocks right");
                }
                agreed = agrees;
            }
            Err(error) => mysql.not_ready(runtime::report(&error)),
        }
        match gate.redis().run().await {
            Ok(_) => redis.ready(),
            Err(error) => redis.not_ready(runtime::report(&error)),
        }
        tokio::time::sleep(HEALTH_EVERY).await;
    }
}

/// Returns how far our clock is ahead of MySQL's.
async fn skew(pool: &MySqlPool, clock: &Clock) -> Result<TimeDelta, StoreError> {
    let mut connection = connect::acquire(pool).await?;
    connect::within(settings::skew(&mut connection, || clock.now())).await
}
