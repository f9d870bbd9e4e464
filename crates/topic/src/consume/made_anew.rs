//! Whether a topic is still the one whose messages were read.
//!
//! A topic that is deleted and made anew keeps its name, and the offsets that a member has of the old one stand for
//! other messages of the new one, or for none yet. A member that goes on there skips what comes before. Brokers give
//! each topic an id, so a member compares it from time to time, and so does the reader of a whole topic.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, RwLock, Weak},
    time::Duration,
};

use rdkafka::{
    Offset,
    consumer::{CommitMode, Consumer as _, ConsumerContext, StreamConsumer},
    error::KafkaResult,
    topic_partition_list::TopicPartitionList,
};
use tokio::{sync::watch, time::sleep};
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, warn};

use crate::{
    TopicError, client,
    client::native::{self, TopicId},
    consume::member::{Assignment, Member},
};

/// Interval between looks. Each asks a broker once.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Longest wait for the answer.
const LOOK_MAX: Duration = Duration::from_secs(3);

type Client = StreamConsumer<Member>;

/// What the looks at the topics have found.
#[derive(Debug, Default)]
enum Found {
    #[default]
    Nothing,
    /// A topic was made anew, and the member's offsets are being set. Nothing more is stored.
    Rewinding,
    /// The member's offsets in this topic are those of its beginning.
    Rewound(String),
}

/// Whether the looks are over. Locked during a look.
type AreOver = Arc<Mutex<bool>>;

/// Watches the topics of a member. Ends with it.
pub(super) struct MadeAnew {
    found: watch::Receiver<Found>,
    are_over: AreOver,
    _watch: AbortOnDropHandle<()>,
}

/// The topics' ids, as far as they are known.
pub(super) type Ids = BTreeMap<String, TopicId>;

/// Asks for the ids of topics.
pub(super) fn ids<C: ConsumerContext>(client: &StreamConsumer<C>, topics: &[String]) -> Ids {
    native::topic_ids(client.client(), topics, LOOK_MAX).into_iter().collect()
}

/// Looks at a topic that had these ids when its reader was opened; resolves once it is another one.
pub(super) async fn until_made_anew<C: ConsumerContext + 'static>(
    client: Weak<StreamConsumer<C>>,
    topic: String,
    mut known: Ids,
) -> TopicError {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(client) = client.upgrade() else { continue };
        let topics = [topic.clone()];
        let now = client::blocking(move || Ok(ids(&client, &topics))).await.unwrap_or_default();
        if now.iter().any(|(topic, id)| known.get(topic).is_some_and(|was| was != id)) {
            return TopicError::MadeAnew { topic };
        }
        known.extend(now);
    }
}

impl MadeAnew {
    /// Begins to watch topics that had these ids when the member joined.
    pub(super) fn watch(
        client: &Arc<RwLock<Arc<Client>>>,
        topics: Vec<String>,
        known: Ids,
        owned: watch::Receiver<Assignment>,
    ) -> Self {
        let (found, seen) = watch::channel(Found::default());
        let are_over = AreOver::default();
        let watched = Watched { client: Arc::downgrade(client), are_over: Arc::clone(&are_over) };
        let task = tokio::spawn(look(watched, topics, known, owned, found));
        Self { found: seen, are_over, _watch: AbortOnDropHandle::new(task) }
    }

    /// Waits for the end of a look, and keeps others from beginning: nobody else uses the client from then on. Blocks.
    pub(super) fn end(&self) {
        *self.are_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Whether a topic was made anew. What was read of it must not be stored any more.
    pub(super) fn is_found(&self) -> bool {
        !matches!(*self.found.borrow(), Found::Nothing)
    }

    /// Returns the error once a topic was made anew, and the member's offsets in it are those of its beginning.
    pub(super) fn error(&self) -> Option<TopicError> {
        match &*self.found.borrow() {
            Found::Rewound(topic) => Some(TopicError::MadeAnew { topic: topic.clone() }),
            Found::Nothing | Found::Rewinding => None,
        }
    }

    /// Resolves with that error.
    pub(super) async fn found(&self) -> TopicError {
        let mut found = self.found.clone();
        loop {
            if let Some(error) = self.error() {
                return error;
            }
            if found.changed().await.is_err() {
                // Nothing is watched, or the runtime ends.
                std::future::pending::<()>().await;
            }
        }
    }
}

async fn look(
    watched: Watched,
    topics: Vec<String>,
    mut known: Ids,
    owned: watch::Receiver<Assignment>,
    found: watch::Sender<Found>,
) {
    while !topics.is_empty() {
        sleep(LOOK_EVERY).await;
        let names = topics.clone();
        let Some(now) = watched.with_client(move |client| ids(client, &names)).await else {
            return;
        };
        let other = now.iter().find(|(topic, id)| known.get(*topic).is_some_and(|was| was != *id));
        let Some((topic, _)) = other else {
            known.extend(now);
            continue;
        };
        // From here on nothing more is stored.
        found.send_replace(Found::Rewinding);
        let partitions = owned.borrow().of(topic);
        error!(topic, ?partitions, "a topic was made anew: it is read from its beginning");
        let name = topic.clone();
        let rewind = move |client: &Client| begin_anew(client, &name, &partitions);
        match watched.with_client(rewind).await {
            Some(Ok(())) => {
                found.send_replace(Found::Rewound(topic.clone()));
                return;
            }
            Some(Err(error)) => {
                warn!(topic, error = %error, "offsets are not set to the beginning yet");
            }
            None => return,
        }
    }
}

/// The client of a member that may end at any moment.
#[derive(Clone)]
struct Watched {
    client: Weak<RwLock<Arc<Client>>>,
    are_over: AreOver,
}

impl Watched {
    /// Calls the client on a blocking thread; `None` if the member has ended.
    async fn with_client<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Client) -> T + Send + 'static,
    ) -> Option<T> {
        let watched = self.clone();
        let called = client::blocking(move || {
            let are_over = watched.are_over.lock().unwrap_or_else(PoisonError::into_inner);
            let member = watched.client.upgrade().filter(|_| !*are_over);
            let client = member
                .map(|member| Arc::clone(&member.read().unwrap_or_else(PoisonError::into_inner)));
            Ok(client.map(|client| call(&client)))
        });
        called.await.ok().flatten()
    }
}

fn begin_anew(client: &Client, topic: &str, partitions: &[i32]) -> KafkaResult<()> {
    let mut beginning = TopicPartitionList::new();
    for partition in partitions {
        // The client adds 1, and would commit an older offset again that is still stored. A partition that is being given
        // up has none stored.
        drop(client.store_offset(topic, *partition, -1));
        beginning.add_partition_offset(topic, *partition, Offset::Offset(0))?;
    }
    if partitions.is_empty() {
        return Ok(());
    }
    client.commit(&beginning, CommitMode::Sync)
}
