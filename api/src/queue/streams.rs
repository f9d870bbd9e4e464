//! The open streams of events: how many there may be, in all and of one user.

use coupon::UserId;

use crate::{
    code::Code,
    problem::Problem,
    work_limits::{Full, Place, Places},
};

/// Most streams of a process, and the part of its connections that they may take (three of four), so that requests find
/// one in any case. Each costs its connection and some kilobytes.
const AT_ONCE: usize = 12_288;
const OF_CONNECTIONS: (usize, usize) = (3, 4);

/// Most streams of one user in a process: one for each of several claims, and those whose client left unnoticed.
/// Without the limit one user could take all streams.
const AT_ONCE_OF_USER: usize = 16;

/// The place of one stream. Dropping it frees the place.
pub(crate) type StreamPlace = Place<UserId>;

/// The streams that are open.
#[derive(Debug, Clone)]
pub(crate) struct Streams(Places<UserId>);

impl Streams {
    /// Makes the streams of a process with at most this many connections.
    pub(super) fn among(connections: usize) -> Self {
        Self(Places::new(most_among(connections), AT_ONCE_OF_USER))
    }

    /// Takes a place for a stream.
    ///
    /// # Errors
    /// The process, or the user, has as many as allowed.
    pub(crate) fn place(&self, user: UserId) -> Result<StreamPlace, Problem> {
        self.0.take(user).map_err(|full| match full {
            Full::Process => {
                let detail = "Too many clients wait here. Open the stream again in a moment, or look at the claim.";
                Problem::new(Code::Overloaded, detail)
            }
            Full::Owner => {
                let detail = format!(
                    "{AT_ONCE_OF_USER} streams of yours are open here. Close one before you open another."
                );
                Problem::new(Code::TooManyAtOnce, detail)
            }
        })
    }

    /// Returns how many streams are open.
    pub(crate) fn open(&self) -> usize {
        self.0.taken()
    }
}

fn most_among(connections: usize) -> usize {
    let (part, of) = OF_CONNECTIONS;
    AT_ONCE.min(connections.saturating_mul(part) / of)
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
    }

    #[test]
    fn streams_leave_connections_to_requests_however_few_there_are() {
        assert_eq!([16_384, 4_096, 1].map(most_among), [AT_ONCE, 3_072, 0]);
        assert_eq!(most_among(usize::MAX), AT_ONCE);
    }
}
