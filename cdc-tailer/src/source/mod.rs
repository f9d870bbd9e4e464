//! The interface to the server: a source of packets, independent of the transport.

pub(crate) mod address;
pub(crate) mod connection;
pub(crate) mod login;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod restarts;
pub(crate) mod same_history;
pub(crate) mod wire;

use std::sync::Arc;

use crate::{
    binlog::{gtid::Flavor, packet::Packet, position::Position},
    error::TailError,
};

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
    pub(crate) address: address::Address,
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
