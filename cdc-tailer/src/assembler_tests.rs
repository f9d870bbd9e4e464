//! The assembler against hand-made events: what ends a transaction, and what does not.

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
    Assembler::new(Followed { database: "d".into(), tables: &["t"] })
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

/// Feeds events; returns each transaction's sequence and the values of its rows.
fn feed(packets: impl IntoIterator<Item = Packet>) -> Result<Vec<(u64, Vec<u8>)>, TailError> {
    let mut assembler = assembler();
    let mut transactions = Vec::new();
    for packet in packets {
        if let Assembled::Transaction(transaction) = assembler.accept(packet)? {
            let Gtid::MariaDb { sequence, .. } = transaction.gtid else { unreachable!() };
            let values = transaction.rows.iter().map(|rows| rows.body()[11]).collect();
            transactions.push((sequence, values));
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
    let compressed = packet(166, &rows(FOLLOWED, 1).event()[19..]);
    let said = sentence(vec![gtid(1, 0), table_map(FOLLOWED), compressed]);
    assert!(said.contains("log_bin_compress"), "{said}");
    let said = sentence(vec![gtid(1, 0), query("update t set a = 1")]);
    assert!(said.contains("binlog_format"), "{said}");
    let said = sentence(vec![packet(200, &[])]);
    assert!(said.contains("kind 200"), "{said}");
    let prepare = packet(38, &[0; 13]);
    let said = sentence(vec![gtid(1, 64), table_map(FOLLOWED), rows(FOLLOWED, 1), prepare]);
    assert!(said.contains("XA"), "{said}");
    assert!(feed([gtid(1, 0), rows(3, 1)]).is_err());
    assert!(feed([packet(XID, &[0; 8])]).is_err());
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
    /// Whatever savepoints are set and rolled back to, the rows are those of a simple model.
    #[test]
    fn rows_after_savepoints_match_a_model(steps in prop::collection::vec((0u8..3, 0u8..4), 0..40)) {
        let mut packets = vec![gtid(1, 0), table_map(FOLLOWED)];
        let (mut expected, mut places) = (Vec::new(), Vec::<(u8, usize)>::new());
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
