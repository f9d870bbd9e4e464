//! I1: no oversell at any moment, sampled repeatedly during the load.

use std::time::Duration;

use mysql_store::{MySqlPool, connect, verify};
use tokio::{sync::oneshot, task::JoinHandle, time};

use crate::{
    Outcome,
    checks::account,
    outcome::{Findings, count},
};

/// Pause between two samples: short enough for hundreds of samples in a test, long enough not to
/// load the server.
const PAUSE: Duration = Duration::from_millis(50);

/// Samples every template's balance until stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: oneshot::Sender<()>,
    looking: JoinHandle<Outcome>,
}

impl Sampler {
    /// Starts sampling.
    pub fn start(pool: MySqlPool) -> Self {
        let (stop, stopped) = oneshot::channel();
        Self { stop, looking: tokio::spawn(look(pool, stopped)) }
    }

    /// Stops sampling and returns the outcome.
    ///
    /// # Panics
    /// The sampling task panicked.
    pub async fn stop(self) -> Outcome {
        self.stop.send(()).ok();
        self.looking.await.expect("looking does not panic")
    }
}

async fn look(pool: MySqlPool, mut stopped: oneshot::Receiver<()>) -> Outcome {
    let mut findings = Findings::of("I1", "no oversell at any moment");
    let mut looks = 0;
    loop {
        // MySQL may be down in a fault test; skip this sample.
        if let Ok(balances) = balances(&pool).await {
            looks += 1;
            findings.report(balances.iter().filter_map(account::balance));
        }
        if time::timeout(PAUSE, &mut stopped).await.is_ok() {
            return findings.over(count(looks, "look"));
        }
    }
}

async fn balances(pool: &MySqlPool) -> Result<Vec<verify::Balance>, mysql_store::StoreError> {
    verify::balances(&mut *connect::acquire(pool).await?).await
}
