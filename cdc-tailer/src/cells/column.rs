//! Layout of a column's cells.

use std::fmt;

use crate::cells::bytes::{Bytes, Truncated};

/// The collation of bytes that are not text.
pub(crate) const BINARY: u64 = 63;

/// The layout of a column's cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Two's complement or unsigned, little-endian.
    Int {
        bytes: usize,
        unsigned: bool,
    },
    Float,
    Double,
    Decimal {
        precision: usize,
        scale: usize,
    },
    Year,
    Date,
    /// `fraction`: decimal digits of the second.
    Time {
        fraction: u8,
    },
    DateTime {
        fraction: u8,
    },
    Timestamp {
        fraction: u8,
    },
    /// VARCHAR, CHAR, TEXT, with a length of `length_bytes` before the text.
    Text {
        length_bytes: usize,
    },
    /// Text in another character set than UTF-8, with its collation.
    OtherText {
        collation: u64,
    },
    /// MySQL's JSON; in MariaDB JSON is text.
    Json {
        length_bytes: usize,
    },
    /// VARBINARY, BLOB, geometry, vector.
    Bytes {
        length_bytes: usize,
    },
    /// BINARY(n): the server removes trailing zeros; we restore them.
    FixedBytes {
        length_bytes: usize,
        length: usize,
    },
    Enum {
        bytes: usize,
    },
    Set {
        bytes: usize,
    },
    Bit {
        bytes: usize,
    },
    /// A type without decoder, by its code; an error only in a followed table.
    Unsupported(u8),
}

impl Kind {
    /// Parses the column's part of the table map's metadata.
    pub(crate) fn parse(code: u8, metadata: &mut Bytes<'_>) -> Result<Self, Truncated> {
        let int = |bytes| Self::Int { bytes, unsigned: false };
        Ok(match code {
            1 => int(1),
            2 => int(2),
            9 => int(3),
            3 => int(4),
            8 => int(8),
            4 => {
                metadata.u8()?;
                Self::Float
            }
            5 => {
                metadata.u8()?;
                Self::Double
            }
            246 => {
                let precision = usize::from(metadata.u8()?);
                let scale = usize::from(metadata.u8()?);
                Self::Decimal { precision, scale }
            }
            13 => Self::Year,
            10 | 14 => Self::Date,
            7 => Self::Timestamp { fraction: 0 },
            17 => Self::Timestamp { fraction: metadata.u8()? },
            18 => Self::DateTime { fraction: metadata.u8()? },
            19 => Self::Time { fraction: metadata.u8()? },
            15 => Self::Text { length_bytes: length_bytes(usize::from(metadata.u16()?)) },
            249..=252 => Self::Text { length_bytes: usize::from(metadata.u8()?) },
            247 | 248 | 253 | 254 => Self::string(metadata.u8()?, metadata.u8()?),
            16 => {
                let bits = usize::from(metadata.u8()?);
                let bytes = usize::from(metadata.u8()?);
                Self::Bit { bytes: bytes + usize::from(bits > 0) }
            }
            245 => Self::Json { length_bytes: usize::from(metadata.u8()?) },
            242 | 255 => Self::Bytes { length_bytes: usize::from(metadata.u8()?) },
            // Metadata of MariaDB's compressed blob is one byte, of its compressed varchar two.
            140 => {
                metadata.u8()?;
                Self::Unsupported(code)
            }
            141 => {
                metadata.u16()?;
                Self::Unsupported(code)
            }
            _ => Self::Unsupported(code),
        })
    }

    /// Parses CHAR, ENUM and SET, which share a code. The first metadata byte distinguishes them, and two of its bits
    /// extend lengths over 255.
    fn string(first: u8, second: u8) -> Self {
        let (code, length) = if first & 0x30 == 0x30 {
            (first, usize::from(second))
        } else {
            (first | 0x30, usize::from((first & 0x30) ^ 0x30) << 4 | usize::from(second))
        };
        match code {
            247 => Self::Enum { bytes: length },
            248 => Self::Set { bytes: length },
            _ => Self::FixedBytes { length_bytes: length_bytes(length), length },
        }
    }

    /// Returns whether the table map's signedness bitmap has a bit for it. YEAR has one.
    pub(crate) fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::Int { .. } | Self::Float | Self::Double | Self::Decimal { .. } | Self::Year
        )
    }

    /// Returns whether its numbers stand for labels.
    pub(crate) fn has_labels(self) -> bool {
        matches!(self, Self::Enum { .. } | Self::Set { .. })
    }

    /// Returns whether the table map's list of character sets has an entry for it.
    pub(crate) fn is_character(self) -> bool {
        matches!(
            self,
            // Before character sets are known, `Bytes` are geometries and vectors.
            Self::Text { .. }
                | Self::FixedBytes { .. }
                | Self::Bytes { .. }
                | Self::Unsupported(140 | 141)
        )
    }

    /// Applies a collation. Without one, every byte string counts as text.
    pub(crate) fn with_collation(self, collation: u64) -> Self {
        match self {
            Self::Text { length_bytes } if collation == BINARY => Self::Bytes { length_bytes },
            Self::Text { .. } | Self::FixedBytes { .. }
                if collation != BINARY && !is_utf8(collation) =>
            {
                Self::OtherText { collation }
            }
            Self::FixedBytes { length_bytes, .. } if collation != BINARY => {
                Self::Text { length_bytes }
            }
            other => other,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int { bytes, unsigned } => {
                let sign = if *unsigned { "an unsigned" } else { "a signed" };
                write!(f, "{sign} integer of {bytes} bytes")
            }
            Self::Float | Self::Double => f.write_str("a floating-point number"),
            Self::Decimal { precision, scale } => write!(f, "a decimal({precision},{scale})"),
            Self::Year => f.write_str("a year"),
            Self::Date => f.write_str("a date"),
            Self::Time { fraction } => write!(f, "a time({fraction})"),
            Self::DateTime { fraction } => write!(f, "a datetime({fraction})"),
            Self::Timestamp { fraction } => write!(f, "a timestamp({fraction})"),
            Self::Text { .. } => f.write_str("UTF-8 text"),
            Self::OtherText { collation } => {
                write!(f, "text of another character set than UTF-8 (collation {collation})")
            }
            Self::Json { .. } => f.write_str("json"),
            Self::Bytes { .. } | Self::FixedBytes { .. } => f.write_str("bytes"),
            Self::Enum { .. } => f.write_str("an enum"),
            Self::Set { .. } => f.write_str("a set"),
            Self::Bit { .. } => f.write_str("bits"),
            Self::Unsupported(code) => write!(f, "of a type without decoder (code {code})"),
        }
    }
}

/// Returns whether a collation's texts are UTF-8 or its subset ASCII. The numbers are fixed in the servers' sources.
pub(crate) fn is_utf8(collation: u64) -> bool {
    /// Offset that MariaDB adds to a collation's number for its variant without padding.
    const NOPAD: u64 = 1024;
    let padded =
        if (NOPAD..2 * NOPAD).contains(&collation) { collation - NOPAD } else { collation };
    match padded {
        // ASCII.
        11 | 65 => true,
        // Three bytes per character, then four.
        33 | 76 | 83 | 192..=215 | 223 | 576..=578 => true,
        45 | 46 | 224..=247 | 255..=323 | 608..=610 => true,
        // MariaDB's UCA 14 collations.
        2048..=2559 => true,
        _ => false,
    }
}

/// Returns the size of the length prefix: one byte for lengths up to 255.
fn length_bytes(longest: usize) -> usize {
    if longest > 255 { 2 } else { 1 }
}
