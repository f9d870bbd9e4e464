//! Counts answers to claims in memory: by second, template, word and latency. Never waits for anything but its lock,
//! which is not held across I/O.
//!
//! The backlog for the broker is bounded in messages and in age; dropped counts are counted as lost.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashMap},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use coupon::TemplateId;
use runtime::Clock;
use topic::{ClaimStats, OTHERS};

pub(crate) use super::answered::Answered;
use super::{buckets::Buckets, last_second::LastSecond, metric::CLAIM_STATS};

/// Most templates that are counted one by one in a second; the rest is counted together. A shop has a few sales at a
/// time, and each template is a message. The metric's description has this number.
const TEMPLATES_MAX: usize = 256;

/// Most messages that wait for the broker, of about a kilobyte: hours of one template, a minute of [`TEMPLATES_MAX`].
/// The metric's description has this number.
const WAITING_MAX: usize = 16_384;

/// Longest time that a message waits for the broker. Reports read on for as long behind their span
/// ([`super::history`]).
pub(super) const WAIT_MAX: Duration = Duration::from_secs(10 * 60);

/// Answers of one template and second. There are few different ones, so a list is faster than a map.
#[derive(Debug, Default)]
struct Tally(Vec<(Answered, Buckets)>);

impl Tally {
    fn count(&mut self, answered: Answered, took: Duration) {
        match self.0.iter_mut().find(|(known, _)| *known == answered) {
            Some((_, buckets)) => buckets.count(took),
            None => {
                let mut buckets = Buckets::default();
                buckets.count(took);
                self.0.push((answered, buckets));
            }
        }
    }

    fn total(&self) -> u64 {
        self.0.iter().map(|(_, buckets)| buckets.total()).sum()
    }

    fn answers(&self) -> BTreeMap<String, Vec<u64>> {
        let words = self.0.iter();
        words.map(|(answered, buckets)| (answered.word().to_owned(), buckets.to_wire())).collect()
    }
}

/// The second that is being counted.
#[derive(Default)]
struct Open {
    second: i64,
    templates: HashMap<TemplateId, Tally>,
    others: Tally,
    /// The last second before it that was counted.
    last: Arc<LastSecond>,
}

impl Open {
    /// Returns the counts without latencies.
    fn sums(&self) -> LastSecond {
        let sums = |tally: &Tally| tally.0.iter().map(|(word, of)| (*word, of.total())).collect();
        let templates = self.templates.iter().map(|(template, tally)| (*template, sums(tally)));
        let is_full = self.templates.len() >= TEMPLATES_MAX;
        LastSecond { second: self.second, templates: templates.collect(), is_full }
    }

    fn tally(&mut self, template: Option<TemplateId>) -> &mut Tally {
        let has_room = self.templates.len() < TEMPLATES_MAX;
        match template {
            Some(template) if has_room || self.templates.contains_key(&template) => {
                self.templates.entry(template).or_default()
            }
            _ => &mut self.others,
        }
    }
}

/// A message that the broker has not acknowledged.
struct Waits {
    since: Instant,
    second: i64,
    template: i64,
    tally: Tally,
}

impl Waits {
    fn drop_as_lost(self) {
        metrics::counter!(CLAIM_STATS.name, "fate" => "lost").increment(self.tally.total());
    }
}

/// What waits for the broker, by sequence.
#[derive(Default)]
struct Waiting {
    queue: BTreeMap<u64, Waits>,
    next: u64,
}

impl Waiting {
    fn push(&mut self, over: Open) {
        let since = Instant::now();
        let named = over.templates.into_iter().map(|(template, tally)| (template.0, tally));
        for (template, tally) in named.chain([(OTHERS, over.others)]) {
            if tally.0.is_empty() {
                continue;
            }
            self.queue.insert(self.next, Waits { since, second: over.second, template, tally });
            self.next += 1;
        }
        while self.queue.len() > WAITING_MAX {
            if let Some((_, oldest)) = self.queue.pop_first() {
                oldest.drop_as_lost();
            }
        }
    }

    /// Drops what has waited for too long. The oldest ones have the lowest numbers.
    fn forget(&mut self, now: Instant) {
        while let Some(oldest) = self.queue.first_entry() {
            if now.saturating_duration_since(oldest.get().since) < WAIT_MAX {
                return;
            }
            oldest.remove().drop_as_lost();
        }
    }
}

/// The counts of one process.
pub(crate) struct Counter {
    api: String,
    clock: Clock,
    /// Locked before `waiting`.
    open: Mutex<Open>,
    waiting: Mutex<Waiting>,
}

impl Counter {
    pub(super) fn new(api: &str, clock: Clock) -> Self {
        Self { api: api.to_owned(), clock, open: Mutex::default(), waiting: Mutex::default() }
    }

    pub(super) fn count(&self, template: Option<TemplateId>, answered: Answered, took: Duration) {
        let mut open = lock(&self.open);
        // The clock is read under the lock: otherwise two threads could alternate between two seconds.
        self.turn(&mut open, false);
        open.tally(template).count(answered, took);
    }

    /// Returns what was answered in the second before the present one. `None`: the clock was set back.
    pub(super) fn last_second(&self) -> Option<Arc<LastSecond>> {
        let mut open = lock(&self.open);
        self.turn(&mut open, false);
        let before = open.second - 1;
        match open.last.second.cmp(&before) {
            Ordering::Equal => Some(Arc::clone(&open.last)),
            Ordering::Less => Some(Arc::new(LastSecond::nothing(before))),
            Ordering::Greater => None,
        }
    }

    /// Ends the second that is counted if it is over, or in any case if `all`.
    pub(super) fn close(&self, all: bool) {
        self.turn(&mut lock(&self.open), all);
    }

    /// Ends the second if it is over. After the clock was set back, a second may get another message.
    fn turn(&self, open: &mut Open, all: bool) {
        let second = self.clock.now().timestamp();
        if second == open.second && !all {
            return;
        }
        let last = Arc::new(open.sums());
        let over = mem::replace(open, Open { second, last, ..Open::default() });
        lock(&self.waiting).push(over);
    }

    /// Returns up to `most` messages to send. They wait until they are acknowledged.
    pub(super) fn batch(&self, most: usize) -> Vec<ClaimStats> {
        let mut waiting = lock(&self.waiting);
        waiting.forget(Instant::now());
        let message = |(sequence, waits): (&u64, &Waits)| ClaimStats {
            api: self.api.clone(),
            sequence: *sequence,
            second: waits.second,
            template_id: waits.template,
            answers: waits.tally.answers(),
        };
        waiting.queue.iter().take(most).map(message).collect()
    }

    /// The broker has a message.
    pub(super) fn acknowledge(&self, sequence: u64) {
        if let Some(sent) = lock(&self.waiting).queue.remove(&sequence) {
            let fate = if sent.template == OTHERS { "others" } else { "published" };
            metrics::counter!(CLAIM_STATS.name, "fate" => fate).increment(sent.tally.total());
        }
    }

    /// Gives up what is left. Returns the number of answers.
    pub(super) fn lose_rest(&self) -> u64 {
        let rest = mem::take(&mut lock(&self.waiting).queue);
        let lost = rest.values().map(|waits| waits.tally.total()).sum();
        rest.into_values().for_each(Waits::drop_as_lost);
        lost
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::{
        super::buckets::{ACCEPTED, LANDED, REPLAYED},
        *,
    };
    use crate::code::Code;

    const MS: Duration = Duration::from_millis(1);
    const SOLD_OUT: Answered = Answered::Refused(Code::SoldOut);

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn counter() -> (Counter, Clock) {
        let clock = Clock::manual(at(100));
        (Counter::new("api-1", clock.clone()), clock)
    }

    fn total(messages: &[ClaimStats]) -> u64 {
        messages.iter().flat_map(|message| message.answers.values()).flatten().sum()
    }

    #[test]
    fn a_second_is_a_message_for_each_template_once_it_is_over() {
        let (counter, clock) = counter();
        for answered in [Answered::Landed, SOLD_OUT, SOLD_OUT] {
            counter.count(Some(TemplateId(7)), answered, MS);
        }
        counter.count(None, Answered::Refused(Code::TemplateNotFound), MS);
        counter.close(false);
        assert_eq!(counter.batch(9), [], "it is not over");
        clock.set(at(101));
        counter.close(false);
        let mut batch = counter.batch(9);
        batch.sort_by_key(|message| message.template_id);
        let [others, seven] = &batch[..] else { panic!("{batch:?}") };
        assert_eq!((others.template_id, total(std::slice::from_ref(others))), (OTHERS, 1));
        assert_eq!((seven.second, seven.template_id), (100, 7));
        assert_eq!((&seven.answers["LANDED"], &seven.answers["SOLD_OUT"]), (&vec![1], &vec![2]));
        assert_eq!(counter.batch(9).len(), 2, "what is not acknowledged is sent again");
        counter.acknowledge(seven.sequence);
        counter.acknowledge(seven.sequence);
        assert_eq!(counter.batch(9).len(), 1);
        assert_eq!(counter.lose_rest(), 1);
    }

    #[test]
    fn a_clock_that_is_set_back_counts_a_second_again_under_another_number() {
        let (counter, clock) = counter();
        for second in [100, 101, 100] {
            clock.set(at(second));
            counter.count(Some(TemplateId(7)), Answered::Landed, MS);
        }
        counter.close(true);
        let said: Vec<_> = counter.batch(9).iter().map(|one| (one.sequence, one.second)).collect();
        assert_eq!(said, [(0, 100), (1, 101), (2, 100)]);
    }

    #[test]
    fn beyond_the_most_templates_answers_are_counted_together_and_none_is_lost() {
        let (counter, _) = counter();
        let templates = i64::try_from(TEMPLATES_MAX).unwrap();
        for template in (1..=templates + 10).chain([1]) {
            counter.count(Some(TemplateId(template)), Answered::Landed, MS);
        }
        counter.close(true);
        let batch = counter.batch(usize::MAX);
        assert_eq!((batch.len(), total(&batch)), (TEMPLATES_MAX + 1, 256 + 11));
        let others = batch.iter().find(|message| message.template_id == OTHERS).unwrap();
        assert_eq!(others.answers["LANDED"], [10]);
    }

    #[test]
    fn without_a_broker_the_newest_messages_wait_and_no_more_than_the_most() {
        let (counter, clock) = counter();
        let seconds = i64::try_from(WAITING_MAX).unwrap() + 5;
        for second in 0..seconds {
            clock.set(at(second));
            counter.count(Some(TemplateId(7)), Answered::Landed, MS);
        }
        counter.close(true);
        let batch = counter.batch(usize::MAX);
        assert_eq!((batch.len(), batch[0].second), (WAITING_MAX, 5));
        lock(&counter.waiting).forget(Instant::now() + WAIT_MAX);
        assert_eq!(counter.batch(1), [], "and not for ever");
    }

    #[test]
    fn the_last_second_is_known_while_it_is_the_last() {
        let (counter, clock) = counter();
        let unsure = Answered::Refused(Code::ClaimPending);
        for answered in [Answered::Landed, SOLD_OUT, SOLD_OUT, unsure, Answered::Replayed] {
            counter.count(Some(TemplateId(7)), answered, MS);
        }
        let rates = |template| counter.last_second().unwrap().of(TemplateId(template));
        assert_eq!(rates(7).unwrap().claims, 0, "it is not over");
        clock.set(at(101));
        let seven = rates(7).unwrap();
        assert_eq!((seven.claims, seven.landed, seven.accepted, seven.undecided), (5, 1, 0, 1));
        assert_eq!(seven.refused, BTreeMap::from([("SOLD_OUT", 2)]));
        assert_eq!(rates(8).unwrap().claims, 0, "nobody claimed");
        clock.set(at(103));
        assert_eq!(rates(7).unwrap().claims, 0, "nobody has claimed since");
        clock.set(at(90));
        assert!(counter.last_second().is_none(), "the clock was set back");
        clock.set(at(104));
        for template in 1..=i64::try_from(TEMPLATES_MAX).unwrap() + 1 {
            counter.count(Some(TemplateId(template)), SOLD_OUT, MS);
        }
        clock.set(at(105));
        let beyond = i64::try_from(TEMPLATES_MAX).unwrap() + 1;
        assert_eq!((rates(1).unwrap().claims, rates(beyond)), (1, None));
    }

    #[test]
    fn no_code_is_called_as_an_answer_that_is_none() {
        for word in [LANDED, REPLAYED, ACCEPTED] {
            assert_eq!(Code::from_word(word), None, "{word}");
        }
    }
}
