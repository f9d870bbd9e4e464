//! What a process answered to claims in the last whole second, for whoever watches a sale.

use std::collections::{BTreeMap, HashMap};

use coupon::TemplateId;

use super::answered::Answered;

/// Status of the codes that decide nothing: the claim may have landed, or lands when the same key is sent again.
const UNDECIDED: u16 = 503;

/// Answers of one second, by template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LastSecond {
    /// Since 1970.
    pub(super) second: i64,
    pub(super) templates: HashMap<TemplateId, Vec<(Answered, u64)>>,
    /// Whether there were more templates than are counted one by one: nothing is known of those that are absent.
    pub(super) is_full: bool,
}

/// Answers to the claims of one template in one second.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rates {
    /// All answers.
    pub(crate) claims: u64,
    /// Landed now.
    pub(crate) landed: u64,
    /// Queued now or earlier: 202.
    pub(crate) accepted: u64,
    /// Refusals by code.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Answers that decided nothing: 503.
    pub(crate) undecided: u64,
}

impl LastSecond {
    /// A second in which nothing was answered.
    pub(super) fn nothing(second: i64) -> Self {
        Self { second, ..Self::default() }
    }

    /// Returns a template's answers. `None`: they were not counted one by one.
    pub(crate) fn of(&self, template: TemplateId) -> Option<Rates> {
        let Some(answers) = self.templates.get(&template) else {
            return (!self.is_full).then(Rates::default);
        };
        let mut rates = Rates::default();
        for (answered, count) in answers {
            rates.claims += count;
            match answered {
                Answered::Landed => rates.landed += count,
                Answered::Replayed => {}
                Answered::Accepted => rates.accepted += count,
                Answered::Refused(code) if code.status() == UNDECIDED => rates.undecided += count,
                Answered::Refused(code) => *rates.refused.entry(code.word()).or_default() += count,
            }
        }
        Some(rates)
    }
}
