//! Partitions that are held up: their next batch cannot be read.
//!
//! The client reports such a batch twice a second, without its partition, and goes on with the other partitions. Some
//! damage it does not report at all. So the positions of all partitions are looked at: one that has messages and does
//! not move is held up, by the batch that was reported at its position or for a reason that is not known.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rdkafka::{
    Offset,
    consumer::{Consumer as _, StreamConsumer},
    error::KafkaResult,
    topic_partition_list::{TopicPartitionList, TopicPartitionListElem},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tracing::{debug, error, info};

use crate::{
    TopicError,
    client::{self, native},
    consume::{member::Member, offsets::REQUEST_WAIT},
};

/// Interval between two looks, which ask no broker; and the one after a batch that could not be read.
const LOOK_EVERY: Duration = Duration::from_secs(5);
const LOOK_SOON: Duration = Duration::from_secs(1);

/// Time without a message after which a partition is held up although no error was reported. Longer than a broker is
/// away when it restarts.
const SILENT_MAX: Duration = Duration::from_secs(60);

/// Age up to which a reason is kept. The client repeats one that still holds twice a second.
const REASON_LIFE: Duration = Duration::from_secs(10);

/// Most reasons that are kept, and most bytes of one.
const REASONS_MAX: usize = 64;
const REASON_BYTES_MAX: usize = 512;

/// Most partitions of which [`HeldUp::sentence`] says all.
const SAID_MAX: usize = 3;

/// What is said of a partition without a reported error.
const SILENT: &str = "no message came for a minute although there are some; its broker may be away, a producer's \
                      transaction open, or the batch damaged";

/// A partition that is held up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeldUp {
    /// Name including the prefix.
    pub topic: String,
    pub partition: i32,
    /// Offset of the message that would be read next.
    pub offset: i64,
    /// The client's or the broker's words.
    pub why: String,
}

impl fmt::Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, offset, why } = self;
        write!(
            f,
            "partition {partition} of topic {topic} is held up at offset {offset}, the others go on: {why}"
        )
    }
}

impl HeldUp {
    /// Returns a sentence about them, for people; `None` if there are none.
    pub fn sentence(all: &[Self]) -> Option<String> {
        let said: Vec<_> = all.iter().take(SAID_MAX).map(Self::to_string).collect();
        let more = all.len().saturating_sub(SAID_MAX);
        match (said.is_empty(), more) {
            (true, _) => None,
            (false, 0) => Some(said.join("; ")),
            (false, more) => Some(format!("{}; and {more} more", said.join("; "))),
        }
    }
}

/// Why batches could not be read lately, in the words of the client. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reasons(Arc<Mutex<BTreeMap<String, Instant>>>);

/// Watches the partitions of one consumer.
#[derive(Default)]
pub(crate) struct HeldUpWatch {
    reasons: Reasons,
    state: Mutex<State>,
    shown: watch::Sender<Vec<HeldUp>>,
}

type Client = StreamConsumer<Member>;

/// Name and number of a partition.
type Key = (String, i32);

/// The offset of each partition's next message; `None` before the first message.
type Positions = Vec<(Key, Option<i64>)>;

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    seen: BTreeMap<Key, Seen>,
    /// Where reading begins in partitions that have given no message yet, or whose next one was deleted.
    starts: BTreeMap<Key, i64>,
    /// The partitions whose fetching is paused.
    paused: BTreeSet<Key>,
}

/// Where a partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Offset of the message that is read next.
    next: i64,
    /// Offset after the last message, as the last fetch reported it.
    end: i64,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    place: Place,
    /// When it was first seen at `place.next`.
    since: Instant,
}

impl Reasons {
    /// Notes why a batch could not be read.
    pub(crate) fn hear(&self, reason: &str) {
        let mut reasons = self.lock();
        if reasons.len() < REASONS_MAX || reasons.contains_key(reason) {
            let end = reason.floor_char_boundary(REASON_BYTES_MAX);
            reasons.insert(reason[..end].to_owned(), Instant::now());
        }
    }

    fn are_there(&self) -> bool {
        !self.lock().is_empty()
    }

    fn of_late(&self, now: Instant) -> Vec<String> {
        let mut reasons = self.lock();
        reasons.retain(|_, heard| now.saturating_duration_since(*heard) < REASON_LIFE);
        reasons.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldUpWatch {
    pub(crate) fn reasons(&self) -> Reasons {
        self.reasons.clone()
    }

    pub(crate) fn shown(&self) -> watch::Receiver<Vec<HeldUp>> {
        self.shown.subscribe()
    }

    /// Records that fetching was paused or resumed: a paused partition is not held up.
    pub(crate) fn set_fetching(&self, topic: &str, partitions: &[i32], is_on: bool) {
        let mut state = self.lock();
        for key in partitions.iter().map(|partition| (topic.to_owned(), *partition)) {
            if is_on {
                state.paused.remove(&key);
            } else {
                state.paused.insert(key);
            }
        }
    }

    /// Looks at the positions from time to time. Poll it only while everything that has arrived is taken: a message
    /// that waits in the client would look like one that does not come. Returns after a look. Cancel-safe.
    pub(crate) async fn watch(&self, client: &Arc<Client>) {
        let pause = if self.reasons.are_there() { LOOK_SOON } else { LOOK_EVERY };
        let due = self.lock().looked.map_or_else(Instant::now, |looked| looked + pause);
        sleep_until(due).await;
        if let Err(error) = self.look_for_starts(client).await {
            debug!(error = %error, "where partitions begin is not known");
        }
        let places = self.places(client);
        let now = Instant::now();
        let reasons = self.reasons.of_late(now);
        let held_up = self.lock().look(now, places, &reasons);
        self.show(held_up);
    }

    /// Asks where reading begins in partitions that have messages and gave none yet, and in those that stand still: the
    /// topic may have deleted the messages before.
    async fn look_for_starts(&self, client: &Arc<Client>) -> Result<(), TopicError> {
        let asked = self.lock().without_start(positions(client), Instant::now());
        let has_some = |(topic, partition): &Key| {
            native::fetched_end(client.client(), topic, *partition).is_some_and(|end| end > 0)
        };
        let asked: Vec<_> = asked.into_iter().filter(|(key, _)| has_some(key)).collect();
        if asked.is_empty() {
            return Ok(());
        }
        let asking = Arc::clone(client);
        let starts = client::blocking(move || {
            let start = |(key, next): (Key, Option<i64>)| {
                let start = start_of(&asking, &key, next);
                let topic = key.0.clone();
                let start = start.map_err(|source| TopicError::Offsets { topic, source })?;
                Ok((key, start))
            };
            asked.into_iter().map(start).collect::<Result<Vec<_>, TopicError>>()
        });
        let starts = starts.await?;
        self.lock().starts.extend(starts);
        Ok(())
    }

    fn places(&self, client: &Client) -> Vec<(Key, Place)> {
        let state = self.lock();
        let place = |(key, next): (Key, Option<i64>)| {
            let end = native::fetched_end(client.client(), &key.0, key.1)?;
            let next = next.max(state.starts.get(&key).copied())?;
            Some((key, Place { next, end }))
        };
        positions(client).into_iter().filter_map(place).collect()
    }

    fn show(&self, held_up: Vec<HeldUp>) {
        let before = self.shown.borrow().clone();
        if before == held_up {
            return;
        }
        let is_of = |one: &HeldUp, all: &[HeldUp]| {
            all.iter().any(|other| (&other.topic, other.partition) == (&one.topic, one.partition))
        };
        for one in held_up.iter().filter(|one| !is_of(one, &before)) {
            let HeldUp { topic, partition, offset, .. } = one;
            error!(topic, topic.partition = partition, topic.offset = offset, "{one}");
        }
        for HeldUp { topic, partition, .. } in before.iter().filter(|one| !is_of(one, &held_up)) {
            info!(topic, topic.partition = partition, "the partition is not held up here any more");
        }
        self.shown.send_replace(held_up);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns the partitions of which it must be asked where reading begins, with the offset of the next message.
    fn without_start(&self, all: Positions, now: Instant) -> Positions {
        let is_silent = |key: &Key| {
            self.seen.get(key).is_some_and(|seen| {
                let is_still = seen.place.next < seen.place.end;
                is_still && now.saturating_duration_since(seen.since) >= SILENT_MAX
            })
        };
        let is_unknown = |(key, next): &(Key, Option<i64>)| {
            next.is_none() && !self.starts.contains_key(key) || is_silent(key)
        };
        all.into_iter().filter(is_unknown).collect()
    }

    /// Compares the places of all partitions with those of the last look.
    fn look(&mut self, now: Instant, places: Vec<(Key, Place)>, reasons: &[String]) -> Vec<HeldUp> {
        self.looked = Some(now);
        let before = std::mem::take(&mut self.seen);
        self.starts.retain(|key, _| places.iter().any(|(owned, _)| owned == key));
        let mut held_up = Vec::new();
        for (key, place) in places {
            if self.paused.contains(&key) {
                continue;
            }
            // There was a message to read at the last look, and it has not come.
            let stuck = before
                .get(&key)
                .filter(|seen| seen.place.next == place.next && seen.place.next < seen.place.end);
            let since = stuck.map_or(now, |seen| seen.since);
            self.seen.insert(key.clone(), Seen { place, since });
            let reason = reasons.iter().find(|reason| names(reason, place.next));
            let is_silent = now.saturating_duration_since(since) >= SILENT_MAX;
            let why = reason.map(String::as_str).or_else(|| is_silent.then_some(SILENT));
            if let Some(why) = why.filter(|_| stuck.is_some()) {
                let (topic, partition) = key;
                held_up.push(HeldUp { topic, partition, offset: place.next, why: why.to_owned() });
            }
        }
        held_up
    }
}

/// Returns whether a reason is about this offset.
fn names(reason: &str, offset: i64) -> bool {
    let numbers = reason.split(|letter: char| !letter.is_ascii_digit());
    numbers.filter_map(|number| number.parse().ok()).any(|number: i64| number == offset)
}

/// Returns the offset of the next message of each partition, if one was read in it.
fn positions(client: &Client) -> Positions {
    let list = client.position().unwrap_or_else(|_| TopicPartitionList::new());
    let position = |element: TopicPartitionListElem<'_>| {
        let key = (element.topic().to_owned(), element.partition());
        (key, offset_of(&element))
    };
    list.elements().into_iter().map(position).collect()
}

/// Returns where reading begins, if nothing was read yet or `next` is the next message.
fn start_of(client: &Client, (topic, partition): &Key, next: Option<i64>) -> KafkaResult<i64> {
    let (oldest, _) = client.fetch_watermarks(topic, *partition, REQUEST_WAIT)?;
    if let Some(next) = next {
        return Ok(next.max(oldest));
    }
    let mut asked = TopicPartitionList::new();
    asked.add_partition(topic, *partition);
    let committed = client.committed_offsets(asked, REQUEST_WAIT)?;
    let committed = committed.elements().first().and_then(offset_of);
    Ok(committed.map_or(oldest, |committed| committed.max(oldest)))
}

fn offset_of(element: &TopicPartitionListElem<'_>) -> Option<i64> {
    match element.offset() {
        Offset::Offset(offset) => Some(offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REASON: &str = "Decompression (codec 0x4) of message at 17 of 53 bytes failed";

    fn places(places: &[(i32, i64, i64)]) -> Vec<(Key, Place)> {
        let place = |&(partition, next, end)| (("t".to_owned(), partition), Place { next, end });
        places.iter().map(place).collect()
    }

    /// Returns the partitions that are held up after looks a second apart.
    fn held_up(looks: &[&[(i32, i64, i64)]], reasons: &[&str]) -> Vec<(i32, i64, String)> {
        let mut state = State::default();
        let start = Instant::now();
        let reasons: Vec<_> = reasons.iter().map(ToString::to_string).collect();
        let mut last = Vec::new();
        for (second, look) in (0..).zip(looks) {
            last = state.look(start + Duration::from_secs(second), places(look), &reasons);
        }
        last.into_iter().map(|one| (one.partition, one.offset, one.why)).collect()
    }

    #[test]
    fn the_partition_that_stays_at_the_reported_offset_is_the_one_that_is_held_up() {
        let first = [(0, 17, 17), (1, 17, 30), (2, 17, 30), (3, 40, 50)];
        let then = [(0, 17, 18), (1, 17, 30), (2, 19, 30), (3, 40, 50)];
        let expected = [(1, 17, REASON.to_owned())];
        assert_eq!(held_up(&[&first, &then], &[REASON]), expected);
        assert_eq!(held_up(&[&then], &[REASON]), [], "one look sees no standstill");
        let over = [(1, 25, 30)];
        assert_eq!(held_up(&[&first, &then, &over], &[REASON]), []);
    }

    #[test]
    fn a_partition_that_stands_still_for_a_minute_is_held_up_without_a_reported_error() {
        let still_and_idle = [(0, 3, 9), (1, 9, 9)];
        let looks = vec![&still_and_idle[..]; 61];
        assert_eq!(held_up(&looks, &[]), [(0, 3, SILENT.to_owned())]);
        assert_eq!(held_up(&looks[1..], &[]), []);
    }

    #[test]
    fn where_reading_begins_is_asked_once_and_again_at_a_standstill() {
        let mut state = State::default();
        let start = Instant::now();
        let key = |partition| ("t".to_owned(), partition);
        let asked = |state: &State, now| {
            let asked = state.without_start(vec![(key(0), None), (key(1), Some(3))], now);
            asked.into_iter().map(|((_, partition), _)| partition).collect::<Vec<_>>()
        };
        assert_eq!(asked(&state, start), [0]);
        state.starts.insert(key(0), 9);
        state.look(start, places(&[(0, 9, 9), (1, 3, 9)]), &[]);
        assert!(asked(&state, start).is_empty());
        assert_eq!(asked(&state, start + SILENT_MAX), [1]);
    }

    #[test]
    fn a_partition_that_is_paused_or_was_given_up_is_not_held_up() {
        let watch = HeldUpWatch::default();
        let now = Instant::now();
        let reasons = [REASON.to_owned()];
        let look = || watch.lock().look(now, places(&[(1, 17, 30)]), &reasons).len();
        watch.set_fetching("t", &[1], false);
        assert_eq!([look(), look()], [0, 0]);
        watch.set_fetching("t", &[1], true);
        assert_eq!([look(), look()], [0, 1]);
        assert!(watch.lock().look(now, Vec::new(), &reasons).is_empty());
        assert_eq!(look(), 0, "it came back");
    }
}
