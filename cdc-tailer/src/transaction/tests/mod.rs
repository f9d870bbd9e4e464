//! Tests the assembler with hand-made events: what ends a transaction, and what does not.

use proptest::prelude::*;

use super::*;

const FOLLOWED: u64 = 1;
const FOREIGN: u64 = 2;

const GTID: u8 = 162;
const QUERY: u8 = 2;
const XID: u8 = 16;
const TABLE_MAP: u8 = 19;
const WRITE_ROWS: u8 = 23;

fn assembler() -> Assembler {
    let limits = Limits { packet_bytes_max: 10_000, spill_folder: std::env::temp_dir() };
    Assembler::new(Followed { database: "d".into(), tables: &["t"] }, limits, &Pending::default())
}

fn packet(kind: u8, body: &[u8]) -> Packet {
    let mut bytes = vec![9, 0, 0, 0, kind, 1, 0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 0, 0];
    bytes.extend(body);
    let end = bytes.len();
    Packet::new(bytes, 0, end)
}

fn gtid(sequence: u64, flags: u8) -> Packet {
    let mut body = sequence.to_le_bytes().to_vec();
    body.extend([0, 0, 0, 0, flags]);
    packet(GTID, &body)
}

fn query(text: &str) -> Packet {
    let mut body = vec![0; 8];
    body.extend([1, 0, 0, 0, 0, b'd', 0]);
    body.extend(text.as_bytes());
    packet(QUERY, &body)
}

fn table_map(id: u64) -> Packet {
    let name = if id == FOLLOWED { b't' } else { b'x' };
    let mut body = id.to_le_bytes()[..6].to_vec();
    body.extend([0, 0, 1, b'd', 0, 1, name, 0, 1, 3, 0, 0]);
    body.extend([4, 2, 1, b'a']);
    packet(TABLE_MAP, &body)
}

fn rows(id: u64, value: u8) -> Packet {
    let mut body = id.to_le_bytes()[..6].to_vec();
    body.extend([0, 0, 1, 1, 0, value, 0, 0, 0]);
    packet(WRITE_ROWS, &body)
}

/// Rows behind which no more of their statement follow.
fn last_rows(id: u64, value: u8) -> Packet {
    let mut body = id.to_le_bytes()[..6].to_vec();
    body.extend([1, 0, 1, 1, 0, value, 0, 0, 0]);
    packet(WRITE_ROWS, &body)
}

fn values(transaction: &Transaction) -> Vec<u8> {
    transaction.rows.packets().map(|rows| rows.unwrap().body()[11]).collect()
}

/// Feeds events; returns the sequence of each transaction and the values of its rows.
fn feed(packets: impl IntoIterator<Item = Packet>) -> Result<Vec<(u64, Vec<u8>)>, TailError> {
    let mut assembler = assembler();
    let mut transactions = Vec::new();
    for packet in packets {
        if let Assembled::Transaction(transaction) = assembler.accept(packet)? {
            let Gtid::MariaDb { sequence, .. } = transaction.gtid else { unreachable!() };
            transactions.push((sequence, values(&transaction)));
        }
    }
    Ok(transactions)
}

#[test]
fn a_transaction_leaves_only_at_its_end() {
    let begun = [gtid(5, 0), table_map(FOLLOWED), rows(FOLLOWED, 1), query("SAVEPOINT `s`")];
    assert_eq!(feed(begun).unwrap(), []);
    let whole = [
        gtid(5, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        query("SAVEPOINT `s`"),
        rows(FOLLOWED, 2),
        packet(XID, &[0; 8]),
    ];
    assert_eq!(feed(whole).unwrap(), [(5, vec![1, 2])]);
}

#[test]
fn create_table_select_ends_with_its_rows_and_ddl_with_its_statement() {
    let packets = [
        gtid(6, 40),
        query("CREATE TABLE t (a int)"),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        packet(XID, &[0; 8]),
        gtid(7, 41),
        query("ALTER TABLE t ADD COLUMN b int"),
    ];
    assert_eq!(feed(packets).unwrap(), [(6, vec![1]), (7, vec![])]);
}

#[test]
fn a_statement_that_changes_more_tables_than_are_remembered_loses_none_of_its_descriptions() {
    const TABLES: std::ops::Range<u64> = 10..10_000;
    let described = TABLES.map(table_map);
    let changed = TABLES.map(|id| rows(id, 0));
    let whole = [gtid(5, 0), table_map(FOLLOWED)].into_iter().chain(described);
    let whole = whole.chain([rows(FOLLOWED, 1)]).chain(changed).chain([last_rows(FOLLOWED, 2)]);
    let next = [table_map(FOLLOWED), last_rows(FOLLOWED, 3), packet(XID, &[0; 8])];
    assert_eq!(feed(whole.chain(next)).unwrap(), [(5, vec![1, 2, 3])]);
    // Behind the statement nothing is remembered without bound.
    let described = [gtid(5, 0), table_map(FOLLOWED)].into_iter().chain(TABLES.map(table_map));
    let forgotten = described.chain([last_rows(FOLLOWED, 1), rows(FOLLOWED, 2)]);
    assert!(matches!(feed(forgotten), Err(TailError::OutOfOrder { .. })));
}

#[test]
fn rolled_back_rows_do_not_come_out() {
    let packets = [
        gtid(8, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        query("SAVEPOINT `a`"),
        rows(FOLLOWED, 2),
        query("SAVEPOINT `b`"),
        rows(FOLLOWED, 3),
        query("ROLLBACK TO `a`"),
        rows(FOLLOWED, 4),
        query("COMMIT"),
        gtid(9, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 5),
        query("ROLLBACK"),
    ];
    assert_eq!(feed(packets).unwrap(), [(8, vec![1, 4]), (9, vec![])]);
}

#[test]
fn savepoints_of_one_name_are_one_whatever_their_case() {
    let packets = |back_to: &str, first: &str| {
        [
            gtid(8, 0),
            table_map(FOLLOWED),
            query(first),
            rows(FOLLOWED, 1),
            query("SAVEPOINT `Place`"),
            rows(FOLLOWED, 2),
            query(back_to),
            rows(FOLLOWED, 3),
            packet(XID, &[0; 8]),
        ]
    };
    assert_eq!(
        feed(packets("ROLLBACK TO `PLACE`", "SAVEPOINT `place`")).unwrap(),
        [(8, vec![1, 3])]
    );
    let said = feed(packets("ROLLBACK TO `place`", "SAVEPOINT `plàce`")).unwrap_err().to_string();
    assert!(said.contains("savepoints"), "{said}");
}

#[test]
fn foreign_tables_are_skipped_and_their_transactions_still_count() {
    let packets = [
        gtid(10, 0),
        table_map(FOREIGN),
        rows(FOREIGN, 1),
        packet(166, &rows(FOREIGN, 1).event()[19..]),
        packet(XID, &[0; 8]),
    ];
    assert_eq!(feed(packets).unwrap(), [(10, vec![])]);
}

#[test]
fn what_cannot_be_followed_stops_with_a_sentence() {
    let sentence = |packets: Vec<Packet>| feed(packets).unwrap_err().to_string();
    for statement in ["update t set a = 1", "select f()", "create table c select f()", "xyz"] {
        let said = sentence(vec![gtid(1, 0), query(statement)]);
        assert!(said.contains("binlog_format") && said.contains(statement), "{said}");
    }
    let said = sentence(vec![packet(200, &[])]);
    assert!(said.contains("kind 200"), "{said}");
    let later_version = [2 << 1, 0, 0];
    let said = sentence(vec![packet(42, &later_version)]);
    assert!(said.contains("gtid_next"), "{said}");
    let said = sentence(vec![packet(26, &[])]);
    assert!(said.contains("lost changes"), "{said}");
    assert!(feed([gtid(1, 0), rows(3, 1)]).is_err());
    assert!(feed([packet(XID, &[0; 8])]).is_err());
}

fn prepare(name: u8) -> Packet {
    packet(38, &[0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, name])
}

/// Feeds events; returns the sequence of each transaction, its values, and whether a reader may resume after it.
fn resumable(
    assembler: &mut Assembler,
    packets: impl IntoIterator<Item = Packet>,
) -> Vec<(u64, Vec<u8>, bool)> {
    let mut transactions = Vec::new();
    for packet in packets {
        if let Assembled::Transaction(transaction) = assembler.accept(packet).unwrap() {
            let Gtid::MariaDb { sequence, .. } = transaction.gtid else { unreachable!() };
            transactions.push((sequence, values(&transaction), transaction.resumable));
        }
    }
    transactions
}

#[test]
fn prepared_rows_come_out_at_their_xa_commit_across_reconnects() {
    let mut assembler = assembler();
    let before = [
        gtid(1, 64),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        query("XA END X'61',X'',1"),
        prepare(b'a'),
        gtid(2, 64),
        table_map(FOREIGN),
        rows(FOREIGN, 2),
        prepare(b'b'),
        gtid(3, 64),
        table_map(FOLLOWED),
        rows(FOLLOWED, 3),
        prepare(b'c'),
        gtid(4, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 4),
        packet(XID, &[0; 8]),
        gtid(5, 0),
    ];
    let expected =
        [(1, vec![], false), (2, vec![], false), (3, vec![], false), (4, vec![4], false)];
    assert_eq!(resumable(&mut assembler, before), expected);
    assembler.reconnected("");
    let after = [
        gtid(5, 128),
        query("XA COMMIT X'61',X'',1"),
        gtid(6, 128),
        query("XA COMMIT X'62',X'',1"),
        gtid(7, 128),
        query("XA ROLLBACK X'63',X'',1"),
        gtid(8, 128),
        query("XA ROLLBACK X'64',X'',1"),
    ];
    let expected = [(5, vec![1], false), (6, vec![], false), (7, vec![], true), (8, vec![], true)];
    assert_eq!(resumable(&mut assembler, after), expected);
}

#[test]
fn an_xa_transaction_of_one_phase_is_like_any_other() {
    let mut one_phase = prepare(b'a').event().to_vec();
    one_phase[19] = 1;
    let packets = [
        gtid(1, 0),
        query("XA START X'61',X'',1"),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        query("XA END X'61',X'',1"),
        packet(38, &one_phase[19..]),
        gtid(2, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 2),
        query("XA COMMIT X'61',X'',1 ONE PHASE"),
        gtid(3, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 3),
        query("XA ROLLBACK X'61',X'',1"),
    ];
    let expected = [(1, vec![1], true), (2, vec![2], true), (3, vec![], true)];
    assert_eq!(resumable(&mut assembler(), packets), expected);
}

#[test]
fn an_xa_commit_of_a_transaction_prepared_before_our_start_asks_for_a_snapshot() {
    let error = feed([gtid(1, 128), query("XA COMMIT X'61',X'',1")]).unwrap_err();
    assert_eq!(error.directive(), crate::error::Directive::Resnapshot);
}

#[test]
fn a_compressed_event_gives_the_same_rows() {
    let plain = rows(FOLLOWED, 7);
    // Head: table id, flags, number of columns, columns present.
    let (head, images) = plain.event()[19..].split_at(10);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zlib, images).unwrap();
    let length = u8::try_from(images.len()).unwrap();
    let body = [head, &[0x81, length], &zlib.finish().unwrap()].concat();
    let packets = [gtid(1, 0), table_map(FOLLOWED), packet(166, &body), packet(XID, &[0; 8])];
    assert_eq!(feed(packets).unwrap(), [(1, vec![7])]);
}

#[test]
fn a_compressed_statement_is_read_too() {
    let text = b"truncate t";
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zlib, text).unwrap();
    let mut body = query("").event()[19..].to_vec();
    body.extend([0x81, 10]);
    body.extend(zlib.finish().unwrap());
    let said = feed([gtid(1, 1), packet(165, &body)]).unwrap_err().to_string();
    assert!(said.contains("TRUNCATE"), "{said}");
}

#[test]
fn a_compressed_transaction_reads_as_its_events_do() {
    let payload = |events: &[Packet]| {
        let events: Vec<u8> = events
            .iter()
            .flat_map(|packet| {
                let mut event = packet.event().to_vec();
                let length = u32::try_from(event.len()).unwrap();
                event[9..13].copy_from_slice(&length.to_le_bytes());
                event
            })
            .collect();
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(events.as_slice(), level);
        let length = u16::try_from(events.len()).unwrap().to_le_bytes();
        packet(40, &[&[2, 1, 0, 3, 3, 0xfc, length[0], length[1], 0], zstd.as_slice()].concat())
    };
    let inside = [
        query("BEGIN"),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        table_map(FOREIGN),
        rows(FOREIGN, 2),
        rows(FOLLOWED, 3),
        packet(XID, &[0; 8]),
    ];
    assert_eq!(feed([gtid(1, 0), payload(&inside)]).unwrap(), [(1, vec![1, 3])]);
    let nested = [query("BEGIN"), payload(&inside)];
    assert!(feed([gtid(1, 0), payload(&nested)]).is_err());
    let more = [query("BEGIN"), packet(XID, &[0; 8]), query("BEGIN")];
    assert!(feed([gtid(1, 0), payload(&more)]).is_err());
}

#[test]
fn a_transaction_cut_off_by_a_crash_is_dropped() {
    let packets = [
        gtid(1, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 1),
        packet(15, &[]),
        gtid(1, 0),
        table_map(FOLLOWED),
        rows(FOLLOWED, 2),
        packet(XID, &[0; 8]),
    ];
    assert_eq!(feed(packets).unwrap(), [(1, vec![2])]);
}

proptest! {
    /// Compares the rows with a simple model, with any savepoints and rollbacks to them.
    #[test]
    fn rows_after_savepoints_match_a_model(steps in prop::collection::vec((0u8..3, 0u8..4), 0..40)) {
        let mut packets = vec![gtid(1, 0), table_map(FOLLOWED)];
        let mut expected = Vec::new();
        let mut places = Vec::<(u8, usize)>::new();
        for (number, (step, name)) in (0u8..).zip(steps) {
            match step {
                0 => {
                    packets.push(query(&format!("SAVEPOINT `{name}`")));
                    places.retain(|place| place.0 != name);
                    places.push((name, expected.len()));
                }
                1 if places.iter().any(|place| place.0 == name) => {
                    packets.push(query(&format!("ROLLBACK TO `{name}`")));
                    let index = places.iter().position(|place| place.0 == name).unwrap();
                    expected.truncate(places[index].1);
                    places.truncate(index + 1);
                }
                _ => {
                    packets.push(rows(FOLLOWED, number));
                    expected.push(number);
                }
            }
        }
        packets.push(packet(XID, &[0; 8]));
        prop_assert_eq!(feed(packets).unwrap(), [(1, expected)]);
    }

    #[test]
    fn any_events_are_taken_or_refused(events in prop::collection::vec((any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)), 0..20)) {
        let mut assembler = assembler();
        for (kind, body) in events {
            if assembler.accept(packet(kind, &body)).is_err() {
                break;
            }
        }
    }
}

mod properties;
mod stops;
