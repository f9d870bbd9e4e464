//! Messages as a consumer receives them: which row, and when.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rdkafka::{Message as _, consumer::BaseConsumer};
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use super::broker::Broker;

/// How long a poll blocks before the stop flag is checked.
const POLL: Duration = Duration::from_millis(100);

/// Polling interval for arrived rows.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The part of any contender's message that is needed here.
#[derive(Deserialize)]
struct Changed {
    after: Row,
}

#[derive(Deserialize)]
struct Row {
    id: i64,
}

/// Arrivals in a topic since this was created. Dropping it stops the reader.
pub struct Arrivals {
    state: Arc<State>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    stop: AtomicBool,
    came: Mutex<Came>,
}

#[derive(Default)]
struct Came {
    /// When the first message of each row arrived.
    at: HashMap<i64, Instant>,
    failed: Option<anyhow::Error>,
}

impl Arrivals {
    /// Starts reading from the topic's current end.
    pub fn follow(broker: &Broker, topic: &str) -> Result<Self> {
        let consumer = broker.follow(topic)?;
        let state = Arc::new(State::default());
        let reader = {
            let state = Arc::clone(&state);
            thread::spawn(move || {
                let failed = state.read(&consumer).err();
                state.came().failed = failed;
            })
        };
        Ok(Self { state, reader: Some(reader) })
    }

    /// When a row's first message arrived.
    pub fn at(&self, id: i64) -> Option<Instant> {
        self.state.came().at.get(&id).copied()
    }

    /// Waits until all of these rows have arrived. Returns false if some have not after `within`.
    ///
    /// # Errors
    /// A message could not be read.
    pub async fn all(&self, ids: &[i64], within: Duration) -> Result<bool> {
        let deadline = Instant::now() + within;
        loop {
            {
                let mut came = self.state.came();
                if let Some(error) = came.failed.take() {
                    bail!(error);
                }
                if ids.iter().all(|id| came.at.contains_key(id)) {
                    return Ok(true);
                }
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            sleep(LOOK_EVERY).await;
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        self.state.stop.store(true, Ordering::Relaxed);
        if let Some(reader) = self.reader.take() {
            // After a panic, rows are missing, which was reported already.
            drop(reader.join());
        }
    }
}

impl State {
    fn came(&self) -> MutexGuard<'_, Came> {
        self.came.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, consumer: &BaseConsumer) -> Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(message) = consumer.poll(POLL) else { continue };
            let message = message?;
            let at = Instant::now();
            let changed: Changed = serde_json::from_slice(message.payload().unwrap_or_default())
                .context("a message without the row's id")?;
            self.came().at.entry(changed.after.id).or_insert(at);
        }
        Ok(())
    }
}
