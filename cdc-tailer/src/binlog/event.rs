//! Binlog events: header, kinds, and the small events that frame transactions.
//!
//! The only file that uses `mysql_cdc`. Its parsers of headers, rotations, commits and GTIDs are correct
//! (`tests/tool.rs` compares them with the server's own tool). Others are not used: the statement parser requires
//! UTF-8, the format description parser computes a length in eight bits, and the row parsers lose what `docs/events.md`
//! promises.

use std::io::Cursor;

use mysql_cdc::{
    errors::Error as EventError,
    events::{event_header::EventHeader, rotate_event::RotateEvent, xid_event::XidEvent},
    providers::{
        mariadb::events::gtid_event::GtidEvent as MariaDbGtid,
        mysql::events::gtid_event::GtidEvent as MySqlGtid,
    },
};

use crate::{
    binlog::{
        gtid::{
            Gtid, GtidSet, Series, encoded,
            tag::{self, Tag},
        },
        rows,
        xid::Xid,
    },
    cells::bytes::{Bytes, Truncated},
};

/// Length of the header of every event.
pub(crate) const HEADER_LENGTH: usize = 19;

/// Kinds of events that other files use by name.
pub(crate) const ROTATE: u8 = 4;
pub(crate) const FORMAT_DESCRIPTION: u8 = 15;

/// Header flag: a replica that does not know the event may skip it.
const IGNORABLE: u16 = 0x80;

/// Flag of a rows event.
const ENDS_STATEMENT: u16 = 1;

/// Flag of a MariaDB GTID event.
const STANDALONE: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Seconds since 1970; 0 for events that the server generates for the connection.
    pub(crate) timestamp: u32,
    pub(crate) kind: u8,
    pub(crate) server_id: u32,
    /// Length of header, body and checksum.
    pub(crate) length: u32,
    /// Offset of the event's end in the file; 0 for generated events, wrong in files over 4 GiB.
    pub(crate) end: u32,
    pub(crate) flags: u16,
}

/// Role of an event kind within a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Names the transaction.
    Begins,
    /// Describes a table, or changes rows.
    Rows,
    /// May be the last event: a statement, XID, the end of a phase, a whole transaction in one.
    MayEnd,
    Other,
}

/// Kind of change in a rows event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Insert,
    Update,
    Delete,
}

/// Encoding of a rows event's images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    /// The bytes after the head are compressed with MariaDB's method.
    Compressed,
}

/// An event's body, as far as the assembler needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// Start of a transaction. `standalone`: whether its single statement also ends it; `None`: the statement decides
    /// (MySQL).
    Begin {
        gtid: Gtid,
        standalone: Option<bool>,
    },
    /// MySQL without GTIDs.
    Anonymous,
    Query(Query<'a>),
    /// A query whose text is compressed with MariaDB's method.
    CompressedQuery(Query<'a>),
    /// A whole transaction except its GTID, compressed (MySQL).
    Payload,
    /// Commit of the transaction.
    Xid,
    /// End of an XA transaction's first phase, or of a one-phase one.
    XaPrepare {
        one_phase: bool,
        xid: Xid,
    },
    TableMap {
        table_id: u64,
        body: &'a [u8],
    },
    Rows {
        change: Change,
        table_id: u64,
        /// Whether no more rows of its statement follow. Those of the next have their tables described anew.
        ends_statement: bool,
        /// Layout of the body: 1, 2 or [`rows::WITH_OPTIONS`].
        version: u8,
        encoding: Encoding,
    },
    /// The stream continues in another file.
    Rotate {
        file: String,
    },
    /// What the files before this one hold, at its head.
    FileBegins(GtidSet),
    /// Start of a binlog file. After a crash, a transaction open before it never ended.
    FormatDescription {
        /// Whether the server began the file when it was started, and not because the one before it was full.
        begins_a_run: bool,
    },
    /// The server has no more events for now.
    Heartbeat,
    /// The server lost changes before they reached the binlog.
    Incident,
    /// No effect on rows.
    Ignored,
    /// Possibly an effect on rows that we do not understand.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    pub(crate) database: &'a [u8],
    pub(crate) text: &'a [u8],
    /// The session's `sql_mode`, by which its quotes are read; 0 if it is not known.
    pub(crate) sql_mode: u64,
    /// The number of the client's collation, by whose character set the text is read; 0 if it is not known.
    pub(crate) collation: u16,
}

impl Role {
    pub(crate) fn of(kind: u8) -> Self {
        match kind {
            33 | 42 | 162 => Self::Begins,
            19 | 23..=25 | 30..=32 | 39 | 166..=171 => Self::Rows,
            2 | 16 | 18 | 38 | 40 | 165 => Self::MayEnd,
            _ => Self::Other,
        }
    }
}

impl Header {
    pub(crate) fn parse(event: &[u8]) -> Result<Self, Truncated> {
        Ok(EventHeader::parse(event).map_err(truncated)?.into())
    }
}

impl From<EventHeader> for Header {
    fn from(header: EventHeader) -> Self {
        Self {
            timestamp: header.timestamp,
            kind: header.event_type,
            server_id: header.server_id,
            length: header.event_length,
            end: header.next_event_position,
            flags: header.event_flags,
        }
    }
}

/// The library's parsers fail only for this, or for a file name that is not UTF-8.
fn truncated(_: EventError) -> Truncated {
    Truncated
}

impl<'a> Body<'a> {
    /// Parses the body of an event, without header and checksum.
    pub(crate) fn parse(header: &Header, body: &'a [u8]) -> Result<Self, Truncated> {
        let mut bytes = Bytes::new(body);
        Ok(match header.kind {
            2 => Self::Query(query(bytes, 0)?),
            // LOAD DATA in statement format: a query after 13 bytes about its file.
            18 => Self::Query(query(bytes, 13)?),
            ROTATE => {
                let rotated = RotateEvent::parse(&mut Cursor::new(body)).map_err(truncated)?;
                Self::Rotate { file: rotated.binlog_filename }
            }
            FORMAT_DESCRIPTION => Self::FormatDescription { begins_a_run: begins_a_run(body) },
            16 => {
                XidEvent::parse(&mut Cursor::new(body)).map_err(truncated)?;
                Self::Xid
            }
            19 => Self::TableMap { table_id: bytes.little_endian(6)?, body },
            23 => rows_event(Change::Insert, 1, Encoding::Plain, bytes)?,
            24 => rows_event(Change::Update, 1, Encoding::Plain, bytes)?,
            25 => rows_event(Change::Delete, 1, Encoding::Plain, bytes)?,
            30 => rows_event(Change::Insert, 2, Encoding::Plain, bytes)?,
            31 => rows_event(Change::Update, 2, Encoding::Plain, bytes)?,
            32 => rows_event(Change::Delete, 2, Encoding::Plain, bytes)?,
            39 => rows_event(Change::Update, rows::WITH_OPTIONS, Encoding::Plain, bytes)?,
            166 => rows_event(Change::Insert, 1, Encoding::Compressed, bytes)?,
            167 => rows_event(Change::Update, 1, Encoding::Compressed, bytes)?,
            168 => rows_event(Change::Delete, 1, Encoding::Compressed, bytes)?,
            169 => rows_event(Change::Insert, 2, Encoding::Compressed, bytes)?,
            170 => rows_event(Change::Update, 2, Encoding::Compressed, bytes)?,
            171 => rows_event(Change::Delete, 2, Encoding::Compressed, bytes)?,
            26 => Self::Incident,
            27 | 41 => Self::Heartbeat,
            33 => mysql_gtid(body)?,
            34 => Self::Anonymous,
            38 => Self::XaPrepare { one_phase: bytes.u8()? != 0, xid: Xid::parse(&mut bytes)? },
            40 => Self::Payload,
            // A tagged GTID in an unknown format is never skipped, whatever its flags say.
            42 => tag::gtid(bytes)?
                .map_or(Self::Unknown, |gtid| Self::Begin { gtid, standalone: None }),
            162 => mariadb_gtid(header, body)?,
            35 => encoded::decode(bytes)?.map_or(Self::Unknown, Self::FileBegins),
            163 => encoded::decode_list(bytes)?.map_or(Self::Ignored, Self::FileBegins),
            // Stop, intvar, rand, user variable, ignorable, rows query, transaction context, view
            // change, load-file pieces; MariaDB: annotate, binlog checkpoint, start encryption.
            3 | 5 | 9 | 11 | 13 | 14 | 17 | 28 | 29 | 36 | 37 | 160 | 161 | 164 => Self::Ignored,
            165 => Self::CompressedQuery(query(bytes, 0)?),
            _ if header.flags & IGNORABLE != 0 => Self::Ignored,
            _ => Self::Unknown,
        })
    }
}

/// Reads when the server was started, in seconds since 1970. It is 0 in the later files of a run, and in the middle of a
/// stream.
fn begins_a_run(body: &[u8]) -> bool {
    // The version of the binlog, and that of the server, are before it.
    const STARTED: std::ops::Range<usize> = 52..56;
    body.get(STARTED).is_some_and(|started| started != [0; 4])
}

fn query(mut bytes: Bytes<'_>, extra: usize) -> Result<Query<'_>, Truncated> {
    bytes.take(8)?;
    let database_length = usize::from(bytes.u8()?);
    bytes.take(2)?;
    let variables_length = usize::from(bytes.u16()?);
    bytes.take(extra)?;
    let Session { sql_mode, collation } = session(bytes.take(variables_length)?);
    let database = bytes.take(database_length)?;
    bytes.u8()?;
    Ok(Query { database, text: bytes.rest(), sql_mode, collation })
}

/// What a query's session variables say that its text depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Session {
    sql_mode: u64,
    collation: u16,
}

/// Reads a query's session variables: each has a code, and the codes have an order. What is behind an unknown one is not
/// read.
fn session(variables: &[u8]) -> Session {
    let mut session = Session::default();
    // Variables that end too early are those of a version that is not known.
    let _whole = read_session(Bytes::new(variables), &mut session);
    session
}

fn read_session(mut variables: Bytes<'_>, session: &mut Session) -> Result<(), Truncated> {
    while !variables.is_empty() {
        match variables.u8()? {
            // Flags, the steps of AUTO_INCREMENT.
            0 | 3 => drop(variables.take(4)?),
            1 => session.sql_mode = variables.u64()?,
            // The catalog and its end, or without one.
            code @ (2 | 6) => {
                let length = usize::from(variables.u8()?);
                variables.take(length + usize::from(code == 2))?;
            }
            // The client's character set comes first of three.
            4 => {
                session.collation = variables.u16()?;
                return Ok(());
            }
            _ => return Ok(()),
        }
    }
    Ok(())
}

fn rows_event<'a>(
    change: Change,
    version: u8,
    encoding: Encoding,
    mut bytes: Bytes<'a>,
) -> Result<Body<'a>, Truncated> {
    let table_id = bytes.little_endian(6)?;
    let ends_statement = bytes.u16()? & ENDS_STATEMENT != 0;
    Ok(Body::Rows { change, table_id, ends_statement, version, encoding })
}

fn mariadb_gtid<'a>(header: &Header, body: &[u8]) -> Result<Body<'a>, Truncated> {
    // The parser only uses the server id of the header.
    let header = EventHeader {
        timestamp: header.timestamp,
        event_type: header.kind,
        server_id: header.server_id,
        event_length: header.length,
        next_event_position: header.end,
        event_flags: header.flags,
    };
    let MariaDbGtid { gtid, flags } =
        MariaDbGtid::parse(&mut Cursor::new(body), &header).map_err(truncated)?;
    let gtid =
        Gtid::MariaDb { domain: gtid.domain_id, server: gtid.server_id, sequence: gtid.sequence };
    Ok(Body::Begin { gtid, standalone: Some(flags & STANDALONE != 0) })
}

fn mysql_gtid<'a>(body: &[u8]) -> Result<Body<'a>, Truncated> {
    let MySqlGtid { gtid, .. } = MySqlGtid::parse(&mut Cursor::new(body)).map_err(truncated)?;
    let series = Series { uuid: gtid.source_id.data, tag: Tag::default() };
    Ok(Body::Begin { gtid: Gtid::MySql { series, number: gtid.transaction_id }, standalone: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(event in prop::collection::vec(any::<u8>(), 0..120), kind: u8) {
            if let Ok(header) = Header::parse(&event) {
                let _body = Body::parse(&Header { kind, ..header }, &event[HEADER_LENGTH..]);
            }
        }
    }

    #[test]
    fn a_query_says_by_which_mode_and_character_set_its_text_is_read() {
        let mode: u64 = 1 << 20 | 1 << 2;
        let flags = [0, 9, 9, 9, 9];
        let with_mode = [&[1][..], &mode.to_le_bytes()].concat();
        let catalog = [&[6, 3][..], b"std", &[3, 1, 0, 1, 0]].concat();
        let charset = [4, 28, 0, 33, 0, 8, 0];
        let gbk = Session { sql_mode: mode, collation: 28 };
        let whole = [&flags[..], &with_mode, &catalog, &charset, &[5, 1, b'Z']].concat();
        assert_eq!(session(&whole), gbk);
        assert_eq!(session(&[&with_mode[..], &[2, 3], b"std\0", &charset].concat()), gbk);
        assert_eq!(session(&[&flags[..], &with_mode].concat()), Session { collation: 0, ..gbk });
        for unknown in [&[][..], &[0, 1, 2], &[&flags[..], &[1, 2, 3]].concat(), &[77, 1, 2, 3]] {
            assert_eq!(session(unknown), Session::default(), "{unknown:?}");
        }
    }

    #[test]
    fn an_event_we_do_not_know_is_ignored_only_if_it_says_so() {
        let header =
            |flags| Header { timestamp: 0, kind: 200, server_id: 1, length: 19, end: 0, flags };
        assert_eq!(Body::parse(&header(0x80), b""), Ok(Body::Ignored));
        assert_eq!(Body::parse(&header(0), b""), Ok(Body::Unknown));
    }
}
