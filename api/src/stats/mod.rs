//! Statistics of the answers to claims. A claim is counted in memory ([`counter`]); each second's counts go to their
//! topic ([`publisher`]), and reports read them there ([`history`], [`aggregate`]).
//!
//! Decision 0056 says why they are on a topic and what a lost broker costs.

pub(crate) mod aggregate;
mod answered;
pub(crate) mod buckets;
pub(crate) mod counter;
pub(crate) mod history;
pub(crate) mod last_second;
pub(crate) mod metric;
pub mod price;
mod publisher;

use std::{sync::Arc, time::Duration};

use coupon::TemplateId;
use runtime::Clock;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use topic::TopicNames;

use counter::{Answered, Counter};
use history::History;
use last_second::LastSecond;

use crate::config::Config;

/// The statistics of this process, and the reader of all processes'.
pub(crate) struct Stats {
    counter: Arc<Counter>,
    pub(crate) history: History,
}

/// Starts counting as `api`, a name that no other process has, and publishing until `stop` is cancelled. The task then
/// sends what is left, for a moment, and ends.
pub(crate) fn start(
    config: &Config,
    api: &str,
    clock: Clock,
    stop: CancellationToken,
) -> (Stats, JoinHandle<()>) {
    let topic = TopicNames::new(&config.topic_prefix).claim_stats();
    let brokers = config.kafka_brokers.as_str();
    let counter = Arc::new(Counter::new(api, clock));
    let publishing =
        publisher::publish(Arc::clone(&counter), brokers.to_owned(), topic.clone(), stop);
    let stats = Stats { counter, history: History::new(brokers, topic) };
    (stats, tokio::spawn(publishing))
}

impl Stats {
    /// Counts an answer to a claim. `None`: an unknown template. Never waits for the broker.
    pub(crate) fn count(&self, template: Option<TemplateId>, answered: Answered, took: Duration) {
        self.counter.count(template, answered, took);
    }

    /// Returns what this process answered in the last whole second. `None`: its clock was set back.
    pub(crate) fn last_second(&self) -> Option<Arc<LastSecond>> {
        self.counter.last_second()
    }
}
