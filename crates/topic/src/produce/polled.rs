//! A producer with a thread that takes its acknowledgements.
//!
//! The library's own (`ThreadedProducer`, and `FutureProducer` on top of it) polls for 100 ms at a time. It rounds the
//! remaining time of a poll down to whole milliseconds, so it spins in the last one: about a hundredth of a core in
//! every process, busy or idle (docs/decisions/0083).

use std::{
    io,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use rdkafka::{
    ClientConfig,
    client::Client,
    config::FromClientConfigAndContext,
    error::{KafkaError, KafkaResult},
    producer::{BaseProducer, Producer as _, ProducerContext, PurgeConfig},
    types::RDKafkaErrorCode,
};
use tracing::warn;

use crate::client;

/// Duration of a poll. An acknowledgement is taken at once; a dropped producer's connections are closed after the poll.
const POLL: Duration = Duration::from_millis(250);

/// A [`BaseProducer`] that is polled until it is dropped. Messages not sent by then are never sent.
pub(crate) struct Polled<C: ProducerContext + 'static> {
    producer: Arc<BaseProducer<C>>,
    is_dropped: Arc<AtomicBool>,
    /// `Some` until it is dropped.
    thread: Option<Polling>,
}

impl<C: ProducerContext + 'static> Polled<C> {
    pub(crate) fn client(&self) -> &Client<C> {
        self.producer.client()
    }
}

impl<C: ProducerContext + 'static> FromClientConfigAndContext<C> for Polled<C> {
    fn from_config_and_context(config: &ClientConfig, context: C) -> KafkaResult<Self> {
        let producer = Arc::new(BaseProducer::from_config_and_context(config, context)?);
        let is_dropped = Arc::<AtomicBool>::default();
        let polled = Arc::clone(&producer);
        let ends = Arc::clone(&is_dropped);
        let poll = move || {
            while !ends.load(Ordering::Relaxed) {
                polled.poll(POLL);
            }
        };
        let thread = thread::Builder::new().name("acknowledgements".to_owned());
        let thread = Polling(Some(thread.spawn(poll).map_err(no_thread)?));
        Ok(Self { producer, is_dropped, thread: Some(thread) })
    }
}

fn no_thread(error: io::Error) -> KafkaError {
    warn!(error = %error, "no thread for the acknowledgements of a producer");
    KafkaError::ClientCreation(RDKafkaErrorCode::CriticalSystemResource.to_string())
}

impl<C: ProducerContext + 'static> Deref for Polled<C> {
    type Target = BaseProducer<C>;

    fn deref(&self) -> &Self::Target {
        &self.producer
    }
}

impl<C: ProducerContext + 'static> Drop for Polled<C> {
    fn drop(&mut self) {
        self.is_dropped.store(true, Ordering::Relaxed);
        // Abandoned messages must not be sent after a successor's.
        self.producer.purge(PurgeConfig::default().queue().inflight());
        // With a reference, so that the last one is not dropped here, whenever the thread ends.
        client::closing::close_aside((self.thread.take(), Arc::clone(&self.producer)));
    }
}

/// The thread that polls, joined when dropped.
struct Polling(Option<JoinHandle<()>>);

impl Drop for Polling {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|thread| thread.join().is_err()) {
            warn!("the thread for the acknowledgements of a producer panicked");
        }
    }
}
