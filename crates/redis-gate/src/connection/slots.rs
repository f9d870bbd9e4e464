//! [`Slots`]: which server has which keys, as a node of the cluster reported last.
//!
//! A report may be out of date. That does no harm: a master refuses a call for a slot that it does not have. Each such
//! refusal, and each failure of a master, casts doubt on the report, and a task reads it anew. No call waits for that:
//! the slots of the other masters are where they were.

use std::{
    collections::BTreeSet,
    ops::RangeInclusive,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis_address::{Node, RedisAddress, slot_of};
use tracing::info;

use crate::GateError;

/// Pause before the report is read anew. A failover or a moving slot makes many calls fail, and one read serves them
/// all.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// The servers of an address, and the latest report on their slots.
pub(super) struct Slots {
    pub(super) address: RedisAddress,
    reported: RwLock<Arc<[Range]>>,
    /// Whether a task is about to read the report anew.
    is_doubted: AtomicBool,
}

/// Slots and their server. The ranges of a report are ordered; a slot in none of them has no server.
type Range = (RangeInclusive<u16>, Node);

impl Slots {
    /// Asks which servers there are.
    pub(super) async fn read(address: RedisAddress) -> Result<Self, GateError> {
        let unreachable = |source| GateError::Unreachable { source: Some(source) };
        let reported = address.slots(&BTreeSet::new()).await.map_err(unreachable)?.into();
        Ok(Self { address, reported: RwLock::new(reported), is_doubted: AtomicBool::new(false) })
    }

    /// Returns the server that has a key.
    pub(super) fn node_of(&self, key: &str) -> Option<Node> {
        let slot = slot_of(key);
        let reported = self.reported();
        let at = reported.partition_point(|(slots, _)| *slots.end() < slot);
        reported.get(at).filter(|(slots, _)| slots.contains(&slot)).map(|(_, node)| node.clone())
    }

    /// Returns all servers that have slots.
    pub(super) fn nodes(&self) -> BTreeSet<Node> {
        self.reported().iter().map(|(_, node)| node.clone()).collect()
    }

    /// Lets the report be read anew, soon and once.
    pub(super) fn doubt(self: &Arc<Self>) {
        if !self.address.is_cluster() || self.is_doubted.swap(true, Ordering::AcqRel) {
            return;
        }
        let slots = Arc::clone(self);
        tokio::spawn(async move {
            tokio::time::sleep(READ_PAUSE).await;
            match slots.address.slots(&slots.nodes()).await {
                Ok(reported) => slots.replace(reported.into()),
                // The next call that fails has it read again.
                Err(error) => {
                    let error = runtime::report(&error);
                    runtime::seldom!("the slots of the gate's cluster cannot be read", error);
                }
            }
            slots.is_doubted.store(false, Ordering::Release);
        });
    }

    fn replace(&self, reported: Arc<[Range]>) {
        let mut current = self.reported.write().unwrap_or_else(PoisonError::into_inner);
        if *current != reported {
            info!("slots of the gate's cluster have another master");
            *current = reported;
        }
    }

    fn reported(&self) -> Arc<[Range]> {
        Arc::clone(&self.reported.read().unwrap_or_else(PoisonError::into_inner))
    }
}
