//! The interface to the server: a source of packets, independent of the transport.

use std::sync::Arc;

use crate::{error::TailError, position::Flavor, resume::Position};

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

/// The source of the binlog and the start position.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) server: Arc<Server>,
    /// Everything up to here was read.
    pub(crate) after: Position,
}

/// A server's address and connection settings.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: crate::address::Address,
    pub(crate) flavor: Flavor,
    /// Our id among its replicas.
    pub(crate) server_id: u32,
    /// Maximum size of an event.
    pub(crate) packet_bytes_max: usize,
}

/// A stream of events.
pub(crate) trait BinlogSource {
    /// Blocks until the next event; while there is none, heartbeats arrive.
    fn next_packet(&mut self) -> Result<Packet, TailError>;

    /// Returns whether more bytes have arrived, even if only a part of an event.
    fn has_more(&self) -> bool;
}
