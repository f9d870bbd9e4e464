//! Decompresses events: MariaDB compresses single events (`log_bin_compress`), MySQL whole transactions
//! (`binlog_transaction_compression`).
//!
//! Sizes announced by the server are checked against a limit. MariaDB's data is inflated into a buffer of the announced
//! size, MySQL's is read event by event.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::StreamingDecoder;
use thiserror::Error;

use crate::{
    binlog::{event::HEADER_LENGTH, packet::Packet},
    cells::bytes::{Bytes, Truncated},
};

/// Position of the event length in the header.
const LENGTH_IN_HEADER: std::ops::Range<usize> = 9..13;

/// Upper bound of zlib's compression ratio, which is about 1000.
const ZLIB_RATIO_MAX: usize = 1100;

#[derive(Debug, Error)]
pub(crate) enum CompressedError {
    #[error("is compressed and {0}")]
    Truncated(#[from] Truncated),
    /// The compression method is unknown.
    #[error("is compressed by method {0}, which this version does not know")]
    Method(u64),
    #[error("does not decompress")]
    Damaged(#[source] io::Error),
    /// The data is longer or shorter than announced.
    #[error("is compressed and not as long as it says")]
    Length,
    /// The data is longer than the limit.
    #[error("is compressed and over {0} bytes without that")]
    Oversize(usize),
}

/// Inflates MariaDB's compressed data: a byte with the method (0: zlib) and the length of a length, that length in
/// big-endian, zlib data.
pub(crate) fn inflate(compressed: &[u8], limit: usize) -> Result<Vec<u8>, CompressedError> {
    let mut bytes = Bytes::new(compressed);
    let head = bytes.u8()?;
    let method = u64::from(head >> 4 & 7);
    if head & 0x80 == 0 || method != 0 {
        return Err(CompressedError::Method(method));
    }
    let length = usize::try_from(bytes.big_endian(usize::from(head & 7))?)
        .ok()
        .filter(|length| *length <= limit)
        .ok_or(CompressedError::Oversize(limit))?;
    let mut inflated = Vec::new();
    // A false length must not allocate memory before it is detected.
    let possible = compressed.len().saturating_mul(ZLIB_RATIO_MAX);
    inflated.reserve_exact(length.min(possible));
    let status = Decompress::new(true)
        .decompress_vec(bytes.rest(), &mut inflated, FlushDecompress::Finish)
        .map_err(|error| CompressedError::Damaged(error.into()))?;
    match status {
        Status::StreamEnd if inflated.len() == length => Ok(inflated),
        _ => Err(CompressedError::Length),
    }
}

/// Iterates over the events inside a MySQL transaction payload.
pub(crate) struct Payload<'a> {
    source: Source<'a>,
    /// Bytes that remain, according to the server.
    left: u64,
    limit: usize,
}

enum Source<'a> {
    Plain(&'a [u8]),
    /// Concatenated zstd frames, and the decoder of the current frame.
    Zstd(&'a [u8], Option<Box<Frame<'a>>>),
}

type Frame<'a> = StreamingDecoder<&'a [u8], ruzstd::decoding::FrameDecoder>;

impl<'a> Payload<'a> {
    /// Parses the head of a payload event's body. `limit` applies to each event in it.
    pub(crate) fn parse(body: &'a [u8], limit: usize) -> Result<Self, CompressedError> {
        const END: u64 = 0;
        const SIZE: u64 = 1;
        const METHOD: u64 = 2;
        const UNCOMPRESSED_SIZE: u64 = 3;
        const ZSTD: u64 = 0;
        const NONE: u64 = 255;
        let mut bytes = Bytes::new(body);
        let mut size = None;
        let mut method = NONE;
        let mut left = None;
        loop {
            let field = bytes.length_encoded()?;
            if field == END {
                break;
            }
            let mut value = Bytes::new(bytes.counted()?);
            match field {
                SIZE => size = Some(value.count()?),
                METHOD => method = value.length_encoded()?,
                UNCOMPRESSED_SIZE => left = Some(value.length_encoded()?),
                _ => {}
            }
        }
        let payload = match size {
            Some(size) => bytes.take(size)?,
            None => bytes.rest(),
        };
        let source = match method {
            ZSTD => Source::Zstd(payload, None),
            NONE => Source::Plain(payload),
            other => return Err(CompressedError::Method(other)),
        };
        let plain = u64::try_from(payload.len()).unwrap_or(u64::MAX);
        Ok(Self { source, left: left.unwrap_or(plain), limit })
    }

    /// Returns the next event, which has no checksum of its own; `None` after the last.
    pub(crate) fn next_event(&mut self) -> Result<Option<Packet>, CompressedError> {
        if self.left == 0 {
            return match self.source.read(&mut [0]).map_err(CompressedError::Damaged)? {
                0 => Ok(None),
                _ => Err(CompressedError::Length),
            };
        }
        let mut event = Vec::with_capacity(HEADER_LENGTH);
        self.append(HEADER_LENGTH, &mut event)?;
        let length = Bytes::new(&event[LENGTH_IN_HEADER]).u32()?;
        let length = usize::try_from(length).map_err(|_| CompressedError::Length)?;
        if length > self.limit {
            return Err(CompressedError::Oversize(self.limit));
        }
        let rest = length.checked_sub(HEADER_LENGTH).ok_or(CompressedError::Length)?;
        self.append(rest, &mut event)?;
        let end = event.len();
        Ok(Some(Packet::new(event, 0, end)))
    }

    fn append(&mut self, count: usize, event: &mut Vec<u8>) -> Result<(), CompressedError> {
        let count = u64::try_from(count).map_err(|_| CompressedError::Length)?;
        self.left = self.left.checked_sub(count).ok_or(CompressedError::Length)?;
        let read = (&mut self.source).take(count).read_to_end(event);
        match read.map(u64::try_from).map_err(CompressedError::Damaged)? {
            Ok(read) if read == count => Ok(()),
            _ => Err(CompressedError::Length),
        }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (rest, open) = match self {
            Self::Plain(rest) => return rest.read(buffer),
            Self::Zstd(rest, open) => (rest, open),
        };
        loop {
            let frame = match open {
                Some(frame) => frame,
                None if rest.is_empty() => return Ok(0),
                None => {
                    let frame = StreamingDecoder::new(std::mem::take(rest));
                    open.insert(Box::new(frame.map_err(io::Error::other)?))
                }
            };
            let read = frame.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            // The frame has ended; another may follow.
            if let Some(frame) = open.take() {
                *rest = frame.into_inner();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::ZlibEncoder};
    use proptest::prelude::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    const LIMIT: usize = 1000;

    fn deflate(bytes: &[u8], said: u16) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        let mut all = vec![0x82];
        all.extend(said.to_be_bytes());
        all.extend(encoder.finish().unwrap());
        all
    }

    /// Returns an event whose body has `zeros` zero bytes.
    fn event(zeros: usize) -> Vec<u8> {
        let mut event = vec![0; HEADER_LENGTH + zeros];
        let length = u32::try_from(event.len()).unwrap();
        event[LENGTH_IN_HEADER].copy_from_slice(&length.to_le_bytes());
        event
    }

    fn payload(method: u8, events: &[u8], said: usize) -> Vec<u8> {
        let said = u16::try_from(said).unwrap().to_le_bytes();
        let mut body = vec![2, if method == 255 { 3 } else { 1 }];
        body.extend(if method == 255 { vec![0xfc, 255, 0] } else { vec![method] });
        body.extend([3, 3, 0xfc, said[0], said[1], 0]);
        body.extend(events);
        body
    }

    fn lengths(body: &[u8]) -> Result<Vec<usize>, CompressedError> {
        let mut payload = Payload::parse(body, LIMIT)?;
        let mut lengths = Vec::new();
        while let Some(packet) = payload.next_event()? {
            lengths.push(packet.event().len());
        }
        Ok(lengths)
    }

    #[test]
    fn an_event_that_mariadb_compressed_is_unpacked() {
        let text = b"insert insert insert insert insert insert".as_slice();
        assert_eq!(inflate(&deflate(text, 41), LIMIT).unwrap(), text);
        assert!(matches!(inflate(&deflate(text, 40), LIMIT), Err(CompressedError::Length)));
        assert!(matches!(inflate(&deflate(text, 42), LIMIT), Err(CompressedError::Length)));
        assert!(matches!(inflate(&[0x91, 1, 1], LIMIT), Err(CompressedError::Method(1))));
        let cut = deflate(text, 41);
        assert!(inflate(&cut[..cut.len() - 9], LIMIT).is_err());
    }

    #[test]
    fn a_bomb_is_refused_before_it_grows() {
        let zeros = vec![0; 60_000];
        let bomb = deflate(&zeros, 60_000);
        assert!(bomb.len() < 500);
        assert!(matches!(inflate(&bomb, LIMIT), Err(CompressedError::Oversize(LIMIT))));
        let events = compress_to_vec(event(60_000).as_slice(), CompressionLevel::Fastest);
        let bomb = payload(0, &events, 60_019);
        assert!(matches!(lengths(&bomb), Err(CompressedError::Oversize(LIMIT))));
    }

    #[test]
    fn a_payloads_events_come_out_one_by_one_from_one_frame_or_several() {
        let one = event(10);
        let two = event(500);
        let both = [one.as_slice(), &two].concat();
        let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        assert_eq!(lengths(&payload(255, &both, both.len())).unwrap(), [29, 519]);
        assert_eq!(lengths(&payload(0, &zstd(&both), both.len())).unwrap(), [29, 519]);
        let frames = [zstd(&both[..100]), zstd(&both[100..])].concat();
        assert_eq!(lengths(&payload(0, &frames, both.len())).unwrap(), [29, 519]);
    }

    #[test]
    fn a_payload_longer_or_shorter_than_it_says_is_refused() {
        let both = [event(10), event(20)].concat();
        for said in [28, 29, 30, both.len() - 1, both.len() + 1] {
            assert!(lengths(&payload(255, &both, said)).is_err(), "{said}");
        }
        assert!(matches!(lengths(&payload(1, &both, 68)), Err(CompressedError::Method(1))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _inflated = inflate(&bytes, LIMIT);
            let _lengths = lengths(&bytes);
        }

        #[test]
        fn damaged_bytes_are_read_or_refused(at in 0usize..100, byte: u8) {
            let events = compress_to_vec(event(500).as_slice(), CompressionLevel::Fastest);
            let bodies = [
                deflate(&event(500), 519),
                payload(0, &events, 519),
            ];
            for mut body in bodies {
                let at = at % body.len();
                body[at] = byte;
                let _inflated = inflate(&body, LIMIT);
                let _lengths = lengths(&body);
            }
        }
    }
}
