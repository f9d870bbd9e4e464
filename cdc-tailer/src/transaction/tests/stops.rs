//! Stops that cannot be provoked on a real server. Hand-made events check the message, and the remedy that it names.

use super::*;
use crate::{error::Directive, transaction::savepoints::KEPT_MAX};

/// Maximum of prepared transactions, as in transaction/xa.rs.
const PREPARED_MAX: u32 = 10_000;

/// A transaction after the stop.
fn behind() -> [Packet; 4] {
    [gtid(90_000, 0), table_map(FOLLOWED), rows(FOLLOWED, 7), packet(XID, &[0; 8])]
}

/// Feeds events that stop a tailer, twice, as a restart at the same position does. Then feeds the events that a start
/// with `--resnapshot` reads: `mended` and a transaction after it, but not the events that stopped the tailer.
fn walk(stop: &[Packet], says: &str, mended: &[Packet]) {
    for _ in 0..2 {
        let error = feed(stop.iter().cloned()).unwrap_err();
        assert_eq!(error.directive(), Directive::Stop, "{error}");
        let said = error.to_string();
        assert!(said.contains(says) && said.contains("--resnapshot"), "{said}");
    }
    let followed = feed(mended.iter().cloned().chain(behind())).unwrap();
    assert_eq!(followed.last().unwrap(), &(90_000, vec![7]));
}

#[test]
fn over_ten_thousand_prepared_transactions_stop_it_until_they_are_ended() {
    let name = |number: u32| number.to_be_bytes();
    let prepared = |number: u32| {
        let mut body = vec![0, 1, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0];
        body.extend(name(number));
        [gtid(u64::from(number), 64), packet(38, &body)]
    };
    let stop: Vec<Packet> = (1..=PREPARED_MAX + 1).flat_map(prepared).collect();
    assert!(feed(stop[..stop.len() - 2].iter().cloned()).is_ok(), "as many are borne");
    let ended = |number: u32| {
        let phase = format!("XA ROLLBACK X'{number:08x}',X'',1");
        [gtid(u64::from(20_000 + number), 128), query(&phase)]
    };
    let ended: Vec<Packet> = (1..=PREPARED_MAX + 1).flat_map(ended).collect();
    walk(&stop, "xa recover", &ended);
}

#[test]
fn a_rollback_to_a_savepoint_that_was_forgotten_stops_it_and_one_to_a_kept_one_does_not() {
    let transaction = |back_to: usize| {
        let set = (0..=KEPT_MAX).map(|number| query(&format!("SAVEPOINT `s{number}`")));
        let mut packets = vec![gtid(1, 0), table_map(FOLLOWED), rows(FOLLOWED, 1)];
        packets.extend(set);
        packets.extend([rows(FOLLOWED, 2), query(&format!("ROLLBACK TO `s{back_to}`"))]);
        packets.push(packet(XID, &[0; 8]));
        packets
    };
    assert_eq!(feed(transaction(1)).unwrap(), [(1, vec![1])]);
    walk(&transaction(0), "fewer savepoints", &transaction(KEPT_MAX));
}

#[test]
fn events_that_this_version_does_not_know_stop_it() {
    walk(&[packet(200, &[])], "kind 200", &[]);
    let later_version = [2 << 1, 0, 0];
    walk(&[packet(42, &later_version)], "gtid_next", &[]);
}

#[test]
fn table_maps_that_cannot_be_read_stop_it() {
    let described = table_map(FOLLOWED).event()[19..].to_vec();
    let with_tail = |kept: usize, tail: &[u8]| {
        let body = [&described[..kept], tail].concat();
        vec![gtid(1, 0), packet(TABLE_MAP, &body)]
    };
    let last = described.len() - 1;
    walk(&with_tail(last, &[0xff]), "another name", &[]);
    walk(&with_tail(last, &[]), "is damaged", &[]);
}
