//! The queue of accepted claims, as claims, rebuilds and the resolver use it. The api implements it with the topic.

use coupon::{QueueReach, QueuedClaim, TemplateId};
use futures::future::{BoxFuture, FutureExt};
use thiserror::Error;

/// A claim's place in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
    pub partition: i32,
    /// Its offset; all before it land first.
    pub offset: i64,
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
