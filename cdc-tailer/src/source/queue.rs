//! A queue between a blocking producer and an async consumer, bounded by bytes.
//!
//! The sender blocks while the queue is full, so the back pressure of a slow broker reaches the server through the
//! socket. Items taken by the receiver count until it takes the next ones.

use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError, mpsc},
    time::timeout,
};

/// Maximum bytes a sender holds back, so that dozens of small transactions wake the receiver once.
const HELD_BYTES: usize = 32 * 1024;

/// The receiver is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

/// The blocking end, for a thread outside the runtime.
pub(crate) struct Sender<T> {
    /// Bounded by `room`.
    shown: mpsc::UnboundedSender<Batch<T>>,
    room: Arc<Semaphore>,
    limit: u32,
    runtime: Handle,
    /// Items not yet sent to the receiver.
    held: Vec<T>,
    held_bytes: usize,
}

/// The async end.
pub(crate) struct Receiver<T> {
    shown: mpsc::UnboundedReceiver<Batch<T>>,
    room: Arc<Semaphore>,
    limit: u32,
    /// Permit for the items taken last.
    taken: Option<OwnedSemaphorePermit>,
}

/// Items and their permit.
type Batch<T> = (Vec<T>, OwnedSemaphorePermit);

/// Creates a queue for `limit` bytes. A single larger item passes alone. Must be called within the receiver's runtime.
pub(crate) fn bounded<T>(limit: usize) -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let limit = u32::try_from(limit).unwrap_or(u32::MAX).max(1);
    let room = Arc::new(Semaphore::new(usize::try_from(limit).unwrap_or(Semaphore::MAX_PERMITS)));
    let sender = Sender {
        shown: sender,
        room: Arc::clone(&room),
        limit,
        runtime: Handle::current(),
        held: Vec::new(),
        held_bytes: 0,
    };
    (sender, Receiver { shown: receiver, room, limit, taken: None })
}

impl<T> Sender<T> {
    /// Adds an item of `bytes`. The receiver gets it later: when enough items have accumulated, or with the next
    /// [`Sender::flush`]. Blocks while the queue is full.
    pub(crate) fn hold(&mut self, item: T, bytes: usize) -> Result<(), Closed> {
        self.held.push(item);
        self.held_bytes += bytes;
        if self.held_bytes < HELD_BYTES { Ok(()) } else { self.flush() }
    }

    /// Adds an item of `bytes` and flushes.
    pub(crate) fn send(&mut self, item: T, bytes: usize) -> Result<(), Closed> {
        self.held.push(item);
        self.held_bytes += bytes;
        self.flush()
    }

    /// Sends all held items to the receiver; blocks while the queue is full.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        if self.held.is_empty() {
            return Ok(());
        }
        // Items without bytes take a permit as well, so that their number is bounded too.
        let bytes = std::mem::take(&mut self.held_bytes);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, self.limit);
        let room = match Arc::clone(&self.room).try_acquire_many_owned(bytes) {
            Err(TryAcquireError::NoPermits) => {
                let waited = Arc::clone(&self.room).acquire_many_owned(bytes);
                self.runtime.block_on(waited).map_err(|_| Closed)?
            }
            Err(TryAcquireError::Closed) => return Err(Closed),
            Ok(room) => room,
        };
        self.shown.send((std::mem::take(&mut self.held), room)).map_err(|_| Closed)
    }

    /// Waits for the given time; returns an error early if the receiver is dropped.
    pub(crate) fn pause(&self, wait: Duration) -> Result<(), Closed> {
        let gone = async { timeout(wait, self.shown.closed()).await };
        if self.runtime.block_on(gone).is_ok() { Err(Closed) } else { Ok(()) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // An error means that the receiver is gone.
        let _closed = self.flush();
    }
}

impl<T> Receiver<T> {
    /// Waits for items and takes some; `None` once the sender is gone and the queue is empty. Cancel-safe.
    pub(crate) async fn recv_some(&mut self) -> Option<Vec<T>> {
        self.taken = None;
        let (items, room) = self.shown.recv().await?;
        self.taken = Some(room);
        Some(items)
    }

    /// Returns the bytes queued and taken.
    pub(crate) fn bytes(&self) -> usize {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        limit.saturating_sub(self.room.available_permits())
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // Wakes a sender that waits for room.
        self.room.close();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn items_come_in_order_and_the_sender_waits_for_room() {
        let (mut sender, mut receiver) = bounded(10);
        let thread = thread::spawn(move || {
            for number in 0..1000 {
                sender.send(number, 4).unwrap();
            }
        });
        let mut all = Vec::new();
        while let Some(mut some) = receiver.recv_some().await {
            assert!(receiver.bytes() <= 10);
            all.append(&mut some);
        }
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn received_items_count_until_the_next_ones_are_received() {
        let (mut sender, mut receiver) = bounded(10);
        sender.send(1, 6).unwrap();
        assert_eq!(receiver.recv_some().await, Some(vec![1]));
        assert_eq!(receiver.bytes(), 6);
        // More than the whole queue; passes alone.
        let thread = thread::spawn(move || sender.send(2, 100));
        assert_eq!(receiver.recv_some().await, Some(vec![2]));
        assert_eq!(receiver.bytes(), 10);
        thread.join().unwrap().unwrap();
        assert_eq!(receiver.recv_some().await, None);
        assert_eq!(receiver.bytes(), 0);
    }

    #[tokio::test]
    async fn held_items_are_sent_together_by_a_flush_by_their_size_and_at_the_end() {
        let (mut sender, mut receiver) = bounded(10 * HELD_BYTES);
        sender.hold(1, HELD_BYTES / 2).unwrap();
        assert_eq!(receiver.bytes(), 0, "held back");
        sender.flush().unwrap();
        assert_eq!(receiver.recv_some().await, Some(vec![1]));
        sender.hold(2, HELD_BYTES / 2).unwrap();
        sender.hold(3, HELD_BYTES / 2).unwrap();
        assert_eq!(receiver.recv_some().await, Some(vec![2, 3]));
        sender.hold(4, 1).unwrap();
        sender.send(5, 1).unwrap();
        assert_eq!(receiver.recv_some().await, Some(vec![4, 5]), "in order");
        sender.hold(6, 1).unwrap();
        drop(sender);
        assert_eq!(receiver.recv_some().await, Some(vec![6]));
        assert_eq!(receiver.recv_some().await, None);
    }

    #[tokio::test]
    async fn a_sender_notices_that_its_receiver_is_gone_also_while_it_waits() {
        let (mut sender, receiver) = bounded(10);
        sender.send((), 100).unwrap();
        let thread = thread::spawn(move || {
            let waited = sender.send((), 1);
            (waited, sender.send((), 1), sender.pause(Duration::from_secs(60)))
        });
        while receiver.room.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        drop(receiver);
        assert_eq!(thread.join().unwrap(), (Err(Closed), Err(Closed), Err(Closed)));
    }
}
