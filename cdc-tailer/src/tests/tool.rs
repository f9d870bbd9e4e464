//! The small events as the servers' own readers print them, `mariadb-binlog` and `mysqlbinlog`.

use std::process::{Command, Stdio};

use chrono::DateTime;
use devstack::Flavor;

use super::{servers::Database, tap::Tap};
use crate::{
    connection::{Connection, FIRST_EVENT},
    event::{Body, HEADER_LENGTH, Header},
    source::BinlogSource as _,
};

/// What both say of an event: when, whose, where it ends; and of some what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    at: String,
    server_id: u32,
    end: u32,
    says: Option<String>,
}

#[test]
fn headers_rotations_commits_and_gtids_are_what_the_servers_own_readers_make_of_them() {
    for server in Database::all() {
        let tap = Tap::on(&server);
        tap.sql("create table t (id int primary key, a text); flush binary logs");
        let names = tap.sql("show binary logs");
        let file = names.lines().last().unwrap().split('\t').next().unwrap().to_owned();
        tap.sql(
            "insert into t values (1, 'a'); begin; insert into t values (2, 'é'), (3, null);
             savepoint s; delete from t where id = 2; rollback to s; update t set a = 'b'; commit;
             create table u (a int); truncate u; flush binary logs",
        );
        let ours = ours(&tap, &file);
        let theirs = theirs(&server, &file);
        assert_eq!(ours, theirs);
        for what in ["Xid", "GTID ", "Rotate to "] {
            let is_there =
                |seen: &Seen| seen.says.as_ref().is_some_and(|says| says.starts_with(what));
            assert!(ours.iter().any(is_there), "there is no {what} in {file}");
        }
    }
}

fn ours(tap: &Tap, file: &str) -> Vec<Seen> {
    let mut connection = Connection::beside(&tap.origin.server).unwrap();
    connection.dump_file(file, FIRST_EVENT).unwrap();
    let mut all = Vec::new();
    loop {
        let packet = connection.next_packet().unwrap();
        let event = packet.event();
        let header = Header::parse(event).unwrap();
        // Made up by the server for this connection.
        if header.end == 0 {
            continue;
        }
        let body = Body::parse(&header, &event[HEADER_LENGTH..]).unwrap();
        let is_last = matches!(body, Body::Rotate { .. });
        let says = match body {
            Body::Begin { gtid, .. } => Some(format!("GTID {gtid}")),
            Body::Xid => Some("Xid".to_owned()),
            Body::Rotate { file } => Some(format!("Rotate to {file}")),
            _ => None,
        };
        let at = DateTime::from_timestamp(header.timestamp.into(), 0).unwrap();
        let at = at.format("%y%m%d %k:%M:%S").to_string();
        all.push(Seen { at, server_id: header.server_id, end: header.end, says });
        if is_last {
            return all;
        }
    }
}

/// Lines like `#261123  9:05:07 server id 1  end_log_pos 342 CRC32 0x5f5e100a<tab>GTID 0-1-2 trans`; MySQL tells
/// the GTID in a statement behind such a line.
fn theirs(server: &Database, file: &str) -> Vec<Seen> {
    let flavor = if server.is_mariadb { Flavor::Mariadb } else { Flavor::Mysql };
    let (login, rest) = server.url.strip_prefix("mysql://").unwrap().split_once('@').unwrap();
    let ((user, password), (host, rest)) =
        (login.split_once(':').unwrap(), rest.split_once(':').unwrap());
    let (port, _) = rest.split_once('/').unwrap();
    let mut reader: Command = flavor.binlog_reader().unwrap();
    // What MariaDB adds for people is not sent to us.
    let skipped: &[&str] = if server.is_mariadb { &["--skip-annotate-row-events"] } else { &[] };
    let output = reader
        .env("TZ", "UTC")
        .args(["--no-defaults", "--base64-output=decode-rows", "--read-from-remote-server"])
        .args(skipped)
        .args(["--host", host, "--port", port, "--user", user, &format!("--password={password}")])
        .arg(file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut all: Vec<Seen> = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if let Some(named) = line.strip_prefix("SET @@SESSION.GTID_NEXT= '")
            && let Some((gtid, _)) = named.split_once('\'')
            && gtid.contains(':')
            && let Some(last) = all.last_mut()
        {
            last.says = Some(format!("GTID {gtid}"));
        }
        let Some((at, rest)) =
            line.strip_prefix('#').and_then(|rest| rest.split_once(" server id "))
        else {
            continue;
        };
        let (server_id, rest) = rest.split_once("  end_log_pos ").unwrap();
        let (end, rest) = rest.split_once([' ', '\t']).unwrap();
        let (_, text) = rest.split_once('\t').unwrap_or_default();
        let says = if let Some(named) = text.strip_prefix("GTID ") {
            named.split(' ').next().map(|gtid| format!("GTID {gtid}"))
        } else if let Some(named) = text.strip_prefix("Rotate to ") {
            named.split(' ').next().map(|file| format!("Rotate to {file}"))
        } else {
            text.starts_with("Xid").then(|| "Xid".to_owned())
        };
        let seen = Seen {
            at: at.to_owned(),
            server_id: server_id.parse().unwrap(),
            end: end.parse().unwrap(),
            says,
        };
        if seen.end != 0 {
            all.push(seen);
        }
    }
    all
}
