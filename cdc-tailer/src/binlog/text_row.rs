//! Converts query rows to the cells of binlog rows, so that snapshot events have the same columns as change events.

use chrono::{NaiveDate, NaiveDateTime};
use mysql_store::snapshot::{TableColumn, TextRow, holds_bytes};

use crate::{
    binlog::table::{Column, Table},
    cells::{cell::Cell, column::Kind},
};

/// Length prefix for text kinds. Not used: query rows carry their own lengths.
const LENGTH_BYTES: usize = 4;

/// Returns a table with these columns.
pub(crate) fn described(database: &str, name: &str, columns: &[TableColumn]) -> Table {
    let columns = columns.iter().map(|column| Column::new(column.name.clone(), kind(column)));
    Table { database: database.to_owned(), name: name.to_owned(), columns: columns.collect() }
}

fn kind(column: &TableColumn) -> Kind {
    let TableColumn { fraction, .. } = *column;
    match column.data_type.as_str() {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
            Kind::Int { bytes: 8, unsigned: false }
        }
        "float" => Kind::Float,
        "double" => Kind::Double,
        "decimal" => Kind::Decimal { precision: 0, scale: 0 },
        "year" => Kind::Year,
        "date" => Kind::Date,
        "time" => Kind::Time { fraction },
        "datetime" => Kind::DateTime { fraction },
        "timestamp" => Kind::Timestamp { fraction },
        "bit" => Kind::Bit { bytes: 8 },
        kind if holds_bytes(kind) => Kind::Bytes { length_bytes: LENGTH_BYTES },
        // Text, and types returned as text: labels, documents.
        _ => Kind::Text { length_bytes: LENGTH_BYTES },
    }
}

/// Returns the bytes of each column. Byte columns are returned by the query in hexadecimal.
pub(crate) fn values(table: &Table, row: &TextRow) -> Vec<Option<Vec<u8>>> {
    let value = |(column, text): (&Column, &Option<String>)| {
        let text = text.as_deref()?;
        Some(match column.kind {
            Kind::Bytes { .. } => unhex(text),
            _ => text.as_bytes().to_vec(),
        })
    };
    table.columns.iter().zip(row).map(value).collect()
}

/// Returns the cells of a row. Invalid dates and unreadable numbers are NULL.
pub(crate) fn cells<'a>(table: &Table, values: &'a [Option<Vec<u8>>]) -> Vec<Cell<'a>> {
    let cell = |(column, value): (&Column, &'a Option<Vec<u8>>)| {
        value.as_deref().and_then(|value| cell(column.kind, value)).unwrap_or(Cell::Null)
    };
    table.columns.iter().zip(values).map(cell).collect()
}

fn cell(kind: Kind, value: &[u8]) -> Option<Cell<'_>> {
    let text = || str::from_utf8(value).ok();
    Some(match kind {
        Kind::Int { .. } | Kind::Year | Kind::Bit { .. } => match text()?.parse() {
            Ok(number) => Cell::Int(number),
            Err(_) => Cell::Unsigned(text()?.parse().ok()?),
        },
        // Parsed as a double, which holds the value exactly.
        Kind::Float => Cell::Float(text()?.parse::<f64>().ok()? as f32),
        Kind::Double => Cell::Double(text()?.parse().ok()?),
        Kind::Decimal { .. } => Cell::Decimal(text()?.to_owned()),
        Kind::Date => Cell::Date(Some(days(text()?)?)),
        Kind::DateTime { .. } => Cell::DateTime(Some(micros(text()?)?)),
        Kind::Timestamp { .. } => Cell::Timestamp(Some(micros(text()?)?)),
        Kind::Time { .. } => Cell::Time(time(text()?)?),
        Kind::Bytes { .. } => Cell::Bytes(value, 0),
        _ => Cell::Text(value),
    })
}

/// Parses a date as days since 1970.
fn days(text: &str) -> Option<i64> {
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.signed_duration_since(NaiveDate::from_ymd_opt(1970, 1, 1)?).num_days())
}

/// Parses a date and time as microseconds since 1970.
fn micros(text: &str) -> Option<i64> {
    let time = NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f").ok()?;
    Some(time.and_utc().timestamp_micros())
}

/// Parses a time like `-838:59:59.000000` as microseconds.
fn time(text: &str) -> Option<i64> {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut seconds = 0;
    for part in whole.split(':') {
        seconds = seconds * 60 + part.parse::<i64>().ok()?;
    }
    let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
    Some(sign * (seconds * 1_000_000 + micros))
}

fn unhex(text: &str) -> Vec<u8> {
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.filter_map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_the_cells_that_a_change_brings() {
        let is = |kind, text: &str, expected: Option<Cell<'_>>| {
            assert_eq!(cell(kind, text.as_bytes()), expected, "{text}");
        };
        let int = Kind::Int { bytes: 8, unsigned: false };
        is(int, "-5", Some(Cell::Int(-5)));
        is(int, "18446744073709551615", Some(Cell::Unsigned(u64::MAX)));
        is(Kind::Float, "0.10000000149011612", Some(Cell::Float(0.1)));
        let date_time = Kind::DateTime { fraction: 3 };
        is(date_time, "1970-01-02 00:00:00.005", Some(Cell::DateTime(Some(86_400_005_000))));
        is(date_time, "0000-00-00 00:00:00.000", None);
        is(Kind::Date, "1969-12-31", Some(Cell::Date(Some(-1))));
        is(Kind::Time { fraction: 2 }, "-01:00:00.50", Some(Cell::Time(-3_600_500_000)));
        assert_eq!(unhex("00FF"), [0, 255]);
    }
}
