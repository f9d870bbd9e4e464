//! Adds up the messages of one template, by steps of a span. Pure: the reader of the topic is in [`super::history`].

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::{ControlFlow, Range},
};

use coupon::TemplateId;
use topic::ClaimStats;

use super::buckets::{Answers, Buckets};
use crate::code::Code;

/// Most messages of the template that are added up: four days of one api that answers in every second. It bounds the
/// memory, of which each message needs some tens of bytes.
pub(crate) const MESSAGES_MAX: usize = 400_000;

/// One in this many answers is a straggler at each end: users try long before a sale and long after it, and a course that
/// showed them would show the sale as one bar.
const STRAGGLERS: u64 = 100;

/// A span in steps. All in seconds since 1970; `from` and `to` are multiples of `step`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: i64,
    /// Exclusive, and above `from`.
    pub(crate) to: i64,
    /// 1 or more.
    pub(crate) step: i64,
}

impl Span {
    /// Returns the smallest span of whole steps that contains the seconds from `from` and before `to`.
    pub(crate) fn around(from: i64, to: i64, step: i64) -> Self {
        let begin = |second: i64| second.div_euclid(step) * step;
        Self { from: begin(from), to: begin(to - 1) + step, step }
    }

    pub(crate) fn steps(&self) -> usize {
        usize::try_from((self.to - self.from) / self.step).unwrap_or(0)
    }

    /// Returns the begin of each step.
    pub(crate) fn begins(&self) -> impl Iterator<Item = i64> {
        let from = self.from;
        let step = self.step;
        (0..i64::try_from(self.steps()).unwrap_or(0)).map(move |number| from + number * step)
    }

    fn step_of(&self, second: i64) -> Option<usize> {
        let is_inside = (self.from..self.to).contains(&second);
        is_inside.then(|| usize::try_from((second - self.from) / self.step).ok()).flatten()
    }
}

/// The sums of one template over a span.
#[derive(Debug)]
pub(crate) struct Aggregate {
    key: String,
    template: i64,
    pub(crate) span: Span,
    steps: Vec<Answers>,
    /// Answers of each second that has any.
    seconds: BTreeMap<i64, u64>,
    sold_out_at: Option<i64>,
    /// The messages counted, by api.
    seen: HashMap<String, HashSet<u64>>,
    messages: usize,
    /// Messages that could not be read.
    pub(crate) unreadable: u64,
}

/// The second with the most answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peak {
    pub(crate) second: i64,
    pub(crate) answers: u64,
}

impl Aggregate {
    pub(crate) fn new(template: TemplateId, span: Span) -> Self {
        Self {
            key: template.to_string(),
            template: template.0,
            span,
            steps: vec![Answers::default(); span.steps()],
            seconds: BTreeMap::new(),
            sold_out_at: None,
            seen: HashMap::new(),
            messages: 0,
            unreadable: 0,
        }
    }

    /// Takes a message of the topic. Those of other templates are passed over. `Break`: [`MESSAGES_MAX`] is reached.
    pub(crate) fn take(&mut self, key: &[u8], payload: &[u8]) -> ControlFlow<()> {
        if key != self.key.as_bytes() {
            return ControlFlow::Continue(());
        }
        match topic::decode::<ClaimStats>(payload) {
            Ok(message) => self.add(message),
            Err(_) => self.unreadable += 1,
        }
        if self.messages < MESSAGES_MAX {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }

    /// Adds a message, once.
    pub(crate) fn add(&mut self, message: ClaimStats) {
        let Some(step) = self.span.step_of(message.second) else { return };
        if message.template_id != self.template
            || !self.seen.entry(message.api).or_default().insert(message.sequence)
        {
            return;
        }
        self.messages += 1;
        let second = message.second;
        for (word, counts) in message.answers {
            let buckets = Buckets::of_wire(&counts);
            let in_second = self.seconds.entry(second).or_default();
            *in_second = in_second.saturating_add(buckets.total());
            if word == Code::SoldOut.word() && buckets.total() > 0 {
                self.sold_out_at = Some(self.sold_out_at.map_or(second, |at| at.min(second)));
            }
            self.steps[step].add(word, &buckets);
        }
    }

    /// Returns the sums of each step.
    pub(crate) fn steps(&self) -> &[Answers] {
        &self.steps
    }

    /// Returns the sums of the whole span.
    pub(crate) fn whole(&self) -> Answers {
        let mut whole = Answers::default();
        self.steps.iter().for_each(|step| whole.merge(step));
        whole
    }

    /// Returns the first second with the most answers, of those from `from` and before `to`; `None` if there is no
    /// answer.
    pub(crate) fn peak(&self, from: i64, to: i64) -> Option<Peak> {
        let mut peak: Option<Peak> = None;
        for (&second, &answers) in self.seconds.range(from..to) {
            if answers > peak.map_or(0, |peak| peak.answers) {
                peak = Some(Peak { second, answers });
            }
        }
        peak
    }

    /// Returns the seconds of nearly all answers, without stragglers. `None`: there are no answers.
    pub(crate) fn busy(&self) -> Option<Range<i64>> {
        let total = self.seconds.values().fold(0_u64, |total, more| total.saturating_add(*more));
        let cut = total / STRAGGLERS;
        let mut passed = 0_u64;
        let mut first = None;
        for (&second, &answers) in &self.seconds {
            passed = passed.saturating_add(answers);
            if passed > cut {
                first = first.or(Some(second));
            }
            if passed >= total - cut {
                return first.map(|first| first..second + 1);
            }
        }
        None
    }

    /// Returns the number of answers in each step of a span, which may be another one than that of the sums.
    pub(crate) fn course(&self, span: Span) -> Vec<u64> {
        let mut course = vec![0_u64; span.steps()];
        for (&second, &answers) in &self.seconds {
            if let Some(step) = span.step_of(second) {
                course[step] = course[step].saturating_add(answers);
            }
        }
        course
    }

    /// Returns the first second in which a claim was answered that nothing is left.
    pub(crate) fn sold_out_at(&self) -> Option<i64> {
        self.sold_out_at
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    const TEMPLATE: TemplateId = TemplateId(7);

    fn message(api: &str, sequence: u64, second: i64, words: &[(&str, u64)]) -> ClaimStats {
        let answers = words.iter().map(|(word, count)| ((*word).to_owned(), vec![*count]));
        ClaimStats {
            api: api.to_owned(),
            sequence,
            second,
            template_id: TEMPLATE.0,
            answers: answers.collect(),
        }
    }

    #[test]
    fn a_span_is_made_of_whole_steps() {
        let span = Span::around(119, 181, 60);
        assert_eq!(span, Span { from: 60, to: 240, step: 60 });
        assert_eq!(span.begins().collect::<Vec<_>>(), [60, 120, 180]);
        assert_eq!(Span::around(120, 180, 60).steps(), 1);
    }

    #[test]
    fn steps_peak_and_the_first_sold_out_are_what_was_answered() {
        let mut sums = Aggregate::new(TEMPLATE, Span::around(0, 120, 60));
        sums.add(message("a", 0, 10, &[("LANDED", 5)]));
        sums.add(message("b", 0, 10, &[("LANDED", 2), ("LIMIT_REACHED", 1)]));
        sums.add(message("a", 1, 70, &[("SOLD_OUT", 8)]));
        sums.add(message("b", 1, 69, &[("SOLD_OUT", 3), ("REPLAYED", 1)]));
        assert_eq!(sums.peak(0, 120), Some(Peak { second: 10, answers: 8 }), "the first of two");
        assert_eq!(sums.peak(60, 120), Some(Peak { second: 70, answers: 8 }));
        assert_eq!((sums.peak(11, 60), sums.sold_out_at()), (None, Some(69)));
        assert_eq!(sums.steps()[1].of("SOLD_OUT").total(), 11);
        let whole = sums.whole();
        assert_eq!((whole.all().total(), whole.of("LANDED").total()), (20, 7));
        let refused = [("LIMIT_REACHED".to_owned(), 1), ("SOLD_OUT".to_owned(), 11)];
        assert_eq!(whole.refused(), BTreeMap::from(refused));
    }

    #[test]
    fn the_busy_seconds_are_those_of_the_sale_and_their_course_is_by_its_own_steps() {
        let day = Span::around(0, 86_400, 1_800);
        let mut sums = Aggregate::new(TEMPLATE, day);
        assert_eq!(sums.busy(), None);
        let words = |count| [("LANDED", count)];
        for (sequence, second, count) in
            [(0, 60, 1), (1, 28_800, 700), (2, 28_803, 297), (3, 28_804, 1), (4, 80_000, 5)]
        {
            sums.add(message("a", sequence, second, &words(count)));
        }
        assert_eq!(sums.busy(), Some(28_800..28_804), "1 and 6 of 1,004 are stragglers");
        let of_sale = Span::around(28_800, 28_804, 1);
        assert_eq!(sums.course(of_sale), [700, 0, 0, 297]);
        assert_eq!(sums.course(day).iter().sum::<u64>(), 1_004);
        let mut one = Aggregate::new(TEMPLATE, day);
        one.add(message("a", 0, 60, &words(1)));
        assert_eq!(one.busy(), Some(60..61));
    }

    #[test]
    fn a_repetition_counts_once_and_a_restarted_api_or_a_clock_set_back_counts() {
        let mut sums = Aggregate::new(TEMPLATE, Span::around(0, 60, 60));
        for (api, sequence) in [("a", 0), ("a", 0), ("a", 1), ("a-again", 0)] {
            sums.add(message(api, sequence, 10, &[("LANDED", 1)]));
        }
        assert_eq!(sums.whole().all().total(), 3);
    }

    #[test]
    fn what_is_not_of_this_span_or_template_or_not_readable_counts_nothing() {
        let mut sums = Aggregate::new(TEMPLATE, Span::around(60, 120, 60));
        let text = |message: &ClaimStats| serde_json::to_vec(message).unwrap();
        for second in [59, 120, i64::MIN, i64::MAX] {
            let other = message("a", 1, second, &[("LANDED", 1)]);
            assert!(sums.take(b"7", &text(&other)).is_continue());
        }
        let own = message("a", 2, 60, &[("LANDED", 1)]);
        let foreign = ClaimStats { template_id: 8, ..own.clone() };
        for (key, payload) in
            [(&b"8"[..], text(&foreign)), (&b"7"[..], text(&foreign)), (&b"7"[..], vec![b'{'])]
        {
            assert!(sums.take(key, &payload).is_continue());
        }
        assert_eq!((sums.whole().all().total(), sums.unreadable), (0, 1));
        assert!(sums.take(b"7", &text(&own)).is_continue());
        assert_eq!(sums.whole().all().total(), 1);
    }

    proptest! {
        /// However messages are doubled and shuffled, and whatever the step is, the sums are those of each second.
        #[test]
        fn steps_add_up_to_the_same_sums(
            counts in vec((0_i64..600, 1_u64..50), 1..60), step in 1_i64..700, seed in any::<u64>(),
        ) {
            let mut messages = Vec::new();
            for (sequence, (second, count)) in counts.iter().enumerate() {
                let message = message("a", sequence as u64, *second, &[("LANDED", *count)]);
                messages.extend([message.clone(), message]);
            }
            fastrand::Rng::with_seed(seed).shuffle(&mut messages);
            let mut sums = Aggregate::new(TEMPLATE, Span::around(0, 600, step));
            messages.into_iter().for_each(|message| sums.add(message));
            let total: u64 = counts.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(sums.whole().all().total(), total);
            let mut seconds = BTreeMap::<i64, u64>::new();
            for (second, count) in &counts {
                *seconds.entry(*second).or_default() += count;
            }
            let peak = sums.peak(sums.span.from, sums.span.to).unwrap();
            prop_assert_eq!(Some(&peak.answers), seconds.values().max());
            let mut inside = 0;
            for (begin, answers) in sums.span.begins().zip(sums.steps()) {
                let own: u64 = seconds.range(begin..begin + step).map(|(_, count)| count).sum();
                prop_assert_eq!(answers.all().total(), own);
                inside += own;
            }
            prop_assert_eq!(inside, total);
        }
    }
}
