//! A replication connection: logs in, registers as a replica, requests and reads events.

use std::{collections::BTreeMap, io, time::Duration};

use mysql_store::connect::session;

use crate::{
    binlog::{
        event::{self, HEADER_LENGTH, Header},
        gtid::{Flavor, GtidSet, Series, encoded},
        packet::Packet,
    },
    error::TailError,
    refusal,
    source::{
        BinlogSource, Origin, Server,
        login::log_in,
        wire::{AnswerRow, END_OF_FILE, ERROR, OK, Wire},
    },
};

/// Heartbeat interval of an idle server. Each heartbeat lets the reader check whether to stop.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

/// Time without any packet, beyond the heartbeat interval, after which a connection counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Time the server waits for us to accept an event while a broker is down: a day, so that back pressure reaches the
/// server instead of causing reconnects.
const NET_WRITE_TIMEOUT_SECONDS: u32 = 86_400;

/// Length of a CRC32.
const CHECKSUM_LENGTH: usize = 4;

const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_SLAVE: u8 = 0x15;
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;

/// Offset of a file's first event.
pub(crate) const FIRST_EVENT: u32 = 4;

/// Whether events end with a CRC32. The format description at the start of each file decides it for the events after
/// it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checksums(bool);

/// A logged-in connection. The server sends events on it after a dump command.
pub(crate) struct Connection {
    wire: Wire,
    identity: String,
    checksums: Checksums,
}

impl Checksums {
    /// For a stream that is already past the format description.
    pub(crate) fn of(on: bool) -> Self {
        Self(on)
    }
}

impl Connection {
    /// Connects and requests everything after the origin's position.
    pub(crate) fn open(origin: &Origin) -> Result<Self, TailError> {
        let server = &origin.server;
        let mut connection = Self::log_in(server, &as_replica(server))?;
        connection.wire.command(&register(server.server_id))?;
        connection.dump_after(&origin.after.gtids, server.server_id, Wait::ForMore)?;
        Ok(connection)
    }

    /// Connects to inspect the binlog beside an open stream. The server keeps all replicas connected.
    pub(crate) fn beside(server: &Server) -> Result<Self, TailError> {
        Self::log_in(server, "")
    }

    fn log_in(server: &Server, session: &str) -> Result<Self, TailError> {
        let line = log_in(&server.address, HEARTBEAT + SILENCE_MAX)?;
        let mut wire = Wire::new(line, server.packet_bytes_max);
        for statement in session::statements() {
            wire.run(&statement)?;
        }
        let period = HEARTBEAT.as_nanos();
        let heartbeats =
            format!(", @master_heartbeat_period = {period}, @source_heartbeat_period = {period}");
        wire.run(&format!("{SESSION}{heartbeats}{session}"))?;
        let variables = wire.rows(IDENTITY)?;
        let identity = identity(&variables);
        Ok(Self { wire, identity, checksums: Checksums::of(false) })
    }

    /// Returns the identity of the server.
    pub(crate) fn identity(&self) -> &str {
        &self.identity
    }

    /// Runs a query. Not possible once a dump was requested.
    pub(crate) fn rows(&mut self, query: &str) -> Result<Vec<AnswerRow>, TailError> {
        self.wire.rows(query)
    }

    /// Requests the transactions after a set of GTIDs.
    pub(crate) fn dump_after(
        &mut self,
        gtids: &GtidSet,
        server_id: u32,
        wait: Wait,
    ) -> Result<(), TailError> {
        let command = match gtids {
            GtidSet::MySql(all) => dump_gtids(all, server_id, wait),
            GtidSet::MariaDb(_) => {
                // Strict mode: a position inside a gap of the sequence is an error, never a silent jump.
                self.wire.run(&format!(
                    "set @slave_connect_state = '{gtids}', @slave_gtid_strict_mode = 1, \
                     @slave_gtid_ignore_duplicates = 0"
                ))?;
                dump(FIRST_EVENT, server_id, wait, "")
            }
        };
        self.wire.write(&command)
    }

    /// Requests the events of a file from `offset` on, and those of the files after it.
    pub(crate) fn dump_file(&mut self, file: &str, offset: u32) -> Result<(), TailError> {
        self.wire.write(&dump(offset, NO_SERVER_ID, Wait::No, file))
    }
}

impl BinlogSource for Connection {
    fn next_packet(&mut self) -> Result<Packet, TailError> {
        let packet = self.wire.read()?;
        event_of(packet, &mut self.checksums)
    }

    fn has_more(&self) -> bool {
        self.wire.has_more()
    }
}

/// Behaviour of the server at the end of its binlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wait {
    ForMore,
    /// The server ends the stream.
    No,
}

/// Server id of a connection that only inspects: the server keeps all replicas connected.
pub(crate) const NO_SERVER_ID: u32 = 0;

/// Returns the event in a packet, or the error or end of stream that the server sent instead.
pub(crate) fn event_of(packet: Vec<u8>, checksums: &mut Checksums) -> Result<Packet, TailError> {
    match packet.first() {
        Some(&OK) => verified(packet, checksums),
        Some(&ERROR) => Err(refusal::of(&packet)),
        Some(&END_OF_FILE) => Err(TailError::Ended { reason: "it has nothing more".into() }),
        _ => Err(TailError::Lost(io::ErrorKind::InvalidData.into())),
    }
}

fn verified(packet: Vec<u8>, checksums: &mut Checksums) -> Result<Packet, TailError> {
    let event = &packet[1..];
    let header = Header::parse(event).map_err(|source| TailError::Truncated { kind: 0, source })?;
    let wrong = || TailError::Checksum {
        kind: header.kind,
        file: "the stream".to_owned(),
        end: header.end,
    };
    if usize::try_from(header.length).ok() != Some(event.len()) {
        return Err(wrong());
    }
    let body = event.len().checked_sub(CHECKSUM_LENGTH).filter(|end| *end >= HEADER_LENGTH);
    let is_right = body.is_some_and(|end| {
        let (body, sum) = event.split_at(end);
        crc32fast::hash(body).to_le_bytes() == sum
    });
    let (has_sum, is_checked) = match header.kind {
        event::FORMAT_DESCRIPTION => {
            let method = body.and_then(|end| end.checked_sub(1)).map(|at| event[at]);
            checksums.0 = match method.ok_or_else(wrong)? {
                0 => false,
                1 => true,
                method => {
                    let what = format!(
                        "the binlog has checksums by method {method}, which this version does not know: \
                         run `set global binlog_checksum = 'CRC32'`, then start with --resnapshot"
                    );
                    return Err(TailError::Unsupported { what });
                }
            };
            // The field for it exists even if checksums are off.
            (true, checksums.0)
        }
        // Generated by the server between two files, only one of which may have checksums.
        event::ROTATE if header.timestamp == 0 => (is_right, false),
        _ => (checksums.0, checksums.0),
    };
    if is_checked && !is_right {
        return Err(wrong());
    }
    let end = if has_sum { body.ok_or_else(wrong)? } else { event.len() };
    Ok(Packet::new(packet, 1, 1 + end))
}

/// Session variables of every connection, besides the heartbeat: the client supports GTIDs, and accepts checksums.
const SESSION: &str = "set @mariadb_slave_capability = 4, @master_binlog_checksum = 'CRC32', \
    @source_binlog_checksum = 'CRC32'";

/// Variables that identify a server, as in `mysql_store::settings`.
const IDENTITY: &str =
    "show global variables where variable_name in ('server_id', 'server_uid', 'server_uuid')";

fn identity(variables: &[AnswerRow]) -> String {
    let of = |wanted: &str| {
        let found = variables.iter().find_map(|row| match row.as_slice() {
            [Some(name), Some(value)] if name.eq_ignore_ascii_case(wanted) => Some(value.as_str()),
            _ => None,
        });
        found.unwrap_or_default()
    };
    let uuid = if of("server_uid").is_empty() { of("server_uuid") } else { of("server_uid") };
    format!("{}/{uuid}", of("server_id"))
}

/// Returns the session variables that make a connection a replica's.
fn as_replica(server: &Server) -> String {
    let common = format!(", session net_write_timeout = {NET_WRITE_TIMEOUT_SECONDS}");
    match server.flavor {
        Flavor::MariaDb => common,
        // The server ends the dump of an earlier connection with the same uuid.
        Flavor::MySql => {
            let uuid = format!("00000000-0000-4000-8000-{:012x}", server.server_id);
            format!("{common}, @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'")
        }
    }
}

fn register(server_id: u32) -> Vec<u8> {
    let mut command = vec![COM_REGISTER_SLAVE];
    command.extend(server_id.to_le_bytes());
    // Host, user and password for display, port, rank, master id: all empty.
    command.extend([0; 13]);
    command
}

fn flags(wait: Wait) -> u16 {
    const NON_BLOCKING: u16 = 1;
    if wait == Wait::No { NON_BLOCKING } else { 0 }
}

fn dump(offset: u32, server_id: u32, wait: Wait, file: &str) -> Vec<u8> {
    let mut command = vec![COM_BINLOG_DUMP];
    command.extend(offset.to_le_bytes());
    command.extend(flags(wait).to_le_bytes());
    command.extend(server_id.to_le_bytes());
    command.extend(file.as_bytes());
    command
}

fn dump_gtids(all: &BTreeMap<Series, Vec<(u64, u64)>>, server_id: u32, wait: Wait) -> Vec<u8> {
    const THROUGH_GTID: u16 = 4;
    let set = encoded::encode(all);
    let mut command = vec![COM_BINLOG_DUMP_GTID];
    command.extend((THROUGH_GTID | flags(wait)).to_le_bytes());
    command.extend(server_id.to_le_bytes());
    // No file name: with one, the server would start at that file and ignore the set.
    command.extend(0u32.to_le_bytes());
    command.extend(u64::from(FIRST_EVENT).to_le_bytes());
    command.extend(u32::try_from(set.len()).unwrap_or(0).to_le_bytes());
    command.extend(set);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a packet with an event of that kind whose body ends with `tail`.
    fn packet(kind: u8, timestamp: u8, tail: &[u8], sum: Option<[u8; 4]>) -> Vec<u8> {
        let length = HEADER_LENGTH + 2 + tail.len() + sum.map_or(0, |_| CHECKSUM_LENGTH);
        let length = u8::try_from(length).unwrap();
        let mut event = vec![timestamp, 0, 0, 0, kind, 1, 0, 0, 0, length, 0, 0, 0];
        event.extend([0; 6]);
        event.extend([7, 7]);
        event.extend(tail);
        let right = crc32fast::hash(&event).to_le_bytes();
        event.extend(sum.map_or(vec![], |sum| if sum == RIGHT { right } else { sum }.to_vec()));
        [vec![OK], event].concat()
    }

    const RIGHT: [u8; 4] = [1; 4];
    const WRONG: [u8; 4] = [2; 4];

    #[test]
    fn each_files_first_event_says_whether_those_behind_it_have_checksums() {
        let mut checksums = Checksums::of(false);
        let mut read = |packet: Vec<u8>| {
            event_of(packet, &mut checksums).map(|packet| packet.event().len() - HEADER_LENGTH)
        };
        let described =
            |method: u8, sum| packet(event::FORMAT_DESCRIPTION, 1, &[method], Some(sum));
        for made_up in [None, Some(RIGHT)] {
            assert_eq!(read(packet(event::ROTATE, 0, &[], made_up)).unwrap(), 2);
        }
        assert_eq!(read(described(1, RIGHT)).unwrap(), 3);
        assert_eq!(read(packet(16, 1, &[], Some(RIGHT))).unwrap(), 2);
        assert!(read(packet(16, 1, &[], Some(WRONG))).is_err());
        assert!(read(described(1, WRONG)).is_err());
        assert_eq!(read(packet(event::ROTATE, 1, &[], Some(RIGHT))).unwrap(), 2);
        // The next file has none, and the one after it has them again.
        for made_up in [None, Some(RIGHT)] {
            assert_eq!(read(packet(event::ROTATE, 0, &[], made_up)).unwrap(), 2);
            assert_eq!(read(described(0, WRONG)).unwrap(), 3);
            assert_eq!(read(packet(16, 1, &[], Some(WRONG))).unwrap(), 6);
            assert_eq!(read(described(1, RIGHT)).unwrap(), 3);
            assert_eq!(read(packet(16, 1, &[], Some(RIGHT))).unwrap(), 2);
        }
        let said = read(described(2, RIGHT)).unwrap_err().to_string();
        assert!(said.contains("method 2") && said.contains("--resnapshot"), "{said}");
    }
}
