//! Binlog events: header, kinds, and the small ones that frame transactions.

use crate::{
    bytes::{Bytes, Truncated},
    position::{Gtid, Series},
    rows,
    tagged::{self, Tag},
    xa::Xid,
};

/// Length of the header before every event.
pub(crate) const HEADER_LENGTH: usize = 19;

/// Kinds of events that are known by name elsewhere too.
pub(crate) const ROTATE: u8 = 4;
pub(crate) const FORMAT_DESCRIPTION: u8 = 15;

/// Header flag: a replica that does not know the event may skip it.
const IGNORABLE: u16 = 0x80;

/// MariaDB GTID flags.
const STANDALONE: u8 = 1;

/// The header of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    /// Seconds since 1970; 0 for events the server makes up for the connection.
    pub(crate) timestamp: u32,
    pub(crate) kind: u8,
    pub(crate) server_id: u32,
    /// Header, body and checksum.
    pub(crate) length: u32,
    /// Offset in the file behind the event; 0 for made-up events, wrong in files over 4 GiB.
    pub(crate) end: u32,
    pub(crate) flags: u16,
}

/// What an event of a kind is to the transaction that it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// It names the transaction.
    Begins,
    /// It describes a table, or changes rows.
    Rows,
    /// It may be the last one: a statement, XID, the end of a phase, a whole transaction in one.
    MayEnd,
    Other,
}

/// What a rows event does to its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Insert,
    Update,
    Delete,
}

/// How a rows event's images are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Plain,
    /// Bytes behind the head are compressed as MariaDB does.
    Compressed,
}

/// An event's body, as far as the assembler must know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body<'a> {
    /// A transaction begins. `standalone`: its single statement also ends it; `None`: the
    /// statement tells (MySQL).
    Begin {
        gtid: Gtid,
        standalone: Option<bool>,
    },
    /// MySQL without GTIDs.
    Anonymous,
    Query(Query<'a>),
    /// The same, its text compressed as MariaDB does.
    CompressedQuery(Query<'a>),
    /// A whole transaction behind its GTID, compressed (MySQL).
    Payload,
    /// The transaction is committed.
    Xid,
    /// The end of an XA transaction's first phase, or of a one-phase one.
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
        /// Layout of the body: 1, 2 or [`rows::WITH_OPTIONS`].
        version: u8,
        encoding: Encoding,
    },
    /// The stream goes on in another file.
    Rotate {
        file: &'a [u8],
        offset: u64,
    },
    /// A binlog file begins; after a crash, what was open before it never ended.
    FormatDescription,
    /// Nothing to send: we have everything.
    Heartbeat,
    /// The server lost changes on their way into the binlog.
    Incident,
    /// Of no effect on rows.
    Ignored,
    /// May have an effect on rows that we do not understand.
    Unknown,
}

/// A statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Query<'a> {
    pub(crate) database: &'a [u8],
    pub(crate) text: &'a [u8],
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
        let mut bytes = Bytes::new(event);
        Ok(Self {
            timestamp: bytes.u32()?,
            kind: bytes.u8()?,
            server_id: bytes.u32()?,
            length: bytes.u32()?,
            end: bytes.u32()?,
            flags: bytes.u16()?,
        })
    }
}

impl<'a> Body<'a> {
    /// Reads the body of an event, without header and checksum.
    pub(crate) fn parse(header: &Header, body: &'a [u8]) -> Result<Self, Truncated> {
        let mut bytes = Bytes::new(body);
        Ok(match header.kind {
            2 => Self::Query(query(bytes, 0)?),
            // LOAD DATA in statement format: a query behind 13 bytes about its file.
            18 => Self::Query(query(bytes, 13)?),
            ROTATE => Self::Rotate { offset: bytes.u64()?, file: bytes.rest() },
            FORMAT_DESCRIPTION => Self::FormatDescription,
            16 => Self::Xid,
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
            33 => mysql_gtid(bytes)?,
            34 => Self::Anonymous,
            38 => Self::XaPrepare { one_phase: bytes.u8()? != 0, xid: Xid::parse(&mut bytes)? },
            40 => Self::Payload,
            // One that is written otherwise is never skipped, whatever its flags say.
            42 => tagged::gtid(bytes)?
                .map_or(Self::Unknown, |gtid| Self::Begin { gtid, standalone: None }),
            162 => mariadb_gtid(header, bytes)?,
            // Stop, intvar, rand, user variable, ignorable, rows query, previous GTIDs, transaction
            // context, view change, load-file pieces; MariaDB: annotate, binlog checkpoint, GTID
            // list, start encryption.
            3 | 5 | 9 | 11 | 13 | 14 | 17 | 28 | 29 | 35..=37 | 160 | 161 | 163 | 164 => {
                Self::Ignored
            }
            165 => Self::CompressedQuery(query(bytes, 0)?),
            _ if header.flags & IGNORABLE != 0 => Self::Ignored,
            _ => Self::Unknown,
        })
    }
}

fn query(mut bytes: Bytes<'_>, extra: usize) -> Result<Query<'_>, Truncated> {
    bytes.take(8)?;
    let database_length = usize::from(bytes.u8()?);
    bytes.take(2)?;
    let variables_length = usize::from(bytes.u16()?);
    bytes.take(extra)?;
    bytes.take(variables_length)?;
    let database = bytes.take(database_length)?;
    bytes.u8()?;
    Ok(Query { database, text: bytes.rest() })
}

fn rows_event<'a>(
    change: Change,
    version: u8,
    encoding: Encoding,
    mut bytes: Bytes<'a>,
) -> Result<Body<'a>, Truncated> {
    Ok(Body::Rows { change, table_id: bytes.little_endian(6)?, version, encoding })
}

fn mariadb_gtid<'a>(header: &Header, mut bytes: Bytes<'a>) -> Result<Body<'a>, Truncated> {
    let sequence = bytes.u64()?;
    let domain = bytes.u32()?;
    let flags = bytes.u8()?;
    let gtid = Gtid::MariaDb { domain, server: header.server_id, sequence };
    Ok(Body::Begin { gtid, standalone: Some(flags & STANDALONE != 0) })
}

fn mysql_gtid(mut bytes: Bytes<'_>) -> Result<Body<'_>, Truncated> {
    bytes.u8()?;
    let series = Series { uuid: bytes.array()?, tag: Tag::default() };
    let gtid = Gtid::MySql { series, number: bytes.u64()? };
    Ok(Body::Begin { gtid, standalone: None })
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
    fn an_event_we_do_not_know_is_ignored_only_if_it_says_so() {
        let header =
            |flags| Header { timestamp: 0, kind: 200, server_id: 1, length: 19, end: 0, flags };
        assert_eq!(Body::parse(&header(0x80), b""), Ok(Body::Ignored));
        assert_eq!(Body::parse(&header(0), b""), Ok(Body::Unknown));
    }
}
