//! The border to the server: packets come in, nothing else is known of how.

use std::sync::Arc;

use crate::{error::TailError, position::Flavor, resume::Position};

/// One binlog event as it came, its checksum verified and cut off.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    /// The event within the bytes: behind the status byte, before the checksum.
    start: usize,
    end: usize,
}

impl Packet {
    pub(crate) fn new(bytes: Vec<u8>, start: usize, end: usize) -> Self {
        debug_assert!(start <= end && end <= bytes.len());
        Self { bytes, start, end }
    }

    /// Header and body.
    pub(crate) fn event(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

/// Where the binlog comes from and where it shall begin.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) server: Arc<Server>,
    /// Everything up to here has been seen.
    pub(crate) after: Position,
}

/// A server's address and how to behave there.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: crate::address::Address,
    pub(crate) flavor: Flavor,
    /// Ours, among its replicas.
    pub(crate) server_id: u32,
    /// Longest event accepted.
    pub(crate) packet_bytes_max: usize,
}

/// A stream of events.
pub(crate) trait BinlogSource {
    /// Blocks until the next event; heartbeats come when there is none.
    fn next_packet(&mut self) -> Result<Packet, TailError>;

    /// Whether the next event has come already, or has begun to.
    fn has_more(&self) -> bool;
}
