//! Encoding of each column type in events, on both servers: `docs/events.md` in bytes.

use devstack::golden;

use super::{servers::Database, tap::Tap};
use crate::binlog::{
    encode::{self, ORIGIN},
    rows::Rows,
    table::Table,
};

/// Column, type, value.
const COLUMNS: &[(&str, &str, &str)] = &[
    ("a_tinyint", "tinyint", "-128"),
    ("a_bool", "bool", "true"),
    ("an_unsigned_bigint", "bigint unsigned", "18446744073709551615"),
    ("a_bigint", "bigint", "-9223372036854775808"),
    ("a_float", "float", "0.1"),
    ("a_double", "double", "-123456.789"),
    ("a_decimal", "decimal(30, 10)", "-12345678901234567890.0123456789"),
    ("a_year", "year", "2026"),
    ("a_date", "date", "'2026-11-21'"),
    ("a_time", "time(6)", "'-12:34:56.000001'"),
    ("a_datetime", "datetime", "'2026-11-21 02:03:04'"),
    ("a_datetime_3", "datetime(3)", "'2026-11-21 02:03:04.567'"),
    ("a_datetime_6", "datetime(6)", "'2026-11-21 02:03:04.567891'"),
    ("an_old_datetime", "datetime(3)", "'1969-12-31 23:59:59.999'"),
    ("no_datetime", "datetime", "0"),
    ("a_timestamp", "timestamp", "'2026-11-21 02:03:04'"),
    ("a_timestamp_6", "timestamp(6)", "'2026-11-21 02:03:04.567891'"),
    ("a_char", "char(10)", "'券'"),
    ("a_text", "text", "'two\\nlines, \"quoted\"'"),
    ("a_binary", "binary(4)", "x'0100'"),
    ("a_blob", "blob", "x'00ff'"),
    ("an_enum", "enum('small', 'large')", "'large'"),
    ("a_set", "set('a', 'b', 'c')", "'c,a'"),
    ("a_bit", "bit(10)", "513"),
    ("a_json", "json", "'{\"a\": [1, \"x\"]}'"),
    ("a_null", "int", "null"),
];

#[test]
fn every_column_type_is_written_as_its_golden_file_says() {
    for server in Database::all() {
        let mut tap = Tap::on(&server);
        let described: Vec<_> =
            COLUMNS.iter().map(|(name, kind, _)| format!("{name} {kind} null")).collect();
        let values: Vec<_> = COLUMNS.iter().map(|(_, _, value)| *value).collect();
        tap.sql(&format!("create table t ({})", described.join(", ")));
        tap.sql(&format!(
            "set sql_mode = '', time_zone = '+00:00'; insert into t values ({})",
            values.join(", ")
        ));
        let event = loop {
            let transaction = tap.next_transaction().unwrap();
            if let Some(packet) = transaction.rows.packets().next() {
                let packet = packet.unwrap();
                let mut rows =
                    Rows::new(&packet.table, packet.change, packet.version, packet.body()).unwrap();
                let row = rows.next_row().unwrap().unwrap();
                let table = Table { database: "d".into(), ..Table::clone(&packet.table) };
                let mut out = Vec::new();
                encode::event(&mut out, &table, packet.change, &row, &ORIGIN, 0).unwrap();
                break String::from_utf8(out).unwrap();
            }
        };
        golden("column_types.json", &format!("{event}\n"));
    }
}
