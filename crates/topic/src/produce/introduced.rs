//! Partitions in which the brokers know a producer.
//!
//! A broker checks the order of a producer's batches only in a partition in which it knows the producer. In any other it
//! accepts the first batch that arrives (KIP-360). The client may have built the batch behind one that is refused, and
//! sends it then; it would come before the messages that are refused. So the first message of a partition goes alone.

use std::time::{Duration, Instant};

/// After this time without a message in a partition, the next one goes alone again. Brokers forget a producer after a day
/// (`producer.id.expiration.ms`).
const KNOWN_FOR: Duration = Duration::from_secs(3_600);

/// The partitions of a producer's topics.
#[derive(Debug)]
pub(super) struct Introduced(Vec<Topic>);

#[derive(Debug)]
struct Topic {
    name: String,
    partitions: Vec<Partition>,
}

#[derive(Debug, Clone, Copy)]
struct Partition {
    state: State,
    last: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Unknown,
    /// The first message has this number.
    Introducing(u64),
    Known,
}

impl Introduced {
    /// Nothing is known in these topics, which have so many partitions.
    pub(super) fn new(topics: impl IntoIterator<Item = (String, i32)>) -> Self {
        let unknown = Partition { state: State::Unknown, last: Instant::now() };
        let topics = topics.into_iter().map(|(name, partitions)| Topic {
            name,
            partitions: vec![unknown; usize::try_from(partitions).unwrap_or_default()],
        });
        Self(topics.collect())
    }

    /// Returns whether a message with this key may be enqueued as `number`. If so, it is noted. `is_acknowledged` is asked
    /// about numbers before it.
    pub(super) fn takes(
        &mut self,
        topic: &str,
        key: &[u8],
        number: u64,
        is_acknowledged: impl Fn(u64) -> bool,
    ) -> bool {
        let Some(partition) = self.partition(topic, key) else { return true };
        let now = Instant::now();
        let is_forgotten = now.duration_since(partition.last) > KNOWN_FOR;
        partition.state = match partition.state {
            State::Unknown => State::Introducing(number),
            // The client's queue was full, and it is tried again.
            State::Introducing(first) if first == number => State::Introducing(number),
            State::Introducing(first) if is_acknowledged(first) => State::Known,
            State::Introducing(_) => return false,
            State::Known if is_forgotten => State::Introducing(number),
            State::Known => State::Known,
        };
        partition.last = now;
        true
    }

    /// Returns the partition of a key, by the number of partitions at the start; `None` if the topic is not one of these.
    fn partition(&mut self, topic: &str, key: &[u8]) -> Option<&mut Partition> {
        let topic = self.0.iter_mut().find(|known| known.name == topic)?;
        let count = i32::try_from(topic.partitions.len()).ok()?;
        let partition = coupon::partition_of_key(key, count);
        topic.partitions.get_mut(usize::try_from(partition).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOPIC: &str = "a.topic";

    fn introduced() -> Introduced {
        Introduced::new([(TOPIC.to_owned(), 1)])
    }

    #[test]
    fn the_first_message_of_a_partition_goes_alone() {
        let mut introduced = introduced();
        assert!(introduced.takes(TOPIC, b"a", 0, |_| false));
        assert!(introduced.takes(TOPIC, b"a", 0, |_| false), "again, since the queue was full");
        assert!(!introduced.takes(TOPIC, b"b", 1, |_| false), "the first is on its way");
        assert!(introduced.takes(TOPIC, b"b", 1, |number| number == 0));
        assert!(introduced.takes(TOPIC, b"c", 2, |_| false), "it is known from then on");
        assert!(introduced.takes("another", b"a", 3, |_| false));
    }

    #[test]
    fn a_partition_that_was_quiet_for_long_is_introduced_again() {
        let mut introduced = introduced();
        introduced.takes(TOPIC, b"a", 0, |_| false);
        introduced.takes(TOPIC, b"a", 1, |_| true);
        let Some(past) = Instant::now().checked_sub(KNOWN_FOR + Duration::from_secs(1)) else {
            // The machine has not run for that long.
            return;
        };
        introduced.0[0].partitions[0].last = past;
        assert!(introduced.takes(TOPIC, b"a", 2, |_| true));
        assert!(!introduced.takes(TOPIC, b"a", 3, |_| false));
    }
}
