//! A queue between a blocking producer and an async consumer, bounded by bytes.
//!
//! The sender blocks while the queue holds its limit: the pressure of a slow broker goes back
//! through the socket to the server. What the receiver has taken counts until it takes again.

use std::{
    collections::VecDeque,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

/// Bytes handed out at a time: small enough that the sender can fill the queue meanwhile.
const BATCH_BYTES: usize = 256 * 1024;

/// Bytes that a sender holds back at most: dozens of small transactions by one wake-up of the receiver.
const HELD_BYTES: usize = 32 * 1024;

/// The receiver is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Closed;

/// The blocking end.
pub(crate) struct Sender<T> {
    shared: Arc<Shared<T>>,
    /// Taken over, and not shown to the receiver yet.
    held: Vec<(T, usize)>,
    held_bytes: usize,
}

/// The async end.
pub(crate) struct Receiver<T>(Arc<Shared<T>>);

struct Shared<T> {
    limit: usize,
    state: Mutex<State<T>>,
    /// Signals the sender: room, or no receiver any more.
    room: Condvar,
    /// Signals the receiver: items, or no sender any more.
    filled: Notify,
}

struct State<T> {
    items: VecDeque<(T, usize)>,
    queued: usize,
    taken: usize,
    sender_gone: bool,
    receiver_gone: bool,
}

/// A queue for `limit` bytes. A single item over the limit passes alone.
pub(crate) fn bounded<T>(limit: usize) -> (Sender<T>, Receiver<T>) {
    let state = State {
        items: VecDeque::new(),
        queued: 0,
        taken: 0,
        sender_gone: false,
        receiver_gone: false,
    };
    let shared =
        Shared { limit, state: Mutex::new(state), room: Condvar::new(), filled: Notify::new() };
    let shared = Arc::new(shared);
    let sender = Sender { shared: Arc::clone(&shared), held: Vec::new(), held_bytes: 0 };
    (sender, Receiver(shared))
}

impl<T> Sender<T> {
    /// Adds an item of `bytes`, which the receiver may see later: when enough has come together, or with the
    /// next [`Sender::flush`]. Blocks while there is no room.
    pub(crate) fn hold(&mut self, item: T, bytes: usize) -> Result<(), Closed> {
        self.held.push((item, bytes));
        self.held_bytes += bytes;
        if self.held_bytes < HELD_BYTES { Ok(()) } else { self.flush() }
    }

    /// Adds an item of `bytes`, and shows it.
    pub(crate) fn send(&mut self, item: T, bytes: usize) -> Result<(), Closed> {
        self.held.push((item, bytes));
        self.held_bytes += bytes;
        self.flush()
    }

    /// Shows the receiver everything; blocks while there is no room.
    pub(crate) fn flush(&mut self) -> Result<(), Closed> {
        if self.held.is_empty() {
            return Ok(());
        }
        let bytes = std::mem::take(&mut self.held_bytes);
        let mut state = self.shared.lock();
        while !state.receiver_gone
            && state.queued + state.taken > 0
            && state.queued + state.taken + bytes > self.shared.limit
        {
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.receiver_gone {
            return Err(Closed);
        }
        state.queued += bytes;
        let was_empty = state.items.is_empty();
        state.items.extend(self.held.drain(..));
        drop(state);
        if was_empty {
            self.shared.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for the time given; ends early, with an error, when the receiver goes.
    pub(crate) fn pause(&self, wait: Duration) -> Result<(), Closed> {
        let state = self.shared.lock();
        let gone = |state: &mut State<T>| !state.receiver_gone;
        let (state, _) = self
            .shared
            .room
            .wait_timeout_while(state, wait, gone)
            .unwrap_or_else(PoisonError::into_inner);
        if state.receiver_gone { Err(Closed) } else { Ok(()) }
    }
}

impl<T> Receiver<T> {
    /// Waits for items and takes some; `None` once the sender is gone and all are taken.
    /// Cancel-safe.
    pub(crate) async fn recv_some(&mut self) -> Option<Vec<T>> {
        loop {
            if let Some(taken) = self.try_take()? {
                return Some(taken);
            }
            // A permit stays if it was given between the look and this wait.
            self.0.filled.notified().await;
        }
    }

    /// Bytes queued and taken.
    pub(crate) fn bytes(&self) -> usize {
        let state = self.0.lock();
        state.queued + state.taken
    }

    /// `None`: nothing will ever come. `Some(None)`: nothing is here yet.
    fn try_take(&mut self) -> Option<Option<Vec<T>>> {
        let mut state = self.0.lock();
        state.taken = 0;
        let mut batch = Vec::new();
        while state.taken < BATCH_BYTES
            && let Some((item, bytes)) = state.items.pop_front()
        {
            state.queued -= bytes;
            state.taken += bytes;
            batch.push(item);
        }
        let ended = batch.is_empty() && state.sender_gone;
        drop(state);
        self.0.room.notify_one();
        match (ended, batch.is_empty()) {
            (true, _) => None,
            (false, true) => Some(None),
            (false, false) => Some(Some(batch)),
        }
    }
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // Whoever is gone sees nothing.
        let _closed = self.flush();
        self.shared.lock().sender_gone = true;
        self.shared.filled.notify_one();
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.lock().receiver_gone = true;
        self.0.room.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn items_come_in_order_and_the_sender_waits_for_room() {
        let (mut sender, mut receiver) = bounded(10);
        let thread = std::thread::spawn(move || {
            for number in 0..1000 {
                sender.send(number, 4).unwrap();
                assert!(sender.shared.lock().queued <= 10);
            }
        });
        let mut all = Vec::new();
        while let Some(mut some) = receiver.recv_some().await {
            all.append(&mut some);
        }
        assert_eq!(all, (0..1000).collect::<Vec<_>>());
        thread.join().unwrap();
    }

    #[tokio::test]
    async fn what_is_held_is_shown_together_by_a_flush_by_its_size_and_at_the_end() {
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

    #[test]
    fn a_sender_notices_that_nobody_receives() {
        let (mut sender, receiver) = bounded(10);
        sender.send((), 100).unwrap();
        drop(receiver);
        assert_eq!(sender.send((), 1), Err(Closed));
        assert_eq!(sender.pause(Duration::from_secs(60)), Err(Closed));
    }
}
