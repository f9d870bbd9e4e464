//! Checks that each followed table has the columns that readers of its events need. Columns are found by name, so they
//! may be reordered and others may be added. A needed column must not be dropped, renamed or change its type.

use crate::{
    binlog::table::{Table, TableError},
    cells::column::Kind,
};

/// The followed tables.
#[derive(Debug, Clone)]
pub(crate) struct Followed {
    pub(crate) database: String,
    pub(crate) tables: &'static [&'static str],
}

/// Content of a needed column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    Integer,
    Text,
    /// DATETIME with at most three fractional digits: milliseconds in the event.
    Time,
}

use Holds::{Integer, Text, Time};

/// Columns of `topic`'s rows. Other tables need none.
const NEEDED: [(&str, &[(&str, Holds)]); 3] = [
    (
        "user_coupon",
        &[
            ("id", Integer),
            ("template_id", Integer),
            ("user_id", Integer),
            ("claim_no", Integer),
            ("claim_id", Integer),
            ("merchant_id", Integer),
            ("status", Integer),
            ("version", Integer),
            ("expiry_shard", Integer),
            ("claimed_at", Time),
            ("changed_at", Time),
            ("valid_from", Time),
            ("valid_until", Time),
            ("used_at", Time),
            ("order_ref", Text),
            ("trace_parent", Text),
            ("issued_no", Integer),
        ],
    ),
    (
        "coupon_template",
        &[
            ("id", Integer),
            ("merchant_id", Integer),
            ("name", Text),
            ("discount_kind", Integer),
            ("discount_value", Integer),
            ("discount_cap", Integer),
            ("minimum_spend", Integer),
            ("currency", Text),
            ("per_user_limit", Integer),
            ("max_per_claim", Integer),
            ("claim_starts_at", Time),
            ("claim_ends_at", Time),
            ("valid_from", Time),
            ("valid_until", Time),
            ("valid_for_ms", Integer),
            ("self_redeem", Integer),
            ("stackable", Integer),
            ("claim_mode", Integer),
            ("accept_after", Integer),
            ("hold_ms", Integer),
            ("lapses_allowed", Integer),
            ("returned_stock", Integer),
            ("state", Integer),
            ("version", Integer),
            ("created_at", Time),
            ("changed_at", Time),
        ],
    ),
    (
        "stock_movement",
        &[
            ("template_id", Integer),
            ("seq", Integer),
            ("delta", Integer),
            ("reason", Text),
            ("actor", Text),
            ("created_at", Time),
            ("kind", Integer),
            ("delta_stock", Integer),
            ("returned", Text),
        ],
    ),
];

/// Rejects a table that lacks a needed column.
pub(crate) fn check(table: &Table) -> Result<(), TableError> {
    let needed = NEEDED.iter().find(|(name, _)| *name == table.name);
    for (column, holds) in needed.map_or(&[][..], |(_, columns)| columns) {
        let found = table.column(column).map(|index| table.columns[index].kind);
        let found = match found {
            Some(kind) if holds.fits(kind) => continue,
            Some(kind) => kind.to_string(),
            None => "gone, or has another name".to_owned(),
        };
        return Err(TableError::Column {
            table: table.name.clone(),
            column: (*column).to_owned(),
            found,
            needed: holds.words(),
        });
    }
    Ok(())
}

impl Holds {
    fn fits(self, kind: Kind) -> bool {
        match self {
            Integer => matches!(kind, Kind::Int { .. }),
            Text => matches!(kind, Kind::Text { .. }),
            Time => matches!(kind, Kind::DateTime { fraction: ..=3 }),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Integer => "an integer",
            Text => "UTF-8 text",
            Time => "a datetime(3)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::table::Column;

    fn movement() -> Table {
        let int = Kind::Int { bytes: 8, unsigned: false };
        let text = Kind::Text { length_bytes: 1 };
        let columns = [
            ("created_at", Kind::DateTime { fraction: 3 }),
            ("actor", text),
            ("added", Kind::Float),
            ("reason", text),
            ("delta", int),
            ("seq", int),
            ("template_id", int),
            ("returned", Kind::Text { length_bytes: 2 }),
            ("kind", Kind::Int { bytes: 1, unsigned: false }),
            ("delta_stock", int),
        ];
        let columns = columns.map(|(name, kind)| Column::new(name.into(), kind)).into();
        Table { database: "d".into(), name: "stock_movement".into(), columns }
    }

    #[test]
    fn columns_may_move_and_come_but_not_go_or_change() {
        assert_eq!(check(&movement()), Ok(()));
        let mut gone = movement();
        gone.columns.remove(5);
        let said = check(&gone).unwrap_err().to_string();
        assert!(said.contains("stock_movement.seq") && said.contains("gone"), "{said}");
        let mut changed = movement();
        changed.columns[0].kind = Kind::DateTime { fraction: 6 };
        let said = check(&changed).unwrap_err().to_string();
        assert!(
            said.contains("stock_movement.created_at") && said.contains("datetime(6)"),
            "{said}"
        );
        assert_eq!(check(&Table { name: "other".into(), ..gone }), Ok(()));
    }
}
