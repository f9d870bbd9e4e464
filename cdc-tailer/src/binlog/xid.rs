//! Names of XA transactions, as events and statements write them.

use std::fmt;

use crate::cells::bytes::{Bytes, Truncated};

/// Maximum length of a part of an XA transaction's id, by the standard.
const PART_MAX: usize = 64;

/// Id of an XA transaction.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Xid {
    format: u32,
    global: Vec<u8>,
    branch: Vec<u8>,
}

impl Xid {
    /// Creates an id from a row of `xa recover`: the format, the length of the first part, and both parts.
    pub(crate) fn of(format: i64, global: i64, parts: &[u8]) -> Option<Self> {
        let signed = i32::try_from(format).map(i32::cast_unsigned);
        let format = u32::try_from(format).or(signed).ok()?;
        let (global, branch) = parts.split_at_checked(usize::try_from(global).ok()?)?;
        Some(Self { format, global: global.to_vec(), branch: branch.to_vec() })
    }

    /// Parses the id after the first byte of an XA PREPARE event.
    pub(crate) fn parse(bytes: &mut Bytes<'_>) -> Result<Self, Truncated> {
        let format = bytes.u32()?;
        let mut length = || usize::try_from(bytes.u32()?).map_err(|_| Truncated);
        let global = length()?;
        let branch = length()?;
        if global > PART_MAX || branch > PART_MAX {
            return Err(Truncated);
        }
        let global = bytes.take(global)?.to_vec();
        let branch = bytes.take(branch)?.to_vec();
        Ok(Self { format, global, branch })
    }

    /// Parses the id in the servers' statement form: `X'61',X'',1`, possibly followed by more.
    pub(crate) fn from_statement(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut parts = text.split(',');
        let global = hexadecimal(parts.next()?)?;
        let branch = hexadecimal(parts.next()?)?;
        let format = parts.next()?.split_ascii_whitespace().next()?;
        // The standard's type is signed, and MariaDB writes it as such.
        let format = format.parse().or_else(|_| format.parse().map(i32::cast_unsigned)).ok()?;
        Some(Self { format, global, branch })
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.global, &self.branch] {
            f.write_str("X'")?;
            part.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            f.write_str("',")?;
        }
        write!(f, "{}", self.format)
    }
}

/// Decodes `X'6162'`.
fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().strip_prefix(['X', 'x'])?.strip_prefix('\'')?.strip_suffix('\'')?;
    if digits.len() % 2 != 0 || !digits.is_ascii() {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2);
    pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_event_and_a_statement_name_the_same_transaction() {
        let mut body = vec![7, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0];
        body.extend(b"aJb");
        let xid = Xid::parse(&mut Bytes::new(&body)).unwrap();
        assert_eq!(Xid::from_statement(b"X'614A',X'62',7"), Some(xid.clone()));
        assert_eq!(Xid::from_statement(b"x'614a', X'62',7 ONE PHASE"), Some(xid.clone()));
        assert_eq!(xid.to_string(), "X'614a',X'62',7");
        assert_ne!(Xid::from_statement(b"X'614a',X'62',8"), Some(xid.clone()));
        assert_eq!(Xid::of(7, 2, b"aJb"), Some(xid));
        assert_eq!(Xid::of(7, 4, b"aJb"), None);
        let negative = Xid::from_statement(b"X'',X'',-1").unwrap();
        assert_eq!(negative.format, u32::MAX);
        assert_eq!(Xid::of(-1, 0, b""), Some(negative));
        for text in ["", "X'6',X'',1", "X'61',X''", "'61',X'',1", "X'zz',X'',1", "X'é',X'',1"] {
            assert_eq!(Xid::from_statement(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _read = Xid::parse(&mut Bytes::new(&bytes));
            let _read = Xid::from_statement(&bytes);
        }
    }
}
