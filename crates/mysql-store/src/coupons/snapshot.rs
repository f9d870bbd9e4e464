//! Chunked reads of the followed tables by primary key. The tailer's snapshot gets every column as the server has it,
//! including columns that this version does not know.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use crate::StoreError;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    pub name: String,
    /// Type without lengths, in lower case: `bigint`, `varchar`.
    pub data_type: String,
    /// Fractional digits of a second; 0 for other types.
    pub fraction: u8,
}

/// One row: the text of each column in table order. Bytes and geometries are hexadecimal, times are UTC.
pub type TextRow = Vec<Option<String>>;

/// Returns the server's estimate of the number of rows in a table of this connection's database.
pub async fn estimated_rows(
    connection: &mut MySqlConnection,
    table: &str,
) -> Result<u64, StoreError> {
    let rows: Option<u64> = sqlx::query_scalar(
        "select cast(table_rows as unsigned) from information_schema.tables \
         where table_schema = database() and table_name = ?",
    )
    .bind(table)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("estimate a table's rows"))?
    .flatten();
    Ok(rows.unwrap_or(0))
}

/// Returns the columns of a table of this connection's database, in table order.
pub async fn columns(
    connection: &mut MySqlConnection,
    table: &str,
) -> Result<Vec<TableColumn>, StoreError> {
    let rows: Vec<(String, String, u64)> = sqlx::query_as(
        "select cast(column_name as char), cast(lower(data_type) as char), \
         cast(coalesce(datetime_precision, 0) as unsigned) from information_schema.columns \
         where table_schema = database() and table_name = ? order by ordinal_position",
    )
    .bind(table)
    .fetch_all(connection)
    .await
    .map_err(StoreError::query("read a table's columns"))?;
    let column = |(name, data_type, fraction): (String, String, u64)| TableColumn {
        name,
        data_type,
        fraction: u8::try_from(fraction).unwrap_or(0),
    };
    Ok(rows.into_iter().map(column).collect())
}

/// Returns rows whose key is above `after`, at most `limit`, by key. `key` names the primary key's columns, which all
/// hold numbers; `after` has one value for each.
pub async fn rows_after(
    connection: &mut MySqlConnection,
    table: &str,
    columns: &[TableColumn],
    key: &[&str],
    after: &[i64],
    limit: u32,
) -> Result<Vec<TextRow>, StoreError> {
    let failed = || StoreError::query("read a chunk of a table");
    sqlx::query("set time_zone = '+00:00'").execute(&mut *connection).await.map_err(failed())?;
    let read: Vec<String> = columns.iter().map(text_of).collect();
    let read = read.join(", ");
    let order = key.join(", ");
    let text = format!(
        "select {read} from {} where {} order by {order} limit {limit}",
        quoted(table),
        above(key, after)
    );
    let rows = sqlx::query(AssertSqlSafe(text)).fetch_all(connection).await.map_err(failed())?;
    let row = |row: &sqlx::mysql::MySqlRow| {
        (0..columns.len()).map(|index| row.try_get(index)).collect::<Result<_, sqlx::Error>>()
    };
    rows.iter().map(row).collect::<Result<_, _>>().map_err(failed())
}

/// Builds a condition such as `a > 1 or (a = 1 and b > 2)`, whose start can be found in an index.
fn above(key: &[&str], after: &[i64]) -> String {
    let mut text = String::new();
    let mut equal = String::new();
    for (column, value) in key.iter().zip(after) {
        // Writing to a string cannot fail.
        let or = if text.is_empty() { "" } else { " or " };
        let _written = write!(text, "{or}({equal}{column} > {value})");
        let _written = write!(equal, "{column} = {value} and ");
    }
    text
}

/// Returns the SQL that converts a column to text without loss.
fn text_of(column: &TableColumn) -> String {
    let name = quoted(&column.name);
    match column.data_type.as_str() {
        // Converted directly to text, a float has only six digits.
        "float" => format!("cast(cast({name} as double) as char)"),
        "bit" => format!("cast({name} + 0 as char)"),
        kind if holds_bytes(kind) => format!("cast(hex({name}) as char)"),
        _ => format!("cast({name} as char)"),
    }
}

/// Returns whether a type's values are bytes, which are read as hexadecimal text.
pub fn holds_bytes(data_type: &str) -> bool {
    const GEOMETRIES: [&str; 9] = [
        "geometry",
        "point",
        "linestring",
        "polygon",
        "multipoint",
        "multilinestring",
        "multipolygon",
        "geometrycollection",
        "geomcollection",
    ];
    data_type.ends_with("blob")
        || data_type.ends_with("binary")
        || data_type == "vector"
        || GEOMETRIES.contains(&data_type)
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_begins_behind_its_whole_key() {
        assert_eq!(above(&["id"], &[7]), "(id > 7)");
        assert_eq!(above(&["a", "b"], &[1, 2]), "(a > 1) or (a = 1 and b > 2)");
    }
}
