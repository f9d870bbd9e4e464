//! Fuzz targets for every decoder of untrusted bytes, for `fuzz/` and the test that runs its corpus only. Each accepts
//! any bytes and panics only if a promise is broken: everything that can be read can be written, all output is JSON,
//! and nothing grows beyond its limit.

use std::io::{self, Read, Write};

use mysql_store::connect::SslMode;

use crate::{
    binlog::{
        compressed::{Payload, inflate},
        encode::{self, ChangeOrigin},
        event::{Change, Header, Query},
        gtid::{Flavor, GtidSet},
        packet::Packet,
        pending::Pending,
        rows::{RowChange, Rows},
        schema::Followed,
        statement,
        table::{Column, Table},
        xid::Xid,
    },
    cells::{bytes::Bytes, cell::Cell, column::Kind, decimal, json},
    leader::checkpoint::Checkpoint,
    source::{
        address::Address,
        connection::{self, Checksums},
        login,
    },
    transaction::{Assembled, Assembler, Limits, Transaction},
};

/// Maximum size of an event, compressed or not.
const EVENT_BYTES_MAX: usize = 64 * 1024;

/// Password in each parsed address; must never be shown.
const PASSWORD: &str = "correct-horse-battery-staple";

/// Maximum events taken from one compressed transaction: a compression bomb contains any number.
const PAYLOAD_EVENTS_MAX: usize = 1_000;

/// The followed tables, in database `d`.
const TABLES: &[&str] = &["t", "stock_movement"];

const ORIGIN: ChangeOrigin<'_> =
    ChangeOrigin { gtid: "0-1-42", file: "binlog.000002", end: 815, committed_ms: 0, now_ms: 0 };

/// Parses a server address after a user and password. The parsed address is shown without the password, and a TLS
/// option is never ignored.
pub fn binlog_address(data: &[u8]) {
    let Ok(rest) = str::from_utf8(data) else { return };
    let url = format!("mysql://user:{PASSWORD}@{rest}");
    match Address::parse(&url) {
        Ok(address) => {
            let shown = format!("{address:?} {:?}", address.tls);
            assert!(!shown.contains(PASSWORD), "a password is shown: {shown}");
            assert!(address.password.expose().starts_with(PASSWORD), "another password");
        }
        Err(error) => {
            let shown = runtime::report(&error);
            assert!(!shown.contains(PASSWORD), "a password is shown: {shown}");
        }
    }
    // Text after a `#` is not an option.
    if !rest.contains('#') {
        let sign = if rest.contains('?') { '&' } else { '?' };
        let by_tls = Address::parse(&format!("{url}{sign}ssl-mode=VERIFY_IDENTITY"));
        let is_left_out = by_tls.is_ok_and(|by| !matches!(by.tls.mode, SslMode::VerifyIdentity));
        assert!(!is_left_out, "{rest:?} with TLS is read without");
    }
}

/// Runs a login. Input: a byte whether the connection is encrypted, and all that the server sends. The password is
/// never sent in the clear on an unencrypted connection.
pub fn server_login(data: &[u8]) {
    let Some((is_private, sent)) = data.split_first() else { return };
    let is_private = is_private & 1 == 1;
    let mut server = ScriptedServer { sent, heard: Vec::new() };
    match login::rehearse(&mut server, PASSWORD, is_private) {
        Ok(()) => assert!(!server.heard.is_empty(), "logged in without a word"),
        Err(error) => {
            let shown = error.to_string();
            assert!(!shown.is_empty() && !shown.contains(PASSWORD), "{shown}");
        }
    }
    let is_sent = server.heard.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes());
    assert!(is_private || !is_sent, "a password was sent in the clear");
}

/// A server that sends prepared bytes and ignores its input.
struct ScriptedServer<'a> {
    sent: &'a [u8],
    heard: Vec<u8>,
}

impl Read for ScriptedServer<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.sent.read(bytes)
    }
}

impl Write for ScriptedServer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.heard.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Parses a packet: an event, an error, or the end of the stream. Input: a byte whether events have a checksum, and the
/// packet. An event is accepted whole or not at all.
pub fn server_packet(data: &[u8]) {
    let Some((checksums, packet)) = data.split_first() else { return };
    let mut checksums = Checksums::of(checksums & 1 == 1);
    match connection::event_of(packet.to_vec(), &mut checksums) {
        Ok(taken) => {
            let header = Header::parse(taken.event()).expect("it was read before");
            assert_eq!(usize::try_from(header.length), Ok(packet.len() - 1), "a part of an event");
            let sum = packet.len() - 1 - taken.event().len();
            assert!(sum == 0 || sum == 4, "{sum} bytes of a checksum");
        }
        Err(error) => drop(error.to_string()),
    }
}

/// Assembles a stream of events. Each is a kind, the low byte of its flags, the length of its body in two little-endian
/// bytes, and the body. An error ends the connection, and another one begins.
pub fn binlog(data: &[u8]) {
    let limits = Limits { packet_bytes_max: EVENT_BYTES_MAX, spill_folder: std::env::temp_dir() };
    let mut assembler = Assembler::new(
        Followed { database: "d".into(), tables: TABLES },
        limits,
        &Pending::default(),
    );
    let mut bytes = Bytes::new(data);
    while let Some(packet) = packet(&mut bytes) {
        match assembler.accept(packet) {
            Ok(Assembled::Transaction(transaction)) => publish(&transaction),
            Ok(Assembled::Nothing | Assembled::FileBegins(_) | Assembled::Idle(_)) => {}
            Err(_) => assembler.reconnected(""),
        }
    }
}

fn packet(bytes: &mut Bytes<'_>) -> Option<Packet> {
    let kind = bytes.u8().ok()?;
    let flags = bytes.u8().ok()?;
    let length = usize::from(bytes.u16().ok()?);
    let mut event = vec![0, 0, 0, 0, kind, 1, 0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, flags, 0];
    event.extend(bytes.take(length).ok()?);
    let end = event.len();
    Some(Packet::new(event, 0, end))
}

fn publish(transaction: &Transaction) {
    let mut out = Vec::new();
    for packet in transaction.rows.packets() {
        let packet = packet.expect("the folder for temporary files can be read");
        all_rows(&packet.table, packet.change, packet.version, packet.body(), &mut out);
    }
}

/// Decodes rows. Input: change and version, length of a table map in two bytes, the table map, a rows event.
pub fn rows(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let (Ok(choice), Ok(length)) = (bytes.u8(), bytes.u16()) else { return };
    let Ok(map) = bytes.take(usize::from(length)) else { return };
    let Ok(table) = Table::parse(map) else { return };
    let change = match choice % 3 {
        0 => Change::Insert,
        1 => Change::Update,
        _ => Change::Delete,
    };
    all_rows(&table, change, 1 + choice / 3 % 3, bytes.rest(), &mut Vec::new());
}

fn all_rows(table: &Table, change: Change, version: u8, body: &[u8], out: &mut Vec<u8>) {
    let Ok(mut rows) = Rows::new(table, change, version, body) else { return };
    while let Ok(Some(row)) = rows.next_row() {
        written(out, table, change, &row);
    }
}

/// Encodes a row's event. Text that is not UTF-8 is rejected; everything else becomes JSON.
fn written(out: &mut Vec<u8>, table: &Table, change: Change, row: &RowChange<'_>) {
    out.clear();
    if encode::event(out, table, change, row, &ORIGIN, 7).is_ok() {
        let read = serde_json::from_slice::<serde::de::IgnoredAny>(out);
        assert!(read.is_ok(), "an event is not JSON: {}", String::from_utf8_lossy(out));
    }
}

/// Decodes a cell. Input: a column's type, two bytes of metadata, its collation, the cell.
pub fn cell(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let Ok([code, first, second, collation]) = bytes.array::<4>() else { return };
    let Ok(kind) = Kind::parse(code, &mut Bytes::new(&[first, second])) else { return };
    let kind = kind.with_collation(u64::from(collation));
    let Ok(Some(cell)) = Cell::read(kind, &mut bytes) else { return };
    let labels = vec!["small".to_owned(), "\"large\"".to_owned()];
    let column = Column { labels, ..Column::new("c".to_owned(), kind) };
    let table = Table { database: "d".into(), name: "t".into(), columns: vec![column] };
    let row = RowChange { before: None, after: Some(vec![cell]) };
    written(&mut Vec::new(), &table, Change::Insert, &row);
}

/// Parses the body of a table map.
pub fn table_map(data: &[u8]) {
    if let Ok(table) = Table::parse(data) {
        let keys = table.columns.iter().map(|column| column.key.len()).sum::<usize>();
        // A control character of a name becomes six bytes; quotes and colon add three.
        assert!(keys <= 6 * data.len() + 3 * table.columns.len(), "names grew to {keys} bytes");
    }
}

/// Decompresses a part of a MariaDB event.
pub fn compressed_event(data: &[u8]) {
    if let Ok(inflated) = inflate(data, EVENT_BYTES_MAX) {
        assert!(inflated.len() <= EVENT_BYTES_MAX, "{} bytes came out", inflated.len());
    }
}

/// Decompresses the events of a MySQL transaction.
pub fn compressed_transaction(data: &[u8]) {
    let Ok(mut payload) = Payload::parse(data, EVENT_BYTES_MAX) else { return };
    for _ in 0..PAYLOAD_EVENTS_MAX {
        let Ok(Some(packet)) = payload.next_event() else { return };
        let length = packet.event().len();
        assert!(length <= EVENT_BYTES_MAX, "an event of {length} bytes came out");
    }
}

/// Decodes MySQL's binary JSON.
pub fn json_document(data: &[u8]) {
    if let Ok(text) = json::read(data) {
        let read = serde_json::from_str::<serde::de::IgnoredAny>(&text);
        assert!(read.is_ok(), "a document is not JSON: {text}");
    }
}

/// Decodes a DECIMAL. Input: precision, scale, the number.
pub fn decimal_number(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let Ok([precision, scale]) = bytes.array::<2>() else { return };
    if let Ok(text) = decimal::read(usize::from(precision), usize::from(scale), &mut bytes) {
        let digits = text.strip_prefix('-').unwrap_or(&text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        assert!(number(whole) && number(fraction), "{text} is not a number");
    }
}

/// Parses a statement. The first byte is the number of its collation.
pub fn statement_text(data: &[u8]) {
    let Some((collation, text)) = data.split_first() else { return };
    let collation = u16::from(*collation);
    let _read = statement::classify(text);
    let _read = Xid::from_statement(text);
    let followed = Followed { database: "d".into(), tables: TABLES };
    for (database, sql_mode) in [("d", 0), ("d", u64::MAX), ("other", 0)] {
        let query = Query { database: database.as_bytes(), text, sql_mode, collation };
        let _made = statement::makes(query);
        let _found = statement::effect(query, &followed);
    }
}

/// Parses a GTID position of either flavor. A parsed position is unchanged by a round trip through text.
pub fn gtid_position(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for flavor in [Flavor::MariaDb, Flavor::MySql] {
        if let Ok(set) = GtidSet::parse(flavor, text) {
            let again = GtidSet::parse(flavor, &set.to_string());
            assert_eq!(again.as_ref(), Ok(&set), "{text:?} is not what it was");
        }
    }
}

/// Parses a record of the checkpoint topic. A parsed checkpoint is unchanged by a round trip through JSON.
pub fn checkpoint_record(data: &[u8]) {
    let Ok(checkpoint) = topic::decode::<Checkpoint>(data) else { return };
    let _position = checkpoint.position();
    let written = serde_json::to_vec(&checkpoint).expect("numbers and texts can be written");
    let again = topic::decode::<Checkpoint>(&written).ok();
    assert_eq!(again.as_ref(), Some(&checkpoint), "a checkpoint is not what it was");
}
