//! One value of a row.

use chrono::NaiveDate;

use crate::cells::{
    bytes::{Bytes, Truncated},
    column::Kind,
    decimal, json,
};

/// A value; byte strings borrow from the event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell<'a> {
    Null,
    Int(i64),
    Unsigned(u64),
    Float(f32),
    Double(f64),
    /// Digits with sign and point.
    Decimal(String),
    Text(&'a [u8]),
    /// A JSON document as text.
    Json(String),
    /// Bytes, and the number of trailing zeros that the server removed.
    Bytes(&'a [u8], usize),
    /// Microseconds since 1970 of a DATETIME, which has no time zone and is taken as UTC; `None` for an invalid date
    /// like 0000-00-00.
    DateTime(Option<i64>),
    /// Microseconds since 1970 of a TIMESTAMP; `None` as above.
    Timestamp(Option<i64>),
    /// Days since 1970; `None` as above.
    Date(Option<i64>),
    /// Microseconds, possibly negative.
    Time(i64),
}

impl<'a> Cell<'a> {
    /// Reads a cell that is not NULL. Returns `None` if the column's type is not supported.
    pub(crate) fn read(kind: Kind, bytes: &mut Bytes<'a>) -> Result<Option<Self>, Truncated> {
        Ok(Some(match kind {
            Kind::Int { bytes: width, unsigned: true } => {
                Self::Unsigned(bytes.little_endian(width)?)
            }
            Kind::Int { bytes: width, unsigned: false } => Self::Int(signed(width, bytes)?),
            Kind::Float => Self::Float(f32::from_le_bytes(bytes.array()?)),
            Kind::Double => Self::Double(f64::from_le_bytes(bytes.array()?)),
            Kind::Decimal { precision, scale } => {
                Self::Decimal(decimal::read(precision, scale, bytes)?)
            }
            Kind::Year => match bytes.u8()? {
                0 => Self::Int(0),
                since_1900 => Self::Int(1900 + i64::from(since_1900)),
            },
            Kind::Date => Self::Date(date(bytes.little_endian(3)?)),
            Kind::Time { fraction } => Self::Time(time(fraction, bytes)?),
            Kind::DateTime { fraction } => Self::DateTime(date_time(fraction, bytes)?),
            Kind::Timestamp { fraction } => {
                let seconds = bytes.big_endian(4)?.cast_signed();
                let micros = seconds * 1_000_000 + micros(fraction, bytes)?;
                // The server's encoding of 0000-00-00 00:00:00.
                Self::Timestamp((micros != 0).then_some(micros))
            }
            Kind::Text { length_bytes } => Self::Text(run(length_bytes, bytes)?),
            Kind::Json { length_bytes } => Self::Json(json::read(run(length_bytes, bytes)?)?),
            Kind::Bytes { length_bytes } => Self::Bytes(run(length_bytes, bytes)?, 0),
            Kind::FixedBytes { length_bytes, length } => {
                let run = run(length_bytes, bytes)?;
                Self::Bytes(run, length.saturating_sub(run.len()))
            }
            Kind::Enum { bytes: width } | Kind::Set { bytes: width } => {
                Self::Unsigned(bytes.little_endian(width)?)
            }
            Kind::Bit { bytes: width } => Self::Unsigned(bytes.big_endian(width)?),
            Kind::OtherText { .. } | Kind::Unsupported(_) => return Ok(None),
        }))
    }
}

fn run<'a>(length_bytes: usize, bytes: &mut Bytes<'a>) -> Result<&'a [u8], Truncated> {
    let length = usize::try_from(bytes.little_endian(length_bytes)?).map_err(|_| Truncated)?;
    bytes.take(length)
}

fn signed(width: usize, bytes: &mut Bytes<'_>) -> Result<i64, Truncated> {
    let shift = 64 - 8 * width.clamp(1, 8);
    // Shifting the sign to the top bit and back extends it.
    Ok((bytes.little_endian(width)? << shift).cast_signed() >> shift)
}

/// Reads a fraction of a second, which takes half its digits, rounded up, in bytes.
fn micros(fraction: u8, bytes: &mut Bytes<'_>) -> Result<i64, Truncated> {
    let width = usize::from(fraction.min(6)).div_ceil(2);
    let scale = [1_000_000, 10_000, 100, 1][width];
    Ok(bytes.big_endian(width)?.cast_signed() * scale)
}

/// Decodes a date: day in 5 bits, month in 4, year above.
fn date(packed: u64) -> Option<i64> {
    let [day, month] = [packed & 31, packed >> 5 & 15].map(|part| u32::try_from(part).ok());
    let year = i32::try_from(packed >> 9).ok()?;
    days(NaiveDate::from_ymd_opt(year, month?, day?)?)
}

fn days(date: NaiveDate) -> Option<i64> {
    Some(date.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1)?).num_days())
}

/// Decodes a DATETIME: year × 13 + month, then day, hour, minute, second, with a bias for the sign.
fn date_time(fraction: u8, bytes: &mut Bytes<'_>) -> Result<Option<i64>, Truncated> {
    const BIAS: u64 = 0x80_0000_0000;
    let packed = bytes.big_endian(5)?;
    let micros = micros(fraction, bytes)?;
    let Some(packed) = packed.checked_sub(BIAS) else { return Ok(None) };
    let months = packed >> 22;
    let part = |shift: u32, mask: u64| u32::try_from(packed >> shift & mask).ok();
    let instant = || {
        let year = i32::try_from(months / 13).ok()?;
        let month = u32::try_from(months % 13).ok()?;
        let date = NaiveDate::from_ymd_opt(year, month, part(17, 31)?)?;
        let time = date.and_hms_opt(part(12, 31)?, part(6, 63)?, part(0, 63)?)?;
        Some(time.and_utc().timestamp_micros() + micros)
    };
    Ok(instant())
}

/// Decodes a TIME: hours, minutes, seconds and fraction as one biased number, so that negative values sort correctly.
fn time(fraction: u8, bytes: &mut Bytes<'_>) -> Result<i64, Truncated> {
    let width = usize::from(fraction.min(6)).div_ceil(2);
    let bits = 24 + 8 * u32::try_from(width).unwrap_or(0);
    let biased = bytes.big_endian(3 + width)?.cast_signed() - (1 << (bits - 1));
    let sign = biased.signum();
    let packed = biased.unsigned_abs();
    let fraction_bits = bits - 24;
    let whole = (packed >> fraction_bits).cast_signed();
    let fraction = (packed & ((1 << fraction_bits) - 1)).cast_signed();
    let scale = [0, 10_000, 100, 1][width];
    let seconds = (whole >> 12 & 0x3ff) * 3600 + (whole >> 6 & 63) * 60 + (whole & 63);
    Ok(sign * (seconds * 1_000_000 + fraction * scale))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(kind: Kind, bytes: &[u8]) -> Cell<'_> {
        let mut bytes = Bytes::new(bytes);
        let cell = Cell::read(kind, &mut bytes).unwrap().unwrap();
        assert!(bytes.is_empty());
        cell
    }

    #[test]
    fn integers_keep_their_sign_at_every_width() {
        let int = |bytes, unsigned| Kind::Int { bytes, unsigned };
        assert_eq!(read(int(1, false), &[0xff]), Cell::Int(-1));
        assert_eq!(read(int(3, false), &[0xfb, 0xff, 0xff]), Cell::Int(-5));
        assert_eq!(read(int(3, true), &[0xfb, 0xff, 0xff]), Cell::Unsigned(16_777_211));
        assert_eq!(read(int(8, false), &i64::MIN.to_le_bytes()), Cell::Int(i64::MIN));
        assert_eq!(read(int(8, true), &[0xff; 8]), Cell::Unsigned(u64::MAX));
    }

    #[test]
    fn date_times_keep_their_fraction_and_zero_dates_are_none() {
        // 2026-11-21 02:03:04.567, as the server packs it.
        let packed: u64 = 0x80_0000_0000 | (2026 * 13 + 11) << 22 | 21 << 17 | 2 << 12 | 3 << 6 | 4;
        let mut bytes = packed.to_be_bytes()[3..].to_vec();
        bytes.extend(5670u16.to_be_bytes());
        let cell = read(Kind::DateTime { fraction: 3 }, &bytes);
        assert_eq!(cell, Cell::DateTime(Some(1_795_226_584_567_000)));
        let zero = [0x80, 0, 0, 0, 0];
        assert_eq!(read(Kind::DateTime { fraction: 0 }, &zero), Cell::DateTime(None));
    }

    #[test]
    fn negative_times_are_negative() {
        // -00:00:01.10 in TIME(2): the whole part is one below -1 s, and the fraction counts up from there.
        assert_eq!(read(Kind::Time { fraction: 0 }, &[0x7f, 0xff, 0xff]), Cell::Time(-1_000_000));
        let cell = read(Kind::Time { fraction: 2 }, &[0x7f, 0xff, 0xfe, 0xf6]);
        assert_eq!(cell, Cell::Time(-1_100_000));
        assert_eq!(
            read(Kind::Time { fraction: 0 }, &[0x80, 0x10, 0x45]),
            Cell::Time(3_665_000_000)
        );
    }

    #[test]
    fn timestamps_pass_2038_and_zero_is_none() {
        let kind = Kind::Timestamp { fraction: 0 };
        assert_eq!(read(kind, &[0x80, 0, 0, 0]), Cell::Timestamp(Some(2_147_483_648_000_000)));
        assert_eq!(read(kind, &[0; 4]), Cell::Timestamp(None));
    }

    #[test]
    fn binary_columns_get_back_their_trailing_zeros() {
        let kind = Kind::FixedBytes { length_bytes: 1, length: 4 };
        assert_eq!(read(kind, &[2, 1, 2]), Cell::Bytes(&[1, 2], 2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            code: u8,
            metadata: [u8; 2],
        ) {
            let kind = Kind::parse(code, &mut Bytes::new(&metadata)).unwrap();
            let _cell = Cell::read(kind, &mut Bytes::new(&bytes));
        }
    }
}
