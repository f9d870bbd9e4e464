//! An event as the server sent it.

/// One binlog event, with its checksum verified and removed.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    /// Range of the event in `bytes`: after the status byte, before the checksum.
    start: usize,
    end: usize,
}

impl Packet {
    pub(crate) fn new(bytes: Vec<u8>, start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= bytes.len());
        Self { bytes, start, end }
    }

    /// Returns header and body.
    pub(crate) fn event(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}
