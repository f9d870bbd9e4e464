//! [`Running`]: a process of the platform as a task of its test.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use runtime::Health;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::until::{STATE_MAX, until};

/// Parts that are not ready, with their reasons.
type Unready = BTreeMap<&'static str, String>;

/// A process that runs in this one.
pub struct Running {
    task: JoinHandle<anyhow::Result<()>>,
    stop: CancellationToken,
    health: Health,
    /// Why it ended, once it has.
    ended: Arc<OnceLock<String>>,
}

impl Running {
    /// Starts `run`, which ends when the token is cancelled and reports to `health`. The caller registers the parts
    /// that [`Running::until_ready`] must not miss: the task may not have run yet.
    pub fn start<R>(health: &Health, run: impl FnOnce(CancellationToken) -> R) -> Self
    where
        R: Future<Output = anyhow::Result<()>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let ended = Arc::new(OnceLock::new());
        let process = run(stop.clone());
        let why = Arc::clone(&ended);
        let task = tokio::spawn(async move {
            let end = process.await;
            why.get_or_init(|| match &end {
                Ok(()) => "in order".to_owned(),
                Err(error) => format!("{error:#}"),
            });
            end
        });
        Self { task, stop, health: health.clone(), ended }
    }

    /// Waits until every part is ready.
    ///
    /// # Panics
    /// One is not within [`STATE_MAX`], or the process ended.
    pub async fn until_ready(&self) {
        self.until(BTreeMap::is_empty).await;
    }

    /// Waits until a part is ready.
    ///
    /// # Panics
    /// As [`Running::until_ready`].
    pub async fn until_part_ready(&self, part: &str) {
        self.until(|unready| !unready.contains_key(part)).await;
    }

    /// Waits until a part is not ready for a reason that contains `words`, and returns the reason.
    ///
    /// # Panics
    /// As [`Running::until_ready`].
    pub async fn until_unready(&self, part: &str, words: &str) -> String {
        let is_so = |unready: &Unready| unready.get(part).is_some_and(|why| why.contains(words));
        self.until(is_so).await[part].clone()
    }

    /// Whether every part is ready now.
    pub fn is_ready(&self) -> bool {
        self.health.unready().is_empty()
    }

    async fn until(&self, is_so: impl Fn(&Unready) -> bool) -> Unready {
        let look = async || {
            assert!(!self.task.is_finished(), "it ended: {:?}", self.ended.get());
            self.health.unready()
        };
        until(look, is_so).await
    }

    /// Stops it in order and waits for its end.
    ///
    /// # Errors
    /// Its own.
    ///
    /// # Panics
    /// It does not end within [`STATE_MAX`], or panicked.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.stop.cancel();
        self.ended().await
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// Its own.
    ///
    /// # Panics
    /// As [`Running::stop`].
    pub async fn ended(self) -> anyhow::Result<()> {
        timeout(STATE_MAX, self.task).await.expect("it ends").unwrap()
    }

    /// Waits for its end, which `cause` must bring about.
    ///
    /// # Errors
    /// Its own.
    ///
    /// # Panics
    /// As [`Running::stop`]. The message contains the cause.
    pub async fn ended_by(self, cause: &str) -> anyhow::Result<()> {
        let ended = timeout(STATE_MAX, self.task).await;
        ended.unwrap_or_else(|_| panic!("it goes on after: {cause}")).unwrap()
    }

    /// Waits until it fails, and returns the error with its causes.
    ///
    /// # Panics
    /// As [`Running::stop`], or it ended in order.
    pub async fn failed(self) -> String {
        format!("{:#}", self.ended().await.unwrap_err())
    }

    /// Aborts it wherever it is, without waiting.
    pub fn abort(self) {
        self.task.abort();
    }

    /// Aborts it wherever it is, and waits until it is gone.
    pub async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }
}
