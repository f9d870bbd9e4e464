//! DECIMAL: groups of nine digits in four big-endian bytes, leftover digits in fewer. The highest bit is set for
//! positive numbers; negative numbers have all bits inverted.

use std::fmt::Write as _;

use crate::cells::bytes::{Bytes, Truncated};

/// Digits of a full group.
const GROUP: usize = 9;

/// Bytes per number of leftover digits.
const BYTES_OF_DIGITS: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// Maximum digits of a DECIMAL: the servers' own limit. After the point they allow 38.
const DIGITS_MAX: usize = 65;

/// Reads a DECIMAL(precision, scale) as text.
pub(crate) fn read(
    precision: usize,
    scale: usize,
    bytes: &mut Bytes<'_>,
) -> Result<String, Truncated> {
    if precision > DIGITS_MAX || scale > precision {
        return Err(Truncated);
    }
    let whole = precision - scale;
    let groups = groups(whole, scale);
    let length: usize = groups.iter().map(|digits| BYTES_OF_DIGITS[*digits]).sum();
    let mut raw = bytes.take(length)?.to_vec();
    let negative = raw.first().is_some_and(|first| first & 0x80 == 0);
    if let Some(first) = raw.first_mut() {
        *first ^= 0x80;
    }
    if negative {
        raw.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let mut digits = String::with_capacity(precision);
    let mut rest = Bytes::new(&raw);
    for count in groups {
        let group = rest.big_endian(BYTES_OF_DIGITS[count])?;
        // Writing to a string cannot fail.
        let _written = write!(digits, "{group:0count$}");
    }
    let (whole, fraction) = digits.split_at_checked(whole).ok_or(Truncated)?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if negative { "-" } else { "" };
    let point = if scale > 0 { "." } else { "" };
    Ok(format!("{sign}{whole}{point}{fraction}"))
}

/// Returns the digits of each group in the order of storage; the short groups are at the outer ends.
fn groups(whole: usize, scale: usize) -> Vec<usize> {
    let mut groups = vec![whole % GROUP];
    groups.extend(std::iter::repeat_n(GROUP, whole / GROUP + scale / GROUP));
    groups.push(scale % GROUP);
    groups.retain(|digits| *digits > 0);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manuals_examples_are_read() {
        let bytes = [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x04, 0xd2];
        let read = |bytes: &[u8]| read(14, 4, &mut Bytes::new(bytes));
        assert_eq!(read(&bytes).as_deref(), Ok("1234567890.1234"));
        let negative = bytes.map(|byte| !byte);
        assert_eq!(read(&negative).as_deref(), Ok("-1234567890.1234"));
        assert_eq!(read(&[0x80]), Err(Truncated));
    }

    #[test]
    fn small_numbers_keep_their_zeros_behind_the_point() {
        assert_eq!(read(4, 2, &mut Bytes::new(&[0x80, 0x05])).as_deref(), Ok("0.05"));
        assert_eq!(read(2, 2, &mut Bytes::new(&[0x80 | 0x07])).as_deref(), Ok("0.07"));
        assert_eq!(read(3, 0, &mut Bytes::new(&[0x80, 0x2a])).as_deref(), Ok("42"));
    }
}
