//! What a claim was answered, as it is counted.

use super::buckets::{ACCEPTED, LANDED, REPLAYED};
use crate::code::Code;

/// What a claim was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answered {
    Landed,
    Replayed,
    /// 202: it is in a queue.
    Accepted,
    Refused(Code),
}

impl Answered {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Landed => LANDED,
            Self::Replayed => REPLAYED,
            Self::Accepted => ACCEPTED,
            Self::Refused(code) => code.word(),
        }
    }
}
