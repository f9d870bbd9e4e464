//! The queue of accepted claims, as claims, rebuilds and the resolver use it. The api implements it with the topic.

use coupon::{QueuedClaim, TemplateId};
use futures::future::{BoxFuture, FutureExt};
use thiserror::Error;

/// A claim's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
    pub partition: i32,
    /// Its offset; all before it land first.
    pub offset: i64,
}

/// How far a partition has landed, and how far it reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueReach {
    /// Every claim before this offset has ended.
    pub committed: i64,
    /// The offset of the next claim appended.
    pub end: i64,
}

impl QueueReach {
    /// Returns whether every claim has ended that was before `noted`, the end at an earlier moment. Lowers `noted` to an
    /// end that is before it: the claims in between are gone, with their topic or with a broker's disk, and cannot land
    /// any more. It stays lowered, since the landers of a partition in use hardly ever reach its present end.
    pub fn has_passed(self, noted: &mut i64) -> bool {
        *noted = self.end.min(*noted);
        self.committed >= *noted
    }
}

/// An operation of the queue failed. Whether a claim was appended is unknown; the outbox still has it.
#[derive(Debug, Error)]
#[error("the queue of claims cannot be used")]
pub struct QueueError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl QueueError {
    /// Creates the error from its cause.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }
}

/// The queue that carries accepted claims to the claim landers.
pub trait ClaimQueue: Send + Sync + 'static {
    /// Appends a claim, and answers once all in-sync copies have it.
    fn publish<'a>(
        &'a self,
        claim: &'a QueuedClaim,
    ) -> BoxFuture<'a, Result<QueuePosition, QueueError>>;

    /// Returns the end of the template's partition: the offset of the next claim appended.
    fn end(&self, template: TemplateId) -> BoxFuture<'_, Result<i64, QueueError>>;

    /// Returns how far the template's partition has landed: up to its end if nothing was ever appended.
    fn reach(&self, template: TemplateId) -> BoxFuture<'_, Result<QueueReach, QueueError>>;

    /// Returns how many claims of the template's partition wait to be landed, if this process knows. Asks no server.
    fn backlog(&self, template: TemplateId) -> Option<u64>;
}

/// The queue of a process whose templates are all direct: it is empty, and refuses every claim.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoQueue;

impl ClaimQueue for NoQueue {
    fn publish<'a>(
        &'a self,
        _claim: &'a QueuedClaim,
    ) -> BoxFuture<'a, Result<QueuePosition, QueueError>> {
        async { Err(QueueError::new("this process has no queue of claims")) }.boxed()
    }

    fn end(&self, _template: TemplateId) -> BoxFuture<'_, Result<i64, QueueError>> {
        async { Ok(0) }.boxed()
    }

    fn reach(&self, _template: TemplateId) -> BoxFuture<'_, Result<QueueReach, QueueError>> {
        async { Ok(QueueReach::default()) }.boxed()
    }

    fn backlog(&self, _template: TemplateId) -> Option<u64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noted_end_is_passed_once_it_is_committed_or_the_end_of_a_partition_that_is_shorter_now() {
        let reach = |committed, end| QueueReach { committed, end };
        let mut noted = 500;
        assert!(!reach(499, 900).has_passed(&mut noted));
        assert!(reach(500, 900).has_passed(&mut noted));
        assert!(!reach(0, 9).has_passed(&mut noted), "the topic was made anew");
        assert!(!reach(8, 30).has_passed(&mut noted), "it is in use");
        assert!(reach(9, 40).has_passed(&mut noted));
    }
}
