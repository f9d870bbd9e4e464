//! Packets of the client protocol: sends commands, reads answers and events.

use std::io::{self, BufReader, Read as _, Write as _};

use crate::{
    cells::bytes::{Bytes, Truncated},
    error::TailError,
    refusal,
    source::login::ServerSocket,
};

/// Bytes read ahead: hundreds of events of small transactions per system call.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Length of a packet that continues in the next one.
const FULL_PACKET: usize = 0xff_ffff;

/// Maximum length of an EOF packet.
const END_BYTES_MAX: usize = 8;

const COM_QUERY: u8 = 0x03;

/// First bytes of the server's packets.
pub(crate) const OK: u8 = 0x00;
pub(crate) const END_OF_FILE: u8 = 0xfe;
pub(crate) const ERROR: u8 = 0xff;

/// Marks a NULL column in place of its length.
const NULL: u8 = 0xfb;

/// One row of an answer; `None` is NULL.
pub(crate) type AnswerRow = Vec<Option<String>>;

/// A logged-in connection.
pub(crate) struct Wire {
    server: BufReader<ServerSocket>,
    packet_bytes_max: usize,
}

impl Wire {
    /// Takes over a connection. No packet may be longer than `packet_bytes_max`.
    pub(crate) fn new(server: ServerSocket, packet_bytes_max: usize) -> Self {
        Self { server: BufReader::with_capacity(READ_AHEAD_BYTES, server), packet_bytes_max }
    }

    /// Returns whether more bytes are buffered.
    pub(crate) fn has_more(&self) -> bool {
        !self.server.buffer().is_empty() || self.server.get_ref().has_more()
    }

    /// Sends a command and reads its answer, which must not be an error.
    pub(crate) fn command(&mut self, command: &[u8]) -> Result<(), TailError> {
        self.write(command)?;
        self.answer().map(drop)
    }

    /// Runs a statement without a result set.
    pub(crate) fn run(&mut self, statement: &str) -> Result<(), TailError> {
        self.command(&[&[COM_QUERY], statement.as_bytes()].concat())
    }

    /// Runs a query and returns its rows.
    pub(crate) fn rows(&mut self, query: &str) -> Result<Vec<AnswerRow>, TailError> {
        self.write(&[&[COM_QUERY], query.as_bytes()].concat())?;
        let head = self.answer()?;
        let columns = Bytes::new(&head).count().map_err(unreadable)?;
        // The column descriptions and their EOF packet.
        for _ in 0..=columns {
            self.answer()?;
        }
        let mut rows = Vec::new();
        loop {
            let packet = self.answer()?;
            if packet.first() == Some(&END_OF_FILE) && packet.len() <= END_BYTES_MAX {
                return Ok(rows);
            }
            rows.push(row(&packet, columns).map_err(unreadable)?);
        }
    }

    /// Sends a command: three bytes of length, packet number 0, the command.
    pub(crate) fn write(&mut self, command: &[u8]) -> Result<(), TailError> {
        let length = u32::try_from(command.len()).unwrap_or(u32::MAX).to_le_bytes();
        let packet = [&length[..3], &[0], command].concat();
        self.server.get_mut().write_all(&packet).map_err(TailError::Lost)
    }

    /// Reads a packet; an error packet becomes an error.
    fn answer(&mut self) -> Result<Vec<u8>, TailError> {
        let answer = self.read()?;
        match answer.first() {
            Some(&ERROR) => Err(refusal::of(&answer)),
            _ => Ok(answer),
        }
    }

    /// Reads a packet and joins its parts.
    pub(crate) fn read(&mut self) -> Result<Vec<u8>, TailError> {
        let mut packet = Vec::new();
        loop {
            let mut header = [0; 4];
            self.server.read_exact(&mut header).map_err(TailError::Lost)?;
            let [low, middle, high, _number] = header;
            let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
            let read = packet.len();
            if read + length > self.packet_bytes_max {
                return Err(TailError::Oversize { limit: self.packet_bytes_max });
            }
            packet.resize(read + length, 0);
            self.server.read_exact(&mut packet[read..]).map_err(TailError::Lost)?;
            if length < FULL_PACKET {
                return Ok(packet);
            }
        }
    }
}

fn row(packet: &[u8], columns: usize) -> Result<AnswerRow, Truncated> {
    let mut bytes = Bytes::new(packet);
    let column = |_| {
        if bytes.rest().first() == Some(&NULL) {
            bytes.u8()?;
            return Ok(None);
        }
        Ok(Some(String::from_utf8_lossy(bytes.counted()?).into_owned()))
    };
    (0..columns).map(column).collect()
}

fn unreadable(_: Truncated) -> TailError {
    TailError::Lost(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_columns_and_null_is_none() {
        let read = row(b"\x02ab\xfb\x00", 3).unwrap();
        assert_eq!(read, [Some("ab".to_owned()), None, Some(String::new())]);
        assert!(row(b"\x05ab", 1).is_err());
        assert!(row(b"", 1).is_err());
    }
}
