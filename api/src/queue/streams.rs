//! The open streams of events: how many there are, and whose.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use coupon::UserId;

use crate::{code::Code, problem::Problem};

/// Most streams of a process, and the part of its connections that they may take (three of four), so that requests find
/// one in any case. Each costs its connection and some kilobytes.
const AT_ONCE: usize = 12_288;
const OF_CONNECTIONS: (usize, usize) = (3, 4);

/// Most streams of one user in a process: one for each of several claims, and those that its client has left without our
/// knowledge. Otherwise one user could take the streams of all.
const AT_ONCE_OF_USER: usize = 16;

/// The streams that are open.
#[derive(Debug, Clone)]
pub(crate) struct Streams {
    open: Arc<Mutex<Open>>,
    most: usize,
}

/// The place of one stream. Dropping it frees the place.
#[derive(Debug)]
pub(crate) struct StreamPlace {
    streams: Streams,
    user: UserId,
}

#[derive(Debug, Default)]
struct Open {
    all: usize,
    by_user: HashMap<UserId, usize>,
}

impl Streams {
    /// Streams of a process that takes at most so many connections.
    pub(super) fn among(connections: usize) -> Self {
        let (part, of) = OF_CONNECTIONS;
        Self { open: Arc::default(), most: AT_ONCE.min(connections.saturating_mul(part) / of) }
    }

    /// Takes a place for a stream.
    ///
    /// # Errors
    /// The process, or the user, has as many as allowed.
    pub(crate) fn place(&self, user: UserId) -> Result<StreamPlace, Problem> {
        let mut open = self.lock();
        if open.all >= self.most {
            let detail = "Too many clients wait here. Open the stream again in a moment, or look at the claim.";
            return Err(Problem::new(Code::Overloaded, detail));
        }
        let own = open.by_user.get(&user).copied().unwrap_or(0);
        if own >= AT_ONCE_OF_USER {
            let detail =
                format!("{own} streams of yours are open here. Close one before you open another.");
            return Err(Problem::new(Code::TooManyAtOnce, detail));
        }
        open.by_user.insert(user, own + 1);
        open.all += 1;
        Ok(StreamPlace { streams: self.clone(), user })
    }

    /// Returns how many streams are open.
    pub(crate) fn open(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.streams.lock();
        open.all -= 1;
        if let Some(own) = open.by_user.get_mut(&self.user) {
            *own -= 1;
            if *own == 0 {
                open.by_user.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(refused: Result<StreamPlace, Problem>) -> Code {
        refused.map(drop).unwrap_err().code()
    }

    #[test]
    fn a_user_has_some_streams_and_the_process_has_no_more_than_its_most() {
        let streams = Streams::among(16_384);
        let mut held: Vec<StreamPlace> =
            (0..AT_ONCE_OF_USER).map(|_| streams.place(UserId(1)).unwrap()).collect();
        assert_eq!(code(streams.place(UserId(1))), Code::TooManyAtOnce);
        held.pop();
        held.push(streams.place(UserId(1)).unwrap());
        let others = i64::try_from(AT_ONCE - held.len()).unwrap();
        held.extend((0..others).map(|user| streams.place(UserId(user + 2)).unwrap()));
        assert_eq!(code(streams.place(UserId(0))), Code::Overloaded);
        assert_eq!(streams.open(), AT_ONCE);
        drop(held);
        assert_eq!(streams.open(), 0);
        assert!(streams.lock().by_user.is_empty(), "nothing is left behind");
    }

    #[test]
    fn streams_leave_connections_to_requests_however_few_there_are() {
        let most = |connections| Streams::among(connections).most;
        assert_eq!([16_384, 4_096, 1].map(most), [AT_ONCE, 3_072, 0]);
        assert_eq!(most(usize::MAX), AT_ONCE);
    }
}
