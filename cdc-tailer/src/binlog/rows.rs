//! Iterates over the rows of a rows event.

use thiserror::Error;

use crate::{
    binlog::{
        event::Change,
        table::{Column, Table},
    },
    cells::{
        bytes::{Bytes, Truncated, bit},
        cell::Cell,
        column::Kind,
    },
};

/// Version 2 with options before each image after the change. MySQL uses this layout if JSON may be logged as a
/// difference, even for tables without JSON.
pub(crate) const WITH_OPTIONS: u8 = 3;

/// A rows event cannot be decoded.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RowsError {
    /// Its bytes do not match the table map.
    #[error(
        "rows event of table {table} {source}: the server's file is damaged, or of a layout that this version \
         does not know; start with --resnapshot"
    )]
    Truncated {
        /// Name without the database.
        table: String,
        source: Truncated,
    },
    /// Its number of columns differs from the table map's.
    #[error(
        "rows event of table {table} has {found} columns, its table map {expected}: the server's file is \
         damaged; start with --resnapshot"
    )]
    Columns {
        table: String,
        /// In the rows event.
        found: usize,
        /// In the table map.
        expected: usize,
    },
    /// It omits columns: the row image is not FULL.
    #[error(
        "a change of table {table} was logged without all columns: run \
         `set global binlog_row_image = 'FULL'`, have clients reconnect, then start with --resnapshot"
    )]
    Partial {
        /// Name without the database.
        table: String,
    },
    /// A JSON document is logged as a difference.
    #[error(
        "a change of table {table} was logged as a difference of JSON: run \
         `set global binlog_row_value_options = ''`, have clients reconnect, then start with --resnapshot"
    )]
    PartialJson {
        /// Name without the database.
        table: String,
    },
    #[error(
        "column {table}.{column} is {found}, which cannot be followed: give it another type, or \
         utf8mb4, then start with --resnapshot"
    )]
    Unsupported {
        table: String,
        column: String,
        /// Description of its type.
        found: String,
    },
}

/// Change of one row: its columns before and after.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowChange<'a> {
    pub(crate) before: Option<Vec<Cell<'a>>>,
    pub(crate) after: Option<Vec<Cell<'a>>>,
}

/// Iterates over the rows of one event.
pub(crate) struct Rows<'a> {
    table: &'a Table,
    change: Change,
    version: u8,
    bytes: Bytes<'a>,
}

impl<'a> Rows<'a> {
    /// Starts reading the body of a rows event. `version` is 1, 2 or [`WITH_OPTIONS`].
    pub(crate) fn new(
        table: &'a Table,
        change: Change,
        version: u8,
        body: &'a [u8],
    ) -> Result<Self, RowsError> {
        let mut bytes = Bytes::new(body);
        let found = head(&mut bytes, version).map_err(|source| truncated(table, source))?;
        let expected = table.columns.len();
        // Without columns rows have no bytes, and the iteration would never end.
        if found != expected || found == 0 {
            return Err(RowsError::Columns { table: table.name.clone(), found, expected });
        }
        for _ in 0..images(change) {
            let present =
                bytes.take(found.div_ceil(8)).map_err(|source| truncated(table, source))?;
            if (0..found).any(|column| !bit(present, column)) {
                return Err(RowsError::Partial { table: table.name.clone() });
            }
        }
        Ok(Self { table, change, version, bytes })
    }

    /// Returns the next row; `None` after the last.
    pub(crate) fn next_row(&mut self) -> Result<Option<RowChange<'a>>, RowsError> {
        if self.bytes.is_empty() {
            return Ok(None);
        }
        let mut row = RowChange::default();
        if self.change != Change::Insert {
            row.before = Some(self.image()?);
        }
        if self.version == WITH_OPTIONS {
            self.options()?;
        }
        if self.change != Change::Delete {
            row.after = Some(self.image()?);
        }
        Ok(Some(row))
    }

    /// Reads the options before an image after the change: whether JSON columns hold differences, and which.
    fn options(&mut self) -> Result<(), RowsError> {
        const PARTIAL_JSON: u64 = 1;
        let short = |source| truncated(self.table, source);
        if self.bytes.length_encoded().map_err(short)? & PARTIAL_JSON == 0 {
            return Ok(());
        }
        let is_json = |column: &&Column| matches!(column.kind, Kind::Json { .. });
        let documents = self.table.columns.iter().filter(is_json).count();
        let partial = self.bytes.take(documents.div_ceil(8)).map_err(short)?;
        match (0..documents).any(|document| bit(partial, document)) {
            true => Err(RowsError::PartialJson { table: self.table.name.clone() }),
            false => Ok(()),
        }
    }

    fn image(&mut self) -> Result<Vec<Cell<'a>>, RowsError> {
        let columns = &self.table.columns;
        let short = |source| truncated(self.table, source);
        let nulls = self.bytes.take(columns.len().div_ceil(8)).map_err(short)?;
        let mut cells = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            if bit(nulls, index) {
                cells.push(Cell::Null);
                continue;
            }
            let cell = Cell::read(column.kind, &mut self.bytes).map_err(short)?;
            cells.push(cell.ok_or_else(|| unsupported(self.table, index))?);
        }
        Ok(cells)
    }
}

/// Returns the number of bytes before the first image, which MariaDB leaves uncompressed.
pub(crate) fn head_length(body: &[u8], version: u8, change: Change) -> Result<usize, Truncated> {
    let mut bytes = Bytes::new(body);
    let columns = head(&mut bytes, version)?;
    bytes.take(columns.div_ceil(8) * images(change))?;
    Ok(body.len() - bytes.rest().len())
}

fn images(change: Change) -> usize {
    if change == Change::Update { 2 } else { 1 }
}

/// Reads table id, flags and, from version 2 on, extra data; returns the number of columns.
fn head(bytes: &mut Bytes<'_>, version: u8) -> Result<usize, Truncated> {
    bytes.take(8)?;
    if version != 1 {
        // The length includes its own two bytes.
        let extra = usize::from(bytes.u16()?).checked_sub(2).ok_or(Truncated)?;
        bytes.take(extra)?;
    }
    bytes.count()
}

fn truncated(table: &Table, source: Truncated) -> RowsError {
    RowsError::Truncated { table: table.name.clone(), source }
}

fn unsupported(table: &Table, index: usize) -> RowsError {
    let column = &table.columns[index];
    let found = column.kind.to_string();
    RowsError::Unsupported { table: table.name.clone(), column: column.name.clone(), found }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn table() -> Table {
        let columns = vec![
            Column::new("a".into(), Kind::Int { bytes: 1, unsigned: false }),
            Column::new("b".into(), Kind::Text { length_bytes: 1 }),
        ];
        Table { database: "d".into(), name: "t".into(), columns }
    }

    #[test]
    fn every_row_of_an_event_comes_out_with_both_images() {
        let mut body = vec![0; 8];
        body.extend([2, 0b11, 0b11]);
        body.extend([0b10, 1, 0b00, 2, 1, b'x']);
        body.extend([0b11, 0b00, 0xff, 0]);
        let table = table();
        let mut rows = Rows::new(&table, Change::Update, 1, &body).unwrap();
        let first = rows.next_row().unwrap().unwrap();
        assert_eq!(first.before.unwrap(), [Cell::Int(1), Cell::Null]);
        assert_eq!(first.after.unwrap(), [Cell::Int(2), Cell::Text(b"x")]);
        let second = rows.next_row().unwrap().unwrap();
        assert_eq!(second.before.unwrap(), [Cell::Null, Cell::Null]);
        assert_eq!(second.after.unwrap(), [Cell::Int(-1), Cell::Text(b"")]);
        assert!(rows.next_row().unwrap().is_none());
    }

    #[test]
    fn a_document_that_is_not_whole_is_refused_and_options_alone_are_borne() {
        let mut table = table();
        table.columns[1].kind = Kind::Json { length_bytes: 4 };
        let read = |options: &[u8]| {
            let mut body = vec![0; 8];
            // No extra data, two columns, all of them in both images; NULL before.
            body.extend([2, 0, 2, 0b11, 0b11, 0b11]);
            body.extend(options);
            body.extend([0b11]);
            let mut rows = Rows::new(&table, Change::Update, WITH_OPTIONS, &body).unwrap();
            rows.next_row().map(|row| row.unwrap().after.unwrap() == [Cell::Null, Cell::Null])
        };
        for whole in [&[0][..], &[1, 0]] {
            assert!(read(whole).unwrap());
        }
        let said = read(&[1, 1]).unwrap_err().to_string();
        assert!(said.contains("binlog_row_value_options"), "{said}");
    }

    #[test]
    fn an_image_without_all_columns_is_refused_with_the_way_out() {
        let mut body = vec![0; 8];
        body.extend([2, 0b01, 0, 1]);
        let error = Rows::new(&table(), Change::Insert, 1, &body).err().unwrap().to_string();
        assert!(error.contains("binlog_row_image"), "{error}");
    }

    #[test]
    fn rows_that_do_not_match_their_table_are_refused_with_the_way_out() {
        let table = table();
        let says = |error: RowsError, words: &str| {
            let said = error.to_string();
            assert!(said.contains(words) && said.contains("--resnapshot"), "{said}");
        };
        let of_three = [vec![0; 8], vec![3, 0b111, 0, 1, 0]].concat();
        says(Rows::new(&table, Change::Insert, 1, &of_three).err().unwrap(), "has 3 columns");
        let cut_off = [vec![0; 8], vec![2, 0b11, 0, 1, 9, b'x']].concat();
        let mut rows = Rows::new(&table, Change::Insert, 1, &cut_off).unwrap();
        says(rows.next_row().unwrap_err(), "ends too early");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(
            body in prop::collection::vec(any::<u8>(), 0..120),
            version in 1u8..4,
        ) {
            let table = table();
            for change in [Change::Insert, Change::Update, Change::Delete] {
                let Ok(mut rows) = Rows::new(&table, change, version, &body) else { continue };
                while let Ok(Some(_)) = rows.next_row() {}
            }
        }
    }
}
