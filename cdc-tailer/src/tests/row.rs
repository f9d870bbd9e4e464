//! A decoded row as SELECT prints it. Written independently of our encoder, so that the binlog is compared with the
//! server.

use std::{collections::BTreeMap, iter::repeat_n};

use chrono::DateTime;

use crate::{
    binlog::{
        rows::RowChange,
        table::{Column, Table},
    },
    cells::{cell::Cell, column::Kind},
};

/// Column names and SELECT's output; `None` is NULL.
pub(super) type Image = BTreeMap<String, Option<String>>;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) table: String,
    pub(super) before: Option<Image>,
    pub(super) after: Option<Image>,
}

impl Row {
    pub(super) fn new(table: &Table, change: &RowChange<'_>) -> Self {
        let image = |cells: &Vec<Cell<'_>>| {
            let texts = table.columns.iter().zip(cells);
            texts.map(|(column, cell)| (column.name.clone(), text(column, cell))).collect()
        };
        Self {
            table: table.name.clone(),
            before: change.before.as_ref().map(image),
            after: change.after.as_ref().map(image),
        }
    }

    /// Returns a column's value after the change.
    pub(super) fn after(&self, column: &str) -> &str {
        self.after.as_ref().unwrap()[column].as_deref().unwrap_or("NULL")
    }

    pub(super) fn is_end(&self, number: i64) -> bool {
        self.table == "tap_end" && self.after("number") == number.to_string()
    }
}

fn text(column: &Column, cell: &Cell<'_>) -> Option<String> {
    Some(match cell {
        Cell::Null => return None,
        Cell::Int(number) => match column.kind {
            Kind::Year => format!("{number:04}"),
            _ => number.to_string(),
        },
        Cell::Unsigned(number) => match column.kind {
            Kind::Enum { .. } if *number == 0 => String::new(),
            Kind::Enum { .. } => column.labels[usize::try_from(*number - 1).unwrap()].clone(),
            Kind::Set { .. } => {
                let labels = column.labels.iter().enumerate();
                let chosen = labels.filter(|(bit, _)| number >> bit & 1 == 1);
                chosen.map(|(_, label)| label.as_str()).collect::<Vec<_>>().join(",")
            }
            _ => number.to_string(),
        },
        Cell::Float(number) => number.to_string(),
        Cell::Double(number) => number.to_string(),
        Cell::Decimal(text) | Cell::Json(text) => text.clone(),
        Cell::Text(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        Cell::Bytes(bytes, zeros) => {
            let all: Vec<u8> = bytes.iter().copied().chain(repeat_n(0, *zeros)).collect();
            hex::encode_upper(all)
        }
        Cell::DateTime(None) | Cell::Timestamp(None) => "none".to_owned(),
        Cell::Date(None) => "none".to_owned(),
        Cell::DateTime(Some(micros)) | Cell::Timestamp(Some(micros)) => {
            let time = DateTime::from_timestamp_micros(*micros).unwrap();
            time.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
        }
        Cell::Date(Some(days)) => {
            let time = DateTime::from_timestamp(days * 86_400, 0).unwrap();
            time.format("%Y-%m-%d").to_string()
        }
        Cell::Time(micros) => {
            let sign = if *micros < 0 { "-" } else { "" };
            let seconds = micros.abs() / 1_000_000;
            let micros = micros.abs() % 1_000_000;
            let hours = seconds / 3600;
            let minutes = seconds / 60 % 60;
            format!("{sign}{hours:02}:{minutes:02}:{:02}.{micros:06}", seconds % 60)
        }
    })
}
