//! Tags in MySQL's GTIDs, which clients may add to their transactions (`uuid:tag:number`), and the event that begins
//! such a transaction.
//!
//! That event has its own format: numbered fields and variable-length integers.

use std::fmt::{self, Write as _};

use crate::{
    binlog::gtid::{Gtid, Series},
    cells::bytes::{Bytes, Truncated},
};

/// Maximum length of a tag: the server's own limit.
const TAG_MAX: usize = 32;

/// Version of the format.
const VERSION: u64 = 1;

/// The fields that are read, in order: flags, uuid, number, tag.
const FIELDS: [u64; 4] = [0, 1, 2, 3];

/// The last known field. Fields after the tag contain times, lengths and versions.
const LAST_FIELD: u64 = 11;

/// A tag; empty if the client set none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Tag([u8; TAG_MAX]);

impl Tag {
    /// Parses letters, digits and underscores, not starting with a digit. The server ignores case.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if text.first()?.is_ascii_digit() || text.len() > TAG_MAX || !text.iter().all(is_of_word) {
            return None;
        }
        let mut tag = Self::default();
        for (own, byte) in tag.0.iter_mut().zip(text) {
            *own = byte.to_ascii_lowercase();
        }
        Some(tag)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Returns its characters.
    pub(crate) fn bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(TAG_MAX);
        &self.0[..length]
    }
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| f.write_char(char::from(*byte)))
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Parses the body of the event. Returns `None` for an unknown format.
pub(crate) fn gtid(mut bytes: Bytes<'_>) -> Result<Option<Gtid>, Truncated> {
    let bytes = &mut bytes;
    let version = integer(bytes)?;
    let _length = integer(bytes)?;
    // Readers may skip fields after this one that they do not know.
    let last_needed = integer(bytes)?;
    if version != VERSION || last_needed > LAST_FIELD {
        return Ok(None);
    }
    let flags_field = integer(bytes)?;
    let _flags = integer(bytes)?;
    let uuid_field = integer(bytes)?;
    let mut uuid = [0; 16];
    for byte in &mut uuid {
        // Each byte is a variable-length integer.
        let Ok(read) = u8::try_from(integer(bytes)?) else { return Ok(None) };
        *byte = read;
    }
    let number_field = integer(bytes)?;
    let number = integer(bytes)?;
    let tag_field = integer(bytes)?;
    let length = integer(bytes)?;
    let tag = bytes.take(usize::try_from(length).map_err(|_| Truncated)?)?;
    // The number is signed: its lowest bit is the sign.
    if [flags_field, uuid_field, number_field, tag_field] != FIELDS || number & 1 == 1 {
        return Ok(None);
    }
    let series = |tag| Gtid::MySql { series: Series { uuid, tag }, number: number >> 1 };
    Ok(Tag::parse(tag).map(series))
}

/// Reads an integer of one to nine bytes. The trailing one bits of the first byte give the number of further bytes.
pub(super) fn integer(bytes: &mut Bytes<'_>) -> Result<u64, Truncated> {
    let first = bytes.u8()?;
    let more = first.trailing_ones();
    let rest = bytes.little_endian(usize::try_from(more).map_err(|_| Truncated)?)?;
    // With seven or eight further bytes, the first has no bits left for the number.
    Ok(u64::from(first) >> (more + 1) | rest << 7u32.saturating_sub(more))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes an integer like the server.
    fn written(number: u64) -> Vec<u8> {
        let bits = u64::BITS - number.leading_zeros();
        let length = match bits {
            0 => 1,
            57.. => 9,
            bits => bits.div_ceil(7),
        };
        let ones = 0xff_u128 >> (9 - length);
        let all = u128::from(number) << length.min(8) | ones;
        let count = usize::try_from(length).unwrap();
        all.to_le_bytes()[..count].to_vec()
    }

    fn body(fields: &[u64], tag: &[u8]) -> Vec<u8> {
        let length = u64::try_from(tag.len()).unwrap();
        let numbers = fields.iter().copied().chain([length]);
        numbers.flat_map(written).chain(tag.iter().copied()).collect()
    }

    /// Version, length, last field needed; flags; uuid; number; tag.
    fn fields(number: u64) -> Vec<u64> {
        let uuid = (0..16).map(|byte| byte * 17);
        [1, 60, 0, 0, 1, 1].into_iter().chain(uuid).chain([2, number << 1, 3]).collect()
    }

    #[test]
    fn an_event_gives_server_tag_and_number_whatever_comes_behind() {
        let mut event = body(&fields(300), b"Sale_7");
        event.extend([8, 0, 10, 4, 0xff]);
        let gtid = gtid(Bytes::new(&event)).unwrap().unwrap();
        assert_eq!(gtid.to_string(), "00112233-4455-6677-8899-aabbccddeeff:sale_7:300");
    }

    /// Computed by hand: uuid bytes from 128 on take two bytes, and so does the number 1000.
    #[test]
    fn bytes_are_read_as_the_format_has_them() {
        let head: [u8; 6] = [0x02, 0x78, 0x00, 0x00, 0x02, 0x02];
        let uuid: [u8; 23] = [
            0x7c, 0x22, 0xe9, 0x03, 0x8e, 0xe2, 0x29, 0x03, 0x22, 0x85, 0x03, 0x79, 0x02, 0x66,
            0x21, 0x03, 0x14, 0xa5, 0x02, 0x84, 0x55, 0x02, 0xc4,
        ];
        let number_and_tag = b"\x04\x41\x1f\x06\x08blue\x08\x00";
        let event = [&head[..], &uuid, number_and_tag].concat();
        let gtid = gtid(Bytes::new(&event)).unwrap().unwrap();
        assert_eq!(gtid.to_string(), "3e11fa47-71ca-11e1-9e33-c80aa9429562:blue:1000");
    }

    #[test]
    fn a_gtid_event_in_another_format_is_not_guessed() {
        let read = |fields: &[u64], tag: &[u8]| gtid(Bytes::new(&body(fields, tag)));
        let changed = |at: usize, to: u64| {
            let mut fields = fields(1);
            fields[at] = to;
            fields
        };
        assert!(read(&fields(1), b"a").unwrap().is_some());
        // Another version, an unknown required field, another order, an invalid uuid byte, a negative number.
        for (at, to) in [(0, 2), (2, 12), (3, 1), (6, 256), (23, 3)] {
            assert_eq!(read(&changed(at, to), b"a"), Ok(None), "{at}");
        }
        for tag in [&b""[..], b"7up", b"a-b", &[b'a'; 33]] {
            assert_eq!(read(&fields(1), tag), Ok(None), "{tag:?}");
        }
        let event = body(&fields(1), b"abc");
        for length in 0..event.len() {
            assert_eq!(gtid(Bytes::new(&event[..length])), Err(Truncated), "{length}");
        }
    }

    proptest! {
        #[test]
        fn each_integer_is_read_as_it_was_written(number: u64, shift in 0u32..64) {
            let number = number >> shift;
            let bytes = written(number);
            let mut bytes = Bytes::new(&bytes);
            prop_assert_eq!(integer(&mut bytes), Ok(number));
            prop_assert!(bytes.is_empty());
        }

        #[test]
        fn any_bytes_are_read_or_refused(event in prop::collection::vec(any::<u8>(), 0..80)) {
            let _read = gtid(Bytes::new(&event));
        }
    }
}
