//! A user's entry in the layout of `lua/gate/includes/entry.lua`: written here when a gate is loaded from MySQL, read here
//! by the verifier.

use coupon::{ClaimId, PayloadHash};
use thiserror::Error;

/// Layouts of an entry with all its requests, and of a user who let holds lapse. Layout 2 is of an entry that has
/// dropped some requests.
const FORMAT: u8 = 1;
const FORMAT_WITH_LAPSES: u8 = 3;

/// Flag of an entry that does not hold every request of its user.
const LOOK_IN_MYSQL: u8 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// Whether MySQL must be checked for a key before a refusal is final.
    pub look_in_mysql: bool,
    /// How many of the user's holds lapsed; 255 stands for more.
    pub lapses: u8,
    /// The numbers that the user holds, including pending ones, ascending.
    pub taken: Vec<u8>,
    /// The highest admission id that was dropped. No id up to it is admitted any more.
    pub floor: Option<ClaimId>,
    /// The requests that the gate remembers, oldest first.
    pub requests: Vec<Request>,
}

/// A request that the gate remembers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The key's digest.
    pub key: [u8; 16],
    pub payload_hash: PayloadHash,
    /// Whether it is known to have landed.
    pub state: RequestState,
    pub quantity: u8,
    /// Id of its admission.
    pub id: ClaimId,
    /// The numbers it holds.
    pub numbers: Vec<u8>,
}

/// What the gate knows about a request's landing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestState {
    /// Admitted; only MySQL knows whether it has landed.
    Pending,
    /// Admitted into the queue; only MySQL knows whether it has landed or was rejected.
    Queued,
    Landed,
}

/// The bytes are not an entry in a known layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a gate entry that this version cannot read")]
pub struct EntryError;

impl RequestState {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            b'p' => Some(Self::Pending),
            b'q' => Some(Self::Queued),
            b'l' => Some(Self::Landed),
            _ => None,
        }
    }
}

impl Entry {
    /// Encodes the entry of a user whose numbers were read from MySQL.
    pub(crate) fn loaded(taken: &[u8]) -> Vec<u8> {
        let length = taken.iter().copied().max().unwrap_or(0);
        let marks = (1..=length).map(|number| if taken.contains(&number) { b'1' } else { b'0' });
        [FORMAT, LOOK_IN_MYSQL, length].into_iter().chain(marks).collect()
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// The bytes are not an entry in a known layout.
    pub fn decode(bytes: &[u8]) -> Result<Self, EntryError> {
        let mut rest = bytes;
        let [format, flags] = take(&mut rest)?;
        if !(FORMAT..=FORMAT_WITH_LAPSES).contains(&format) {
            return Err(EntryError);
        }
        let [lapses] = if format == FORMAT_WITH_LAPSES { take(&mut rest)? } else { [0] };
        let marks = take_prefixed(&mut rest)?;
        let marked = (1..=u8::MAX).zip(marks).filter(|(_, mark)| **mark == b'1');
        let taken = marked.map(|(number, _)| number).collect();
        let floor = if format == FORMAT { None } else { take_floor(&mut rest)? };
        let mut requests = Vec::new();
        while !rest.is_empty() {
            let key = take(&mut rest)?;
            let payload_hash = PayloadHash(take(&mut rest)?);
            let [state, quantity] = take(&mut rest)?;
            requests.push(Request {
                key,
                payload_hash,
                state: RequestState::from_byte(state).ok_or(EntryError)?,
                quantity,
                id: take_id(&mut rest)?,
                numbers: take_prefixed(&mut rest)?.to_vec(),
            });
        }
        Ok(Self { look_in_mysql: flags == LOOK_IN_MYSQL, lapses, taken, floor, requests })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], EntryError> {
    let (head, tail) = rest.split_first_chunk::<N>().ok_or(EntryError)?;
    *rest = tail;
    Ok(*head)
}

/// Only an entry with lapses has an empty floor.
fn take_floor(rest: &mut &[u8]) -> Result<Option<ClaimId>, EntryError> {
    if rest.first() == Some(&0) {
        *rest = &rest[1..];
        return Ok(None);
    }
    take_id(rest).map(Some)
}

fn take_id(rest: &mut &[u8]) -> Result<ClaimId, EntryError> {
    let text = std::str::from_utf8(take_prefixed(rest)?).map_err(|_| EntryError)?;
    text.parse().map_err(|_| EntryError)
}

fn take_prefixed<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], EntryError> {
    let [length] = take(rest)?;
    let (head, tail) = rest.split_at_checked(usize::from(length)).ok_or(EntryError)?;
    *rest = tail;
    Ok(head)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Found by the fuzzer: an open range of bytes counts one beyond the last mark.
    #[test]
    fn a_user_may_hold_every_number_there_is() {
        let all: Vec<u8> = (1..=u8::MAX).collect();
        assert_eq!(Entry::decode(&Entry::loaded(&all)).unwrap().taken, all);
    }

    #[test]
    fn a_loaded_entry_marks_its_numbers_and_points_to_mysql() {
        let entry = Entry::decode(&Entry::loaded(&[2, 5])).unwrap();
        let expected = Entry { look_in_mysql: true, taken: vec![2, 5], ..Entry::default() };
        assert_eq!(entry, expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_entry_or_an_error(bytes: Vec<u8>) {
            drop(Entry::decode(&bytes));
        }

        #[test]
        fn any_set_of_numbers_survives_loading(taken in proptest::collection::btree_set(1u8..=100, 0..100)) {
            let taken: Vec<u8> = taken.into_iter().collect();
            prop_assert_eq!(Entry::decode(&Entry::loaded(&taken)).unwrap().taken, taken);
        }
    }
}
