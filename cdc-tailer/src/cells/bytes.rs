//! Reads numbers and byte strings from a slice, never beyond its end.

use thiserror::Error;

/// The slice ended before the value did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("ends too early")]
pub(crate) struct Truncated;

/// The unread rest of a slice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(slice: &'a [u8]) -> Self {
        Self { rest: slice }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Truncated> {
        let (first, rest) = self.rest.split_first().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*first)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Truncated> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Truncated> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Truncated> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a little-endian number of up to 8 bytes.
    pub(crate) fn little_endian(&mut self, count: usize) -> Result<u64, Truncated> {
        let taken = self.take(count.min(8))?;
        Ok(taken.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads a big-endian number of up to 8 bytes.
    pub(crate) fn big_endian(&mut self, count: usize) -> Result<u64, Truncated> {
        let taken = self.take(count.min(8))?;
        Ok(taken.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads the protocol's length-encoded integer; its NULL marker is an error.
    pub(crate) fn length_encoded(&mut self) -> Result<u64, Truncated> {
        match self.u8()? {
            short @ ..=0xfa => Ok(u64::from(short)),
            0xfc => self.little_endian(2),
            0xfd => self.little_endian(3),
            0xfe => self.little_endian(8),
            0xfb | 0xff => Err(Truncated),
        }
    }

    /// Reads a length-encoded integer that counts something in memory.
    pub(crate) fn count(&mut self) -> Result<usize, Truncated> {
        usize::try_from(self.length_encoded()?).map_err(|_| Truncated)
    }

    /// Reads a length-encoded length and that many bytes.
    pub(crate) fn counted(&mut self) -> Result<&'a [u8], Truncated> {
        let count = self.count()?;
        self.take(count)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }
}

/// Returns bit `index` of a bitmap that starts with the lowest bit of its first byte.
pub(crate) fn bit(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
}

/// Returns bit `index` of a bitmap that starts with the highest bit of its first byte.
pub(crate) fn bit_from_top(bitmap: &[u8], index: usize) -> bool {
    bitmap.get(index / 8).is_some_and(|byte| byte << (index % 8) & 0x80 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_either_order_and_never_past_the_end() {
        let mut bytes = Bytes::new(&[1, 0, 2, 0, 0, 1, 0xfc, 0x10, 0x27, 9]);
        assert_eq!(bytes.u16(), Ok(1));
        assert_eq!(bytes.little_endian(3), Ok(2));
        assert_eq!(bytes.u8(), Ok(1));
        assert_eq!(bytes.length_encoded(), Ok(10_000));
        assert_eq!(bytes.big_endian(2), Err(Truncated));
        assert_eq!(bytes.rest(), [9]);
    }

    #[test]
    fn bitmaps_have_two_orders() {
        assert!(bit(&[0b10], 1) && !bit(&[0b10], 6) && !bit(&[], 0));
        assert!(bit_from_top(&[0b0100_0000], 1) && !bit_from_top(&[0b10], 1));
    }
}
