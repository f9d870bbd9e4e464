//! A table as described by the binlog before its rows: names and layouts of its columns.

use thiserror::Error;

use crate::cells::{
    bytes::{Bytes, Truncated, bit_from_top},
    column::{Kind, is_utf8},
};

/// Maximum columns of a table: the servers' own limit.
const COLUMNS_MAX: usize = 4096;

/// Fields of the optional metadata.
const SIGNEDNESS: u8 = 1;
const DEFAULT_COLLATION: u8 = 2;
const COLLATIONS: u8 = 3;
const NAMES: u8 = 4;
const SET_LABELS: u8 = 5;
const ENUM_LABELS: u8 = 6;
/// Collations of ENUM and SET columns, in the same two formats.
const LABEL_DEFAULT_COLLATION: u8 = 10;
const LABEL_COLLATIONS: u8 = 11;
/// Columns that `select *` shows. MySQL writes this field wherever it writes names, MariaDB never does.
const VISIBILITY: u8 = 12;

/// Type code of a geometry. MariaDB lists its character set, MySQL does not.
const GEOMETRY: u8 = 255;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) database: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The name as a JSON object key, with quotes and colon.
    pub(crate) key: String,
    /// Labels of an ENUM or SET.
    pub(crate) labels: Vec<String>,
}

impl Column {
    pub(crate) fn new(name: String, kind: Kind) -> Self {
        let key = format!("{}:", serde_json::Value::from(name.as_str()));
        Self { name, kind, key, labels: Vec::new() }
    }
}

/// A table map cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TableError {
    /// The bytes are not a table map.
    #[error(
        "table map {0}: the server's file is damaged, or of a layout that this version does not know; start \
         with --resnapshot"
    )]
    Truncated(#[from] Truncated),
    /// A name is not UTF-8.
    #[error(
        "table map holds a name that is not UTF-8: give that table or column another name, then start with \
         --resnapshot"
    )]
    Name,
    /// A column needed by events is missing or has changed.
    #[error(
        "column {table}.{column} is {found}; its events need {needed}: change the table back, then \
         start with --resnapshot"
    )]
    Column {
        table: String,
        column: String,
        /// Description of the column.
        found: String,
        /// Required type.
        needed: &'static str,
    },
    /// The labels of a column cannot be decoded.
    #[error(
        "column {table}.{column} has labels in another character set than UTF-8: make it utf8mb4, then \
         start with --resnapshot"
    )]
    Labels {
        /// Name without the database.
        table: String,
        column: String,
    },
    /// The server did not write the column names.
    #[error(
        "table {table} comes without column names: run `set global binlog_row_metadata = 'FULL'`, \
         then start with --resnapshot"
    )]
    NoNames {
        /// Name without the database.
        table: String,
    },
}

/// Returns the database and table name of a table map without parsing the rest: foreign tables may contain anything.
pub(crate) fn names(body: &[u8]) -> Result<(&[u8], &[u8]), Truncated> {
    let mut bytes = Bytes::new(body);
    bytes.take(8)?;
    let database = name(&mut bytes)?;
    Ok((database, name(&mut bytes)?))
}

impl Table {
    /// Parses a table map's body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, TableError> {
        let (database, table) = names(body)?;
        let mut bytes = Bytes::new(body);
        bytes.take(8 + 1 + database.len() + 1 + 1 + table.len() + 1)?;
        let count = bytes.count()?;
        if count > COLUMNS_MAX {
            return Err(Truncated.into());
        }
        let codes = bytes.take(count)?;
        let mut metadata = Bytes::new(bytes.counted()?);
        let mut kinds = Vec::with_capacity(count);
        for code in codes {
            kinds.push(Kind::parse(*code, &mut metadata)?);
        }
        bytes.take(count.div_ceil(8))?;
        let table = text(table)?;
        let Optional { names, enums, sets, label_collations } = optional(bytes, codes, &mut kinds)?;
        if names.len() != count {
            return Err(TableError::NoNames { table });
        }
        let mut enums = enums.into_iter();
        let mut sets = sets.into_iter();
        let mut collations = label_collations.into_iter();
        let mut columns = Vec::with_capacity(count);
        for (name, kind) in names.into_iter().zip(kinds) {
            let labels = match kind {
                Kind::Enum { .. } => enums.next(),
                Kind::Set { .. } => sets.next(),
                _ => None,
            };
            let Some(labels) = labels else {
                columns.push(Column::new(name, kind));
                continue;
            };
            let labels = readable(labels, collations.next());
            let labels = labels
                .ok_or_else(|| TableError::Labels { table: table.clone(), column: name.clone() })?;
            columns.push(Column { labels, ..Column::new(name, kind) });
        }
        Ok(Self { database: text(database)?, name: table, columns })
    }

    /// Returns the index of a column by its name.
    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

/// Contents of the optional metadata, except what changes the kinds.
#[derive(Default)]
struct Optional {
    names: Vec<String>,
    /// Labels of each ENUM column, in order.
    enums: Vec<Vec<Vec<u8>>>,
    /// Labels of each SET column, in order.
    sets: Vec<Vec<Vec<u8>>>,
    /// Collation of each ENUM or SET column.
    label_collations: Vec<u64>,
}

/// Parses the optional metadata and applies it to the kinds.
fn optional(
    mut bytes: Bytes<'_>,
    codes: &[u8],
    kinds: &mut [Kind],
) -> Result<Optional, TableError> {
    let mut optional = Optional::default();
    let mut collations = Vec::new();
    let mut lists_geometries = true;
    while !bytes.is_empty() {
        let field = bytes.u8()?;
        let mut value = Bytes::new(bytes.counted()?);
        match field {
            SIGNEDNESS => {
                let numeric = kinds.iter_mut().filter(|kind| kind.is_numeric());
                for (index, kind) in numeric.enumerate() {
                    if let Kind::Int { unsigned, .. } = kind {
                        *unsigned = bit_from_top(value.rest(), index);
                    }
                }
            }
            DEFAULT_COLLATION => {
                collations = defaulted(value, kinds.len())?;
            }
            COLLATIONS => {
                while !value.is_empty() {
                    collations.push(value.length_encoded()?);
                }
            }
            NAMES => {
                while !value.is_empty() {
                    optional.names.push(text(value.counted()?)?);
                }
            }
            LABEL_DEFAULT_COLLATION => {
                let labelled = kinds.iter().filter(|kind| kind.has_labels()).count();
                optional.label_collations = defaulted(value, labelled)?;
            }
            LABEL_COLLATIONS => {
                while !value.is_empty() {
                    optional.label_collations.push(value.length_encoded()?);
                }
            }
            ENUM_LABELS => optional.enums = labels(value)?,
            SET_LABELS => optional.sets = labels(value)?,
            VISIBILITY => lists_geometries = false,
            _ => {}
        }
    }
    // One entry per character column, in order.
    let listed = kinds
        .iter_mut()
        .zip(codes)
        .filter(|(kind, code)| kind.is_character() && (lists_geometries || **code != GEOMETRY));
    for ((kind, _), collation) in listed.zip(collations) {
        *kind = kind.with_collation(collation);
    }
    Ok(optional)
}

/// Reads a default collation for `count` columns, then index and collation of each exception.
fn defaulted(mut value: Bytes<'_>, count: usize) -> Result<Vec<u64>, Truncated> {
    let default = value.length_encoded()?;
    let mut collations = vec![default; count];
    while !value.is_empty() {
        let index = value.count()?;
        let collation = value.length_encoded()?;
        *collations.get_mut(index).ok_or(Truncated)? = collation;
    }
    Ok(collations)
}

/// Decodes labels; `None` if they are in another character set and not ASCII.
fn readable(labels: Vec<Vec<u8>>, collation: Option<u64>) -> Option<Vec<String>> {
    let is_utf8 = collation.is_none_or(is_utf8);
    let label =
        |label: Vec<u8>| String::from_utf8(label).ok().filter(|label| is_utf8 || label.is_ascii());
    labels.into_iter().map(label).collect()
}

/// Reads, for each column, the number of its labels and the labels.
fn labels(mut bytes: Bytes<'_>) -> Result<Vec<Vec<Vec<u8>>>, Truncated> {
    let mut columns = Vec::new();
    while !bytes.is_empty() {
        let count = bytes.count()?;
        let labels = (0..count).map(|_| Ok(bytes.counted()?.to_vec()));
        columns.push(labels.collect::<Result<_, _>>()?);
    }
    Ok(columns)
}

fn name<'a>(bytes: &mut Bytes<'a>) -> Result<&'a [u8], Truncated> {
    let length = usize::from(bytes.u8()?);
    let name = bytes.take(length)?;
    bytes.u8()?;
    Ok(name)
}

fn text(bytes: &[u8]) -> Result<String, TableError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| TableError::Name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `create table d.t (a tinyint unsigned, b varbinary(300), c char(4), y year, e bigint)`.
    fn sample() -> Vec<u8> {
        let mut body = vec![7, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0];
        body.extend([5, 1, 15, 254, 13, 8]);
        body.extend([4, 0x2c, 0x01, 0xfe, 16]);
        body.push(0);
        // Numeric columns: a, y, e. Only a and y are unsigned.
        body.extend([SIGNEDNESS, 1, 0b1100_0000]);
        body.extend([COLLATIONS, 2, 63, 45]);
        body.extend([NAMES, 10, 1, b'a', 1, b'b', 1, b'c', 1, b'y', 1, b'e']);
        body
    }

    #[test]
    fn a_table_map_gives_names_signs_and_character_sets() {
        let table = Table::parse(&sample()).unwrap();
        assert_eq!((table.database.as_str(), table.name.as_str()), ("d", "t"));
        let kinds: Vec<_> = table.columns.iter().map(|column| column.kind).collect();
        let expected = [
            Kind::Int { bytes: 1, unsigned: true },
            Kind::Bytes { length_bytes: 2 },
            Kind::Text { length_bytes: 1 },
            Kind::Year,
            Kind::Int { bytes: 8, unsigned: false },
        ];
        assert_eq!(kinds, expected);
        assert_eq!(table.column("e"), Some(4));
    }

    #[test]
    fn a_geometry_has_a_character_set_in_mariadb_and_none_in_mysql() {
        // A geometry, a varchar and a varbinary.
        let mut mysql = vec![7, 0, 0, 0, 0, 0, 1, 0, 1, b'd', 0, 1, b't', 0];
        mysql.extend([3, GEOMETRY, 15, 15, 5, 4, 9, 0, 9, 0, 0]);
        mysql.extend([NAMES, 6, 1, b'g', 1, b'c', 1, b'b']);
        let mut mariadb = mysql.clone();
        mysql.extend([COLLATIONS, 2, 45, 63, VISIBILITY, 1, 0]);
        mariadb.extend([COLLATIONS, 3, 63, 45, 63]);
        let kinds = [4, 1, 1].map(|length_bytes| Kind::Bytes { length_bytes });
        let kinds = [kinds[0], Kind::Text { length_bytes: 1 }, kinds[2]];
        for body in [mysql, mariadb] {
            let columns = Table::parse(&body).unwrap().columns;
            assert_eq!(columns.iter().map(|column| column.kind).collect::<Vec<_>>(), kinds);
        }
    }

    #[test]
    fn a_table_without_names_says_how_to_get_them() {
        let mut body = sample();
        body.truncate(body.len() - 12);
        let error = Table::parse(&body).unwrap_err().to_string();
        assert!(error.contains("set global binlog_row_metadata"), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _table = Table::parse(&body);
        }

        #[test]
        fn a_damaged_table_map_is_read_or_refused(at in 0usize..50, byte: u8) {
            let mut body = sample();
            let at = at % body.len();
            body[at] = byte;
            let _table = Table::parse(&body);
        }
    }
}
