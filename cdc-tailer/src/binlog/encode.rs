//! Encodes a row change as a Debezium-compatible JSON event, directly into bytes.
//!
//! Encodings: integers as numbers; DATETIME with up to 3 fractional digits as milliseconds since 1970, with more as
//! microseconds; TIMESTAMP as ISO 8601 in UTC; DATE as days since 1970; TIME as microseconds; DECIMAL as text; ENUM and
//! SET as their labels; JSON as text; BIT as a number; binary columns as base64; invalid dates (0000-00-00) as null.
//! `topic::Event` reads a subset of this.

use std::borrow::Cow;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use thiserror::Error;
use topic::Op;

use crate::{
    binlog::{
        event::Change,
        rows::RowChange,
        table::{Column, Table},
    },
    cells::{cell::Cell, column::Kind},
};

/// A text column contains bytes that are not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "column {table}.{column} holds text that is not UTF-8: make it utf8mb4 or binary, then start with --resnapshot"
)]
pub(crate) struct NotUtf8 {
    table: String,
    column: String,
}

/// Position and times of the changes of a rows event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChangeOrigin<'a> {
    pub(crate) gtid: &'a str,
    pub(crate) file: &'a str,
    /// Offset of the rows event's end.
    pub(crate) end: u32,
    /// Commit time, milliseconds since 1970.
    pub(crate) committed_ms: i64,
    /// Time of processing, milliseconds since 1970.
    pub(crate) now_ms: i64,
}

/// Appends the event of one row; `number` is the row's index in the transaction.
pub(crate) fn event(
    out: &mut Vec<u8>,
    table: &Table,
    change: Change,
    row: &RowChange<'_>,
    origin: &ChangeOrigin<'_>,
    number: u32,
) -> Result<(), NotUtf8> {
    out.extend(br#"{"before":"#);
    image(out, table, row.before.as_deref())?;
    out.extend(br#","after":"#);
    image(out, table, row.after.as_deref())?;
    out.extend(br#","op":"#);
    json(out, op(change).letter());
    out.extend(br#","source":{"db":"#);
    json(out, &table.database);
    out.extend(br#","table":"#);
    json(out, &table.name);
    out.extend(br#","gtid":"#);
    json(out, origin.gtid);
    out.extend(br#","file":"#);
    json(out, origin.file);
    out.extend(br#","pos":"#);
    json(out, &origin.end);
    out.extend(br#","row":"#);
    json(out, &number);
    out.extend(br#","ts_ms":"#);
    json(out, &origin.committed_ms);
    out.extend(br#","snapshot":false},"ts_ms":"#);
    json(out, &origin.now_ms);
    out.push(b'}');
    Ok(())
}

/// Appends the event of a snapshot row.
pub(crate) fn read(
    out: &mut Vec<u8>,
    table: &Table,
    row: &[Cell<'_>],
    now_ms: i64,
) -> Result<(), NotUtf8> {
    out.extend(br#"{"before":null,"after":"#);
    image(out, table, Some(row))?;
    out.extend(br#","op":"#);
    json(out, Op::Read.letter());
    out.extend(br#","source":{"db":"#);
    json(out, &table.database);
    out.extend(br#","table":"#);
    json(out, &table.name);
    out.extend(br#","gtid":null,"file":"","pos":0,"row":0,"ts_ms":"#);
    json(out, &now_ms);
    out.extend(br#","snapshot":true},"ts_ms":"#);
    json(out, &now_ms);
    out.push(b'}');
    Ok(())
}

/// Appends a cell as a key: the digits of a number, or the text itself.
pub(crate) fn key(out: &mut Vec<u8>, cell: &Cell<'_>) {
    match cell {
        Cell::Int(number) => json(out, number),
        Cell::Unsigned(number) => json(out, number),
        Cell::Text(bytes) | Cell::Bytes(bytes, _) => out.extend(*bytes),
        _ => {}
    }
}

fn op(change: Change) -> Op {
    match change {
        Change::Insert => Op::Create,
        Change::Update => Op::Update,
        Change::Delete => Op::Delete,
    }
}

fn image(out: &mut Vec<u8>, table: &Table, cells: Option<&[Cell<'_>]>) -> Result<(), NotUtf8> {
    let Some(cells) = cells else {
        out.extend(b"null");
        return Ok(());
    };
    let mut separator = b'{';
    for (column, cell) in table.columns.iter().zip(cells) {
        out.push(separator);
        separator = b',';
        out.extend(column.key.as_bytes());
        value(out, column, cell)
            .ok_or_else(|| NotUtf8 { table: table.name.clone(), column: column.name.clone() })?;
    }
    out.push(b'}');
    Ok(())
}

/// Appends a cell's value. Returns `None` for text that is not UTF-8.
fn value(out: &mut Vec<u8>, column: &Column, cell: &Cell<'_>) -> Option<()> {
    match cell {
        Cell::Null | Cell::DateTime(None) | Cell::Timestamp(None) | Cell::Date(None) => {
            out.extend(b"null");
        }
        Cell::Int(number) | Cell::Time(number) | Cell::Date(Some(number)) => json(out, number),
        Cell::Unsigned(number) => match label(column, *number) {
            Some(label) => json(out, &label),
            None => json(out, number),
        },
        Cell::Float(number) => json(out, number),
        Cell::Double(number) => json(out, number),
        Cell::Decimal(text) | Cell::Json(text) => json(out, text),
        Cell::Text(bytes) => json(out, std::str::from_utf8(bytes).ok()?),
        Cell::Bytes(bytes, zeros) => {
            let mut whole = Cow::Borrowed(*bytes);
            if *zeros > 0 {
                whole.to_mut().resize(bytes.len() + zeros, 0);
            }
            json(out, &BASE64_STANDARD.encode(&whole));
        }
        Cell::DateTime(Some(micros)) => match column.kind {
            Kind::DateTime { fraction: 4.. } => json(out, micros),
            _ => json(out, &micros.div_euclid(1000)),
        },
        Cell::Timestamp(Some(micros)) => {
            let time = DateTime::from_timestamp_micros(*micros).unwrap_or_default();
            json(out, &time.to_rfc3339_opts(SecondsFormat::AutoSi, true));
        }
    }
    Some(())
}

/// Returns the label of an ENUM's number, or the labels of a SET's, in the server's notation. Returns `None` if the
/// column has no labels, or not this one.
fn label(column: &Column, number: u64) -> Option<Cow<'_, str>> {
    let labels = &column.labels;
    match column.kind {
        Kind::Enum { .. } if number == 0 => Some("".into()),
        Kind::Enum { .. } => {
            let index = usize::try_from(number - 1).ok()?;
            labels.get(index).map(|label| label.as_str().into())
        }
        Kind::Set { .. }
            if number.checked_shr(u32::try_from(labels.len()).ok()?).unwrap_or(0) == 0 =>
        {
            let chosen = labels.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1);
            let chosen: Vec<_> = chosen.map(|(_, label)| label.as_str()).collect();
            Some(chosen.join(",").into())
        }
        _ => None,
    }
}

fn json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(&mut *out, value).expect("numbers and texts always fit into a vector");
}

/// Position of rows in tests.
#[cfg(test)]
pub(crate) const ORIGIN: ChangeOrigin<'_> = ChangeOrigin {
    gtid: "0-1-42",
    file: "binlog.000002",
    end: 815,
    committed_ms: 1_700_000_000_000,
    now_ms: 1_700_000_000_007,
};

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let column = |name: &str, kind| Column::new(name.to_owned(), kind);
        let columns = vec![
            column("template_id", Kind::Int { bytes: 8, unsigned: false }),
            column("seq", Kind::Int { bytes: 8, unsigned: false }),
            column("delta", Kind::Int { bytes: 8, unsigned: false }),
            column("reason", Kind::Text { length_bytes: 1 }),
            column("actor", Kind::Text { length_bytes: 1 }),
            column("created_at", Kind::DateTime { fraction: 3 }),
        ];
        Table { database: "coupon".into(), name: "stock_movement".into(), columns }
    }

    #[test]
    fn the_topic_crate_reads_an_encoded_event() {
        let cells = vec![
            Cell::Int(7),
            Cell::Int(1),
            Cell::Int(-3),
            Cell::Text("a \"quoted\" 券".as_bytes()),
            Cell::Text(b"op"),
            Cell::DateTime(Some(1_700_000_000_123_000)),
        ];
        let row = RowChange { before: None, after: Some(cells) };
        let mut out = Vec::new();
        event(&mut out, &table(), Change::Insert, &row, &ORIGIN, 2).unwrap();
        let event: topic::Event<topic::StockMovementRow> = topic::decode(&out).unwrap();
        let after = event.after.unwrap();
        assert_eq!(after.reason, "a \"quoted\" 券");
        assert_eq!((after.template_id, after.delta, after.created_at), (7, -3, 1_700_000_000_123));
        assert_eq!(event.source.gtid.as_deref(), Some("0-1-42"));
        assert_eq!((event.source.pos, event.source.row, event.ts_ms), (815, 2, ORIGIN.now_ms));
    }

    #[test]
    fn text_that_is_not_utf_8_names_its_column() {
        let mut out = Vec::new();
        let column = Column::new("reason".into(), Kind::Text { length_bytes: 1 });
        assert_eq!(value(&mut out, &column, &Cell::Text(&[0xff])), None);
    }

    #[test]
    fn bytes_are_base64_with_the_zeros_the_server_cut_off() {
        let column = Column::new("b".into(), Kind::FixedBytes { length_bytes: 1, length: 4 });
        let mut out = Vec::new();
        value(&mut out, &column, &Cell::Bytes(b"ab", 2)).unwrap();
        assert_eq!(out, br#""YWIAAA==""#);
    }

    #[test]
    fn labels_stand_for_their_numbers() {
        let labels = || vec!["one".to_owned(), "t\"wo".to_owned(), "three".to_owned()];
        let written = |kind, number| {
            let column = Column { labels: labels(), ..Column::new("e".into(), kind) };
            let mut out = Vec::new();
            value(&mut out, &column, &Cell::Unsigned(number)).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(Kind::Enum { bytes: 1 }, 2), r#""t\"wo""#);
        assert_eq!(
            written(Kind::Enum { bytes: 1 }, 0),
            r#""""#,
            "what the server makes of no label"
        );
        assert_eq!(written(Kind::Enum { bytes: 1 }, 9), "9", "a label that is not described");
        assert_eq!(written(Kind::Set { bytes: 1 }, 0b101), r#""one,three""#);
        assert_eq!(written(Kind::Set { bytes: 1 }, 0), r#""""#);
    }
}
