//! One replication connection: log in, say who we are and from where, read events.

use std::{
    collections::BTreeMap,
    io::{self, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use crate::{
    error::TailError,
    event::{HEADER_LENGTH, Header},
    login::{Login, log_in},
    position::{Flavor, GtidSet, Series},
    source::{BinlogSource, Origin, Packet},
};

/// How often an idle server says so: it wakes the reader to notice that it shall stop.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(500);

/// How much longer than that a link may be silent before it counts as dead.
const SILENCE_MAX: Duration = Duration::from_secs(10);

/// Bytes that are read ahead: hundreds of the events of small transactions by one system call.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// How long the server waits for us to take an event while a broker is down: a day, since the
/// pressure must go back to the server rather than end in reconnects.
const NET_WRITE_TIMEOUT_SECONDS: u32 = 86_400;

/// Bytes of a packet that is continued in the next one.
const FULL_PACKET: usize = 0xff_ffff;

/// Length of a CRC32.
const CHECKSUM_LENGTH: usize = 4;

const COM_QUERY: u8 = 0x03;
const COM_BINLOG_DUMP: u8 = 0x12;
const COM_REGISTER_SLAVE: u8 = 0x15;
const COM_BINLOG_DUMP_GTID: u8 = 0x1e;

/// First bytes of the server's packets.
const OK: u8 = 0x00;
const END_OF_FILE: u8 = 0xfe;
const ERROR: u8 = 0xff;

/// An open stream of events.
pub(crate) struct Connection {
    server: BufReader<TcpStream>,
    checksums: bool,
    packet_bytes_max: usize,
}

impl Connection {
    /// Connects and asks for everything after the origin's position.
    pub(crate) fn open(origin: &Origin) -> Result<Self, TailError> {
        let Login { server, checksums } = log_in(&origin.server, HEARTBEAT)?;
        server.set_read_timeout(Some(HEARTBEAT + SILENCE_MAX)).map_err(TailError::Lost)?;
        let mut connection = Self {
            server: BufReader::with_capacity(READ_AHEAD_BYTES, server),
            checksums,
            packet_bytes_max: origin.server.packet_bytes_max,
        };
        connection.command(&[&[COM_QUERY], session(origin).as_bytes()].concat())?;
        connection.command(&register(origin.server.server_id))?;
        connection.write(&dump(origin))?;
        Ok(connection)
    }

    /// Sends a command and expects OK.
    fn command(&mut self, command: &[u8]) -> Result<(), TailError> {
        self.write(command)?;
        let answer = self.read()?;
        match answer.first() {
            Some(&ERROR) => Err(answered(&answer)),
            _ => Ok(()),
        }
    }

    /// Sends a command: three bytes of length, the number of its first packet, and itself.
    fn write(&mut self, command: &[u8]) -> Result<(), TailError> {
        let length = u32::try_from(command.len()).unwrap_or(u32::MAX).to_le_bytes();
        let packet = [&length[..3], &[0], command].concat();
        self.server.get_mut().write_all(&packet).map_err(TailError::Lost)
    }

    /// Reads a packet, put together again if it came in several.
    fn read(&mut self) -> Result<Vec<u8>, TailError> {
        let mut packet = Vec::new();
        loop {
            let mut header = [0; 4];
            self.server.read_exact(&mut header).map_err(TailError::Lost)?;
            let [low, middle, high, _number] = header;
            let length = usize::from(low) | usize::from(middle) << 8 | usize::from(high) << 16;
            let read = packet.len();
            if read > 0 && read + length > self.packet_bytes_max {
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

impl BinlogSource for Connection {
    fn next_packet(&mut self) -> Result<Packet, TailError> {
        let packet = self.read()?;
        event_of(packet, self.checksums)
    }

    fn has_more(&self) -> bool {
        !self.server.buffer().is_empty()
    }
}

/// The event in a packet, or what the server says instead.
pub(crate) fn event_of(packet: Vec<u8>, checksums: bool) -> Result<Packet, TailError> {
    match packet.first() {
        Some(&OK) => verified(packet, checksums),
        Some(&ERROR) => Err(answered(&packet)),
        Some(&END_OF_FILE) => Err(TailError::Ended { reason: "it is stopping".into() }),
        _ => Err(TailError::Lost(io::ErrorKind::InvalidData.into())),
    }
}

fn verified(packet: Vec<u8>, checksums: bool) -> Result<Packet, TailError> {
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
    if !checksums {
        let end = packet.len();
        return Ok(Packet::new(packet, 1, end));
    }
    let body = event.len().checked_sub(CHECKSUM_LENGTH).filter(|end| *end >= HEADER_LENGTH);
    let (body, sum) = event.split_at(body.ok_or_else(wrong)?);
    if crc32fast::hash(body).to_le_bytes() != sum {
        return Err(wrong());
    }
    let end = 1 + body.len();
    Ok(Packet::new(packet, 1, end))
}

/// The session variables that make a connection a replica's, in one statement.
fn session(origin: &Origin) -> String {
    let common = format!("set session net_write_timeout = {NET_WRITE_TIMEOUT_SECONDS}");
    match origin.server.flavor {
        // Strict: a position inside a hole of the sequence is an error then, never a silent jump.
        Flavor::MariaDb => format!(
            "{common}, @mariadb_slave_capability = 4, @slave_connect_state = '{}', \
             @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0",
            origin.after
        ),
        // The server ends the dump thread of an earlier connection with the same uuid.
        Flavor::MySql => {
            let uuid = format!("00000000-0000-4000-8000-{:012x}", origin.server.server_id);
            format!(
                "{common}, @source_heartbeat_period = {}, \
                 @source_binlog_checksum = @@global.binlog_checksum, \
                 @slave_uuid = '{uuid}', @replica_uuid = '{uuid}'",
                HEARTBEAT.as_nanos()
            )
        }
    }
}

fn register(server_id: u32) -> Vec<u8> {
    let mut command = vec![COM_REGISTER_SLAVE];
    command.extend(server_id.to_le_bytes());
    // Host, user and password to show, port, rank, master id: all empty.
    command.extend([0; 13]);
    command
}

fn dump(origin: &Origin) -> Vec<u8> {
    const FIRST_EVENT: u32 = 4;
    const THROUGH_GTID: u16 = 4;
    let server_id = origin.server.server_id.to_le_bytes();
    let GtidSet::MySql(all) = &origin.after else {
        let mut command = vec![COM_BINLOG_DUMP];
        command.extend(FIRST_EVENT.to_le_bytes());
        command.extend(0u16.to_le_bytes());
        command.extend(server_id);
        return command;
    };
    let set = executed(all);
    let mut command = vec![COM_BINLOG_DUMP_GTID];
    command.extend(THROUGH_GTID.to_le_bytes());
    command.extend(server_id);
    // No file name: a server that gets one begins there, whatever the set says.
    command.extend(0u32.to_le_bytes());
    command.extend(u64::from(FIRST_EVENT).to_le_bytes());
    command.extend(u32::try_from(set.len()).unwrap_or(0).to_le_bytes());
    command.extend(set);
    command
}

/// A set as the server reads it. Where there are tags, its first and eighth byte say so; servers without
/// tags do not know that way.
fn executed(all: &BTreeMap<Series, Vec<(u64, u64)>>) -> Vec<u8> {
    const TAGGED: u64 = 1 << 56 | 1;
    let is_tagged = all.keys().any(|series| !series.tag.is_empty());
    let count = u64::try_from(all.len()).unwrap_or(0);
    let head = if is_tagged { count << 8 | TAGGED } else { count };
    let mut set = head.to_le_bytes().to_vec();
    for (Series { uuid, tag }, intervals) in all {
        set.extend(uuid);
        if is_tagged {
            // Its length is an integer of as many bytes as it needs, so of one, and a bit that says so.
            set.push(u8::try_from(tag.bytes().len() << 1).unwrap_or(0));
            set.extend(tag.bytes());
        }
        set.extend(u64::try_from(intervals.len()).unwrap_or(0).to_le_bytes());
        for (first, last) in intervals {
            set.extend(first.to_le_bytes());
            set.extend((last + 1).to_le_bytes());
        }
    }
    set
}

/// An error packet of the server: number, perhaps a state behind `#`, words.
fn answered(packet: &[u8]) -> TailError {
    let code = match packet {
        [_, low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    };
    let text = packet.get(3..).unwrap_or_default();
    let text = if text.first() == Some(&b'#') { text.get(6..).unwrap_or_default() } else { text };
    let message = String::from_utf8_lossy(text).into_owned();
    classify(code, message)
}

fn classify(code: u16, message: String) -> TailError {
    const DUPLICATE_SERVER_ID: u16 = 4052;
    const CANNOT_READ_BINLOG: u16 = 1236;
    // "Is missing the GTID": it has earlier ones and later ones, and never had ours.
    const POSITION_LOST: [&str; 7] = [
        "purged",
        "is missing the gtid",
        "could not find",
        "not in the master's binlog",
        "diverged",
        "more gtids",
        "higher sequence numbers",
    ];
    const REPLACED: [&str; 3] = ["same server_uuid", "same server_id", "same server id"];
    let lower = message.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    match code {
        DUPLICATE_SERVER_ID => TailError::Evicted { reason: message },
        CANNOT_READ_BINLOG if says(&REPLACED) => TailError::Evicted { reason: message },
        CANNOT_READ_BINLOG if says(&POSITION_LOST) => TailError::PositionLost { reason: message },
        // Access denied, and lacking the privilege to replicate.
        1045 | 1227 => TailError::Denied { reason: message },
        // Going down, killed.
        1053 | 1077 | 1079 | 1317 | 1927 => TailError::Ended { reason: message },
        _ => TailError::Server { code, message },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purged_binlog_is_told_from_other_refusals() {
        let lost = "Could not find GTID state requested by slave in any binlog files. Probably the \
                    slave state is too old and required binlog files have been purged.";
        assert!(matches!(classify(1236, lost.into()), TailError::PositionLost { .. }));
        let hole = "The binlog on the master is missing the GTID 0-1-7 requested by the slave (even \
                    though both a prior and a subsequent sequence number does exist), and GTID strict \
                    mode is enabled";
        assert!(matches!(classify(1236, hole.into()), TailError::PositionLost { .. }));
        let evicted = "A slave with the same server_uuid/server_id as this slave has connected";
        assert!(matches!(classify(1236, evicted.into()), TailError::Evicted { .. }));
        let too_long = "log event entry exceeded max_allowed_packet";
        assert!(matches!(classify(1236, too_long.into()), TailError::Server { .. }));
    }

    #[test]
    fn a_set_is_written_with_tags_only_where_there_are_some() {
        let uuid = "000102030405060708090a0b0c0d0e0f";
        let written = |text: &str| {
            let set = GtidSet::parse(Flavor::MySql, text).unwrap();
            let GtidSet::MySql(all) = set else { unreachable!() };
            executed(&all)
        };
        let number = |number: u64| number.to_le_bytes().to_vec();
        let server = || (0..16).collect::<Vec<u8>>();
        let plain = [number(1), server(), number(2), number(1), number(6), number(8), number(9)];
        assert_eq!(written(&format!("{uuid}:1-5:8")), plain.concat());
        let tagged = [
            vec![1, 2, 0, 0, 0, 0, 0, 1],
            [server(), vec![0], number(1), number(1), number(6)].concat(),
            [server(), b"\x08blue".to_vec(), number(1), number(3), number(4)].concat(),
        ];
        assert_eq!(written(&format!("{uuid}:1-5:blue:3")), tagged.concat());
    }

    #[test]
    fn an_error_packet_gives_number_and_words_or_nothing() {
        let packet = b"\xff\x0b\x05#28000Access denied".as_slice();
        assert!(matches!(answered(packet), TailError::Server { code: 1291, message }
            if message == "Access denied"));
        assert!(matches!(answered(b"\xff"), TailError::Server { code: 0, .. }));
    }
}
