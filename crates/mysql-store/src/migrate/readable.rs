//! Which earlier programs can work with a schema.
//!
//! While a platform is upgraded, processes of the earlier version restart on the newer schema. A migration that they can work
//! with says so in a comment, `-- readable from` and the last migration that such a program knows. Its row in
//! `_sqlx_migrations` carries this on, since only the newer program has the migration's text.

use sqlx::migrate::Migration;

/// Begins the comment, and what the row's description has of it.
const READABLE_FROM: &str = "readable from ";

/// Returns the description of a migration's row.
pub(super) fn described(migration: &Migration) -> String {
    let mark = migration
        .sql
        .as_str()
        .lines()
        .find_map(|line| line.strip_prefix("-- ")?.strip_prefix(READABLE_FROM));
    match mark {
        Some(version) => format!("{}, {READABLE_FROM}{version}", migration.description),
        None => migration.description.to_string(),
    }
}

/// Returns whether a program can work with a migration that it does not know, if `newest` is the last one that it knows.
pub(super) fn is_readable(description: &str, newest: i64) -> bool {
    let mark = description.rsplit_once(READABLE_FROM).and_then(|(_, version)| version.parse().ok());
    mark.is_some_and(|from: i64| from <= newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate::MIGRATIONS;

    #[test]
    fn a_program_works_with_a_later_migration_that_names_its_schema_or_an_earlier_one() {
        let described = MIGRATIONS.iter().map(described);
        let marked: Vec<String> = described.filter(|text| text.contains(READABLE_FROM)).collect();
        let marks = [
            "failover, readable from 20261127000001",
            "lists of jobs, readable from 20261127000001",
            "late payments, readable from 20261127000001",
            "findings, readable from 20261127000001",
        ];
        assert_eq!(marked, marks);
        assert!(is_readable(&marked[0], 20_261_127_000_001));
        assert!(is_readable(&marked[0], 20_261_128_000_001));
        assert!(!is_readable(&marked[0], 20_261_126_000_021));
        assert!(!is_readable("who confirmed", i64::MAX));
    }
}
