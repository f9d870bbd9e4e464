//! Decodes MySQL's binary JSON to text.
//!
//! A document is a type and a value. Objects and arrays contain tables of offsets into themselves, in two widths: small
//! and large. A value that fits into its offset's field is stored there.

use std::fmt::Write as _;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;

use crate::cells::{
    bytes::{Bytes, Truncated},
    decimal,
};

/// Maximum nesting: the server's own limit.
const DEPTH_MAX: usize = 100;

/// Maximum bytes of text per byte of a document: a control character takes six, an opaque double more. Without a limit,
/// offsets that point to one value repeatedly would expand to any size.
const GROWTH_MAX: usize = 32;

/// Value types.
const SMALL_OBJECT: u8 = 0;
const LARGE_OBJECT: u8 = 1;
const SMALL_ARRAY: u8 = 2;
const LARGE_ARRAY: u8 = 3;
const LITERAL: u8 = 4;
const INT16: u8 = 5;
const UINT16: u8 = 6;
const INT32: u8 = 7;
const UINT32: u8 = 8;
const INT64: u8 = 9;
const UINT64: u8 = 10;
const DOUBLE: u8 = 11;
const STRING: u8 = 12;
const OPAQUE: u8 = 15;

/// Decodes a document. An empty one, which some statements leave behind, is `null`.
pub(crate) fn read(document: &[u8]) -> Result<String, Truncated> {
    let mut text = Text { out: Vec::new(), limit: (document.len() + 2) * GROWTH_MAX };
    match document.split_first() {
        Some((kind, value)) => text.value(*kind, value, 0)?,
        None => text.out.extend(b"null"),
    }
    String::from_utf8(text.out).map_err(|_| Truncated)
}

struct Text {
    out: Vec<u8>,
    limit: usize,
}

impl Text {
    fn value(&mut self, kind: u8, value: &[u8], depth: usize) -> Result<(), Truncated> {
        if depth > DEPTH_MAX || self.out.len() > self.limit {
            return Err(Truncated);
        }
        let mut bytes = Bytes::new(value);
        match kind {
            SMALL_OBJECT => self.container(value, 2, true, depth),
            LARGE_OBJECT => self.container(value, 4, true, depth),
            SMALL_ARRAY => self.container(value, 2, false, depth),
            LARGE_ARRAY => self.container(value, 4, false, depth),
            LITERAL => {
                let words: &[u8] = match bytes.u8()? {
                    0 => b"null",
                    1 => b"true",
                    2 => b"false",
                    _ => return Err(Truncated),
                };
                self.out.extend(words);
                Ok(())
            }
            INT16 => self.json(&bytes.u16()?.cast_signed()),
            UINT16 => self.json(&bytes.u16()?),
            INT32 => self.json(&bytes.u32()?.cast_signed()),
            UINT32 => self.json(&bytes.u32()?),
            INT64 => self.json(&bytes.u64()?.cast_signed()),
            UINT64 => self.json(&bytes.u64()?),
            DOUBLE => self.json(&f64::from_le_bytes(bytes.array()?)),
            STRING => self.string(run(&mut bytes)?),
            OPAQUE => {
                let kind = bytes.u8()?;
                self.opaque(kind, run(&mut bytes)?)
            }
            _ => Err(Truncated),
        }
    }

    /// Decodes an object or array: number of elements, size, key entries, value entries, then their targets.
    fn container(
        &mut self,
        whole: &[u8],
        width: usize,
        keyed: bool,
        depth: usize,
    ) -> Result<(), Truncated> {
        let mut bytes = Bytes::new(whole);
        let number = |bytes: &mut Bytes<'_>| {
            usize::try_from(bytes.little_endian(width)?).map_err(|_| Truncated)
        };
        let count = number(&mut bytes)?;
        let size = number(&mut bytes)?;
        let whole = whole.get(..size).ok_or(Truncated)?;
        let keys = if keyed { count.checked_mul(width + 2).ok_or(Truncated)? } else { 0 };
        let mut keys = Bytes::new(bytes.take(keys)?);
        self.out.push(if keyed { b'{' } else { b'[' });
        for index in 0..count {
            if index > 0 {
                self.out.extend(b", ");
            }
            if keyed {
                let offset = number(&mut keys)?;
                let length = usize::from(keys.u16()?);
                self.string(behind(whole, offset)?.get(..length).ok_or(Truncated)?)?;
                self.out.extend(b": ");
            }
            let kind = bytes.u8()?;
            let entry = bytes.take(width)?;
            let inline = matches!(kind, LITERAL | INT16 | UINT16)
                || width == 4 && matches!(kind, INT32 | UINT32);
            let value = match inline {
                true => entry,
                false => behind(whole, number(&mut Bytes::new(entry))?)?,
            };
            self.value(kind, value, depth + 1)?;
        }
        self.out.push(if keyed { b'}' } else { b']' });
        Ok(())
    }

    /// Writes a value of a type that JSON lacks, in the server's notation.
    fn opaque(&mut self, kind: u8, value: &[u8]) -> Result<(), Truncated> {
        const TIMESTAMP: u8 = 7;
        const DATE: u8 = 10;
        const TIME: u8 = 11;
        const DATETIME: u8 = 12;
        const DECIMAL: u8 = 246;
        let mut bytes = Bytes::new(value);
        match kind {
            DECIMAL => {
                let precision = usize::from(bytes.u8()?);
                let scale = usize::from(bytes.u8()?);
                self.out.extend(decimal::read(precision, scale, &mut bytes)?.as_bytes());
                Ok(())
            }
            DATE | TIME | DATETIME | TIMESTAMP => {
                let packed = i64::from_le_bytes(bytes.array()?);
                self.json(&temporal(kind == TIME, kind == DATE, packed))
            }
            other => {
                self.out.extend(format!("\"base64:type{other}:").as_bytes());
                self.out.extend(BASE64_STANDARD.encode(value).as_bytes());
                self.out.push(b'"');
                Ok(())
            }
        }
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Truncated> {
        self.json(std::str::from_utf8(bytes).map_err(|_| Truncated)?)
    }

    fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Truncated> {
        serde_json::to_writer(&mut self.out, value).map_err(|_| Truncated)
    }
}

/// Reads a length, seven bits per byte with the lowest first, and that many bytes.
fn run<'a>(bytes: &mut Bytes<'a>) -> Result<&'a [u8], Truncated> {
    const BYTES_MAX: u32 = 5;
    let mut length = 0usize;
    for index in 0..BYTES_MAX {
        let byte = bytes.u8()?;
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return bytes.take(length);
        }
    }
    Err(Truncated)
}

fn behind(whole: &[u8], offset: usize) -> Result<&[u8], Truncated> {
    whole.get(offset..).ok_or(Truncated)
}

/// Formats a date in 22 bits, time of day in 17, microseconds in 24. A negative time is negated as a whole.
fn temporal(time: bool, date: bool, packed: i64) -> String {
    let whole = packed.unsigned_abs() >> 24;
    let micros = packed.unsigned_abs() & 0xff_ffff;
    let day = whole >> 17;
    let clock = whole & 0x1_ffff;
    let months = day >> 5;
    let day = day & 31;
    let minute = clock >> 6 & 63;
    let second = clock & 63;
    let mut text = String::new();
    // Writing to a string cannot fail.
    if time {
        let sign = if packed < 0 { "-" } else { "" };
        let hour = whole >> 12 & 0x3ff;
        let _written = write!(text, "{sign}{hour:02}:{minute:02}:{second:02}.{micros:06}");
        return text;
    }
    let _written = write!(text, "{:04}-{:02}-{day:02}", months / 13, months % 13);
    if !date {
        let hour = clock >> 12;
        let _written = write!(text, " {hour:02}:{minute:02}:{second:02}.{micros:06}");
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_document_is_written_as_the_server_shows_it() {
        // {"a": [1, "x"], "bc": null}
        let document = [
            &[SMALL_OBJECT, 2, 0, 34, 0][..],
            &[18, 0, 1, 0, 19, 0, 2, 0],
            &[SMALL_ARRAY, 21, 0, LITERAL, 0, 0],
            b"abc",
            &[2, 0, 13, 0, INT16, 1, 0, STRING, 10, 0, 1, b'x', 0],
        ]
        .concat();
        assert_eq!(read(&document).as_deref(), Ok(r#"{"a": [1, "x"], "bc": null}"#));
        assert_eq!(read(&[]).as_deref(), Ok("null"));
        assert_eq!(read(&[INT64, 255, 255, 255, 255, 255, 255, 255, 255]).as_deref(), Ok("-1"));
        assert_eq!(read(&[LITERAL, 3]), Err(Truncated));
    }

    #[test]
    fn a_document_that_leads_to_itself_ends() {
        // An array whose elements all point to its own start.
        let own = [SMALL_ARRAY, 2, 0, 10, 0, SMALL_ARRAY, 0, 0, SMALL_ARRAY, 0, 0];
        assert_eq!(read(&own), Err(Truncated));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let _read = read(&bytes);
        }
    }
}
