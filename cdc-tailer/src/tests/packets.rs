//! Long events, damaged events, and transactions larger than memory.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use super::{servers::Database, tap::Tap};
use crate::{
    error::{Directive, TailError},
    source::{Origin, Server, address::Address},
};

const MEGABYTE: usize = 1 << 20;

/// Length of a packet that continues in the next one.
const FULL_PACKET: usize = 0xff_ffff;

/// Returns the address of a proxy before the server. It flips one bit of the `marked` text on its way to the client, up
/// to `times` times.
fn damaging_proxy(origin: &Origin, marked: &'static [u8], times: u32) -> Origin {
    let address = &origin.server.address;
    let server = format!("{}:{}", address.host, address.port);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let left = Arc::new(AtomicU32::new(times));
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let mut server = TcpStream::connect(&server).unwrap();
            let mut requests = client.try_clone().unwrap();
            let mut answered = server.try_clone().unwrap();
            thread::spawn(move || std::io::copy(&mut requests, &mut answered));
            let left = Arc::clone(&left);
            thread::spawn(move || {
                let mut bytes = vec![0; 65536];
                while let Ok(count @ 1..) = server.read(&mut bytes) {
                    let found = bytes[..count].windows(marked.len()).position(|at| at == marked);
                    if let Some(at) = found
                        && left
                            .try_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1))
                            .is_ok()
                    {
                        bytes[at] ^= 1;
                    }
                    if client.write_all(&bytes[..count]).is_err() {
                        break;
                    }
                }
            });
        }
    });
    let address = Address { host: "127.0.0.1".to_owned(), port, ..address.clone() };
    let server = &origin.server;
    let server = Server {
        address,
        flavor: server.flavor,
        server_id: server.server_id,
        packet_bytes_max: server.packet_bytes_max,
    };
    Origin { server: Arc::new(server), after: origin.after.clone() }
}

#[test]
fn a_bit_that_turned_over_on_the_way_is_noticed_and_read_again() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql("create table t (id int, text varchar(50))");
        tap.origin = damaging_proxy(&tap.origin, b"marked for damage", 1);
        tap.sql("insert into t values (1, 'whole'); insert into t values (2, 'marked for damage')");
        let error = tap.try_transactions().unwrap_err();
        assert!(matches!(error, TailError::Checksum { .. }), "{error}");
        assert_eq!(error.directive(), Directive::Suspect, "tried again, but not for ever");
        tap.disconnect();
        let rows = tap.rows();
        assert_eq!(rows.last().unwrap().after("text"), "marked for damage");
    }
}

#[test]
fn a_transaction_that_does_not_fit_into_memory_comes_out_in_order() {
    const ROWS: i64 = 60_000;
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        tap.sql(
            "create table t (id bigint primary key, text varchar(100)); create table n (i int)",
        );
        tap.sql(&format!("insert into n values {}", vec!["(1)"; 245].join(",")));
        tap.sql(&format!(
            "begin; set @i = 0; savepoint s; insert into t values (-1, repeat('x', 100)); rollback to s;
             insert into t select (@i := @i + 1), repeat('x', 100) from n a, n b limit {ROWS};
             delete from t where id % 1000 = 0; commit"
        ));
        let transaction = loop {
            let transaction = tap.next_transaction().unwrap();
            if !transaction.rows.is_empty() {
                break transaction;
            }
        };
        assert!(transaction.rows.len() > 500, "many events");
        assert!(transaction.bytes() < 3 * MEGABYTE, "{} bytes in memory", transaction.bytes());
        let ids: Vec<i64> = super::tap::rows(&transaction)
            .unwrap()
            .iter()
            .map(|row| row.after.as_ref().or(row.before.as_ref()).unwrap())
            .map(|image| image["id"].as_deref().unwrap().parse().unwrap())
            .collect();
        let deleted = (1..=ROWS / 1000).map(|thousand| thousand * 1000);
        assert_eq!(ids, (1..=ROWS).chain(deleted).collect::<Vec<_>>());
    }
}

mod full {
    use super::*;

    #[test]
    fn events_longer_than_a_packet_come_out_whole_and_those_over_the_limit_stop() {
        for server in Database::all() {
            let mut tap = Tap::with_limit(&server, 40 * MEGABYTE);
            tap.sql("create table t (id int primary key, a longblob, b longblob, c longblob)");
            // 1 byte of status, 19 of header, 8 or 10 and 2 before the image, 1 of NULLs, id, three lengths.
            let overhead =
                if server.is_mariadb { 1 + 19 + 8 } else { 1 + 19 + 10 } + 2 + 1 + 4 + 12 + 4;
            for (id, total) in (0..).zip([
                FULL_PACKET - 1,
                FULL_PACKET,
                FULL_PACKET + 1,
                20 * MEGABYTE,
                2 * FULL_PACKET,
            ]) {
                let each = (total - overhead) / 3;
                let last = total - overhead - 2 * each;
                // Bytes that look like the protocol's EOF and error packets.
                tap.sql(&format!(
                    "insert into t values ({id}, repeat(x'fe', {each}), repeat(x'ff', {each}), \
                     repeat(x'00', {last}))"
                ));
                let rows = tap.rows();
                assert_eq!(rows.len(), 1, "{id}");
                assert_eq!(rows[0].after("id"), id.to_string());
                let lengths = ["a", "b", "c"].map(|column| rows[0].after(column).len() / 2);
                assert_eq!(lengths, [each, each, last]);
                assert!(rows[0].after("a").bytes().all(|digit| matches!(digit, b'F' | b'E')));
            }
            let half = 15 * MEGABYTE;
            tap.sql(&format!(
                "insert into t values (9, repeat('a', {half}), repeat('b', {half}), repeat('c', {half}))"
            ));
            let error = tap.try_transactions().unwrap_err();
            assert_eq!(error.directive(), Directive::Stop);
            assert!(error.to_string().contains("--packet-bytes-max"), "{error}");
        }
    }

    #[test]
    fn a_transaction_of_many_statements_takes_no_more_memory_than_one_of_few() {
        const STATEMENTS: usize = 30_000;
        for server in Database::all() {
            let mut tap = Tap::on(&server);
            tap.sql("create table t (id int primary key); create table u (id int primary key)");
            let inserts: String = (0..STATEMENTS / 2)
                .map(|id| format!("insert into t values ({id}); insert into u values ({id});\n"))
                .collect();
            tap.sql(&format!("begin; {inserts} commit"));
            let transaction = loop {
                let transaction = tap.next_transaction().unwrap();
                if !transaction.rows.is_empty() {
                    break transaction;
                }
            };
            assert_eq!(transaction.rows.len(), STATEMENTS);
            assert!(transaction.bytes() < 3 * MEGABYTE, "{} bytes in memory", transaction.bytes());
            // Each statement describes its table again, but only one description of each table is kept.
            let mut described = Vec::new();
            for packet in transaction.rows.packets() {
                let table = Arc::clone(&packet.unwrap().table);
                if !described.iter().any(|known| Arc::ptr_eq(known, &table)) {
                    described.push(table);
                }
            }
            assert_eq!(described.len(), 2);
        }
    }
}
