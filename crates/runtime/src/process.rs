//! The life cycle of a process: [`run`].
//!
//! 1. Logging, metrics, spans and the admin listener start. If one of them cannot, the process exits with 1.
//! 2. The body runs. It connects, spawns its long-lived parts by [`Context::spawn`] and then waits for
//!    [`Context::stopping`].
//! 3. SIGTERM or SIGINT makes the process report not ready. After SIGTERM it works on for [`ProcessConfig::leave`], unless a
//!    second signal comes. Then the stop token is cancelled, the body drains its parts in its own order and returns; the
//!    exit code is 0.
//! 4. A part that ends by itself counts as a crash: the stop token is cancelled, the body drains, and the process exits
//!    with code 1. A drain longer than [`DRAIN_MAX`] also ends it with code 1.

use std::{convert::Infallible, future::Future, process::ExitCode, time::Duration};

use anyhow::Context as _;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::{
    AdminRoutes, COMMIT, Clock, Health, Part, ProcessConfig, VERSION, admin, metric, report,
    small_pages::use_small_pages, telemetry, trace,
};

/// Time limit for draining: longer than the longest statement or produce timeout (10 s), shorter than the 60 s after
/// which service managers kill.
pub const DRAIN_MAX: Duration = Duration::from_secs(30);

/// Time limit for a drained process's remaining threads to end. They take milliseconds.
const THREADS_MAX: Duration = Duration::from_secs(5);

/// The context that a process passes to its parts.
#[derive(Clone)]
pub struct Context {
    pub clock: Clock,
    pub health: Health,
    /// What the process adds to its admin listener.
    pub admin: AdminRoutes,
    /// Cancelled when the process is to stop.
    stop: CancellationToken,
    /// Receives the failure of a part that ended.
    ended: mpsc::UnboundedSender<anyhow::Error>,
}

impl Context {
    /// Resolves when the process is to stop.
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    /// Returns the token behind [`Context::stopping`], for loops that select on it.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Runs a long-lived part. If it ends or panics before the process is stopping, the process exits with 1.
    pub fn spawn<F>(&self, name: &'static str, part: F)
    where
        F: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let ended = self.ended.clone();
        let part = tokio::spawn(part);
        tokio::spawn(async move {
            let failure = match part.await {
                Ok(Ok(())) => anyhow::anyhow!("part {name} ended by itself"),
                Ok(Err(error)) => error.context(format!("part {name}")),
                Err(panic) => anyhow::Error::new(panic).context(format!("part {name} panicked")),
            };
            // Once the process is stopping, failures are no longer read.
            drop(ended.send(failure));
        });
    }
}

/// Runs `body` as the process `name`. The module documentation describes the sequence.
pub async fn run<F, B>(name: &'static str, config: &ProcessConfig, body: B) -> ExitCode
where
    B: FnOnce(Context) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    let ended = try_run(name, config, body).await;
    trace::end().await;
    let code = match ended {
        Ok(()) => {
            info!(process = name, "stopped");
            0
        }
        Err(failure) => {
            error!(process = name, error = report(failure.as_ref()), "failed");
            1
        }
    };
    // Everything is drained. Threads of Kafka's client may remain. They sleep by the wall clock: if it was set back by
    // an hour, they would delay the exit by an hour.
    std::thread::spawn(move || {
        std::thread::sleep(THREADS_MAX);
        std::process::exit(code.into())
    });
    ExitCode::from(code)
}

async fn try_run<F, B>(name: &'static str, config: &ProcessConfig, body: B) -> anyhow::Result<()>
where
    B: FnOnce(Context) -> F,
    F: Future<Output = anyhow::Result<()>>,
{
    telemetry::start_logging(config)?;
    use_small_pages();
    let metrics = telemetry::start_metrics()?;
    metric::describe(&metric::OF_EVERY_PROCESS);
    metric::show_build();
    trace::start(name, config)?;
    let (ended, mut first_ended) = mpsc::unbounded_channel();
    let context = Context {
        clock: Clock::system(),
        health: Health::default(),
        admin: AdminRoutes::default(),
        stop: CancellationToken::new(),
        ended,
    };
    let process = context.health.part("process");
    let admin_stop = CancellationToken::new();
    let listener = TcpListener::bind(config.admin_listen).await.with_context(|| {
        format!("the admin address {} cannot be used (ADMIN_LISTEN)", config.admin_listen)
    })?;
    let address = listener.local_addr()?;
    info!(process = name, version = VERSION, commit = COMMIT, admin.address = %address, "started");
    let health = context.health.clone();
    let further = context.admin.clone();
    let token = admin_stop.clone();
    context.spawn("admin", async move {
        let served = admin::serve(name, listener, health, further, metrics, token);
        served.await.context("admin listener")
    });
    let stop = context.stop.clone();
    let body = body(context);
    tokio::pin!(body);
    // Polled after the body's first steps, which add its parts. Before that, `/readyz` would report ready without them.
    let begun = async {
        process.ready();
        std::future::pending::<Infallible>().await
    };
    let first = tokio::select! {
        biased;
        ended = &mut body => return ended.and_then(|()| if stop.is_cancelled() { Ok(()) } else {
            Err(anyhow::anyhow!("the process ended although nobody asked it to"))
        }),
        never = begun => match never {},
        Some(failure) = first_ended.recv() => Err(failure),
        signal = stop_signal(&process, config.leave) => signal.map(|name| info!(signal = name, "draining")),
    };
    process.not_ready("stopping");
    stop.cancel();
    let drained = tokio::time::timeout(DRAIN_MAX, body).await;
    admin_stop.cancel();
    first?;
    drained.with_context(|| format!("draining took longer than {DRAIN_MAX:?}"))?
}

/// Waits for a signal to stop, and behind SIGTERM for `leave`: balancers see that the process is not ready before it
/// refuses connections. A second signal ends this.
async fn stop_signal(process: &Part, leave: Duration) -> anyhow::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate()).context("SIGTERM handler")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("SIGINT handler")?;
    tokio::select! {
        _ = interrupt.recv() => return Ok("SIGINT"),
        _ = terminate.recv() => {}
    }
    if !leave.is_zero() {
        process.not_ready("leaving: it still answers");
        info!(seconds = leave.as_secs(), "not ready any more; still answering");
    }
    tokio::select! {
        () = tokio::time::sleep(leave) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok("SIGTERM")
}
