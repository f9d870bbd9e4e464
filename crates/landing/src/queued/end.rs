//! How a queued claim ends.

use coupon::{Decision, Numbers, RejectReason};

/// The end of a queued claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueuedEnd {
    /// It landed now.
    Landed,
    /// An earlier attempt had landed it.
    LandedBefore,
    /// Its rejected row was written now.
    Rejected(RejectReason),
    /// An earlier attempt had rejected it.
    RejectedBefore,
    /// Another admission answered its key; a fence now blocks this one.
    Elsewhere,
    /// It was fenced before.
    Fenced,
    /// Its epoch is below `queued_epoch`. It has no row.
    TooLate,
    /// Its template does not exist. It has no row.
    UnknownTemplate,
    /// MySQL takes neither its rows nor its rejection. It has no row.
    Unlandable,
    /// The same admission is earlier in the batch.
    Duplicate,
}

impl QueuedEnd {
    /// Returns why a copy of the claim goes to the dead letters; `None` if none does.
    pub fn dead_letter(self) -> Option<&'static str> {
        match self {
            Self::Rejected(RejectReason::Failed) => Some("MySQL took no landing of it: rejected"),
            Self::UnknownTemplate => Some("its template does not exist"),
            Self::Unlandable => Some("MySQL took neither a landing nor a rejection of it"),
            _ => None,
        }
    }

    /// Its label in [`super::metric::CLAIMS`].
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Landed => "landed",
            Self::LandedBefore => "landed_before",
            Self::Rejected(reason) => match reason {
                RejectReason::SoldOut => "sold_out",
                RejectReason::InsufficientStock => "insufficient_stock",
                RejectReason::LimitReached => "limit_reached",
                RejectReason::Paused => "paused",
                RejectReason::Ended => "ended",
                RejectReason::Failed | RejectReason::Cancelled => "failed",
            },
            Self::RejectedBefore => "rejected_before",
            Self::Elsewhere => "elsewhere",
            Self::Fenced => "fenced",
            Self::TooLate => "too_late",
            Self::UnknownTemplate => "unknown_template",
            Self::Unlandable => "unlandable",
            Self::Duplicate => "duplicate",
        }
    }
}

/// A transaction that ends a claim that cannot land. It locks the stock row and decides again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// Writes the rejected row under the client's key.
    Reject(RejectReason),
    /// Writes the fence beside the answer of the key.
    Fence,
}

/// How a claim continues after a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    End(QueuedEnd),
    /// This ending is written once every claim ahead of it in the batch has its end.
    Later(Ending),
    Again,
    /// It is tried again, with other numbers: the gate was wrong.
    AgainWith(Numbers),
}

impl Next {
    /// Returns whether the gate gave out numbers that were taken in MySQL.
    pub(super) fn blames_the_gate(&self) -> bool {
        matches!(self, Self::AgainWith(_) | Self::Later(Ending::Reject(RejectReason::LimitReached)))
    }
}

impl From<Decision> for Next {
    /// One arm for each row of the table "After a rollback of a queued claim" in docs/failures.md.
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Landed => Self::End(QueuedEnd::LandedBefore),
            Decision::Rejected => Self::End(QueuedEnd::RejectedBefore),
            Decision::Elsewhere => Self::Later(Ending::Fence),
            Decision::Fenced => Self::End(QueuedEnd::Fenced),
            Decision::StaleEpoch { .. } => Self::End(QueuedEnd::TooLate),
            Decision::NumberTaken { free: Some(free) } => Self::AgainWith(free),
            Decision::NumberTaken { free: None } => {
                Self::Later(Ending::Reject(RejectReason::LimitReached))
            }
            Decision::NotOpen(reason) => Self::Later(Ending::Reject(reason)),
            Decision::Short { left } => {
                Self::Later(Ending::Reject(RejectReason::of_short_stock(left)))
            }
            Decision::Retry => Self::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queued::metric;

    #[test]
    fn each_end_has_its_label_in_the_table_of_metrics() {
        let others = [
            QueuedEnd::Landed,
            QueuedEnd::LandedBefore,
            QueuedEnd::RejectedBefore,
            QueuedEnd::Elsewhere,
            QueuedEnd::Fenced,
            QueuedEnd::TooLate,
            QueuedEnd::UnknownTemplate,
            QueuedEnd::Unlandable,
        ];
        let rejected = RejectReason::ALL.map(QueuedEnd::Rejected);
        for end in others.into_iter().chain(rejected) {
            assert!(metric::CLAIMS.labels[0].values.contains(&end.label()), "{end:?}");
        }
    }

    #[test]
    fn only_what_a_user_cannot_repair_is_a_dead_letter() {
        assert!(QueuedEnd::Rejected(RejectReason::Failed).dead_letter().is_some());
        for end in [QueuedEnd::Rejected(RejectReason::SoldOut), QueuedEnd::TooLate] {
            assert_eq!(end.dead_letter(), None);
        }
    }
}
