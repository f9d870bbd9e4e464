//! What a definition does to the rows of a followed table. Changes of rows have events of their own; a definition may
//! change or remove rows without any.
//!
//! Each statement is read by its own grammar, so that names that resemble ours, in other positions or of other things,
//! are not taken for ours (docs/decisions/0101-a-definition-is-read-by-its-grammar.md).

use crate::binlog::{
    event::Query,
    schema::Followed,
    statement::{
        alteration::{self, Alters},
        words::{Reading, TableName, Word, Words, lower, readings, split},
    },
};

/// What a definition does to a followed table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect<'a> {
    /// Nothing that the events of its rows do not show.
    None,
    /// It may change values of all rows of this table, which are still its rows.
    Rewrites(&'static str),
    /// It empties, drops or exchanges this table, or this database. Or changes that follow are not all logged.
    Removes(&'a str),
}

/// Whether and how a statement creates a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Makes {
    /// It creates no table.
    No,
    /// It creates a table, in row format: rows, if any, follow as events.
    Table,
    /// It creates a table from a query, in statement format: neither the rows nor the changes of the query's functions
    /// follow.
    TableOfQuery,
}

/// First words of the statements that are read.
const DEFINITIONS: [&str; 6] = ["alter", "create", "drop", "rename", "set", "truncate"];

/// Bits of `sql_mode`: a value that does not fit is an error.
const STRICT: u64 = 1 << 21 | 1 << 22;

/// Returns whether and how a statement creates a table.
pub(crate) fn makes(query: Query<'_>) -> Makes {
    let Some(words) = readings(query).first().and_then(|first| definition(query, *first)) else {
        return Makes::No;
    };
    let mut words = statement(&words);
    // MariaDB also takes the rows of a list of values, in which a function may be called.
    let is_table = passes_create_table(&mut words);
    let is_of_query = words.has(&["select"]) || words.has_values();
    match (is_table, is_of_query) {
        (false, _) => Makes::No,
        (true, false) => Makes::Table,
        (true, true) => Makes::TableOfQuery,
    }
}

/// Returns what a definition does to a followed table: of all readings of its text, the worst.
pub(crate) fn effect<'a>(query: Query<'_>, followed: &'a Followed) -> Effect<'a> {
    let current = query.database.eq_ignore_ascii_case(followed.database.as_bytes());
    let is_strict = query.sql_mode & STRICT != 0;
    let names = Names { followed, current, is_strict };
    worst(readings(query).into_iter().map(|reading| {
        let words = definition(query, reading);
        words.map_or(Effect::None, |words| names.effect(statement(&words)))
    }))
}

/// Splits a statement if it is a definition. Others, which may be long, are read up to their first word.
fn definition(query: Query<'_>, reading: Reading) -> Option<Vec<Word>> {
    let first = split(query, reading, 1);
    let Some(Word::Plain(first)) = first.first() else { return None };
    DEFINITIONS.contains(&first.as_str()).then(|| split(query, reading, usize::MAX))
}

/// Returns the words behind `SET STATEMENT … FOR`, with which MariaDB sets variables for one statement.
fn statement(words: &[Word]) -> Words<'_> {
    let mut words = Words(words);
    while words.passes(&["set", "statement"]) {
        words.pass_to("for");
    }
    words
}

/// Passes `CREATE TABLE`. A session's temporary tables are none of the server's.
fn passes_create_table(words: &mut Words<'_>) -> bool {
    words.passes(&["create", "table"]) || words.passes(&["create", "or", "replace", "table"])
}

/// What the names in a statement mean, and how strict its session is.
struct Names<'a> {
    followed: &'a Followed,
    /// Whether the current database is the followed one.
    current: bool,
    is_strict: bool,
}

impl<'a> Names<'a> {
    fn effect(&self, mut words: Words<'_>) -> Effect<'a> {
        if words.passes(&["truncate"]) {
            words.passes(&["table"]);
            return self.removes(words.table());
        }
        if words.passes(&["drop"]) {
            return self.dropped(words);
        }
        if words.passes(&["rename", "table"]) || words.passes(&["rename", "tables"]) {
            return self.renamed(words);
        }
        if words.passes(&["create"]) {
            return self.created(words);
        }
        if words.passes(&["alter"]) { self.altered(words) } else { Effect::None }
    }

    /// Reads what follows `CREATE`. MariaDB replaces tables, by sequences too, and databases.
    fn created(&self, mut words: Words<'_>) -> Effect<'a> {
        let replaces = words.passes(&["or", "replace"]);
        if words.passes_any(&["database", "schema"]) {
            return if replaces { self.database_removed(words) } else { Effect::None };
        }
        let is_table = words.passes(&["table"]);
        if !is_table && !words.passes(&["sequence"]) {
            return Effect::None;
        }
        // A table that exists is left as it is.
        let leaves = words.passes(&["if", "not", "exists"]);
        let table = words.table();
        let hides = is_table && !leaves && alteration::hides_changes(words);
        if replaces || hides { self.removes(table) } else { Effect::None }
    }

    fn database_removed(&self, mut words: Words<'_>) -> Effect<'a> {
        let is_ours = words.name().is_some_and(|name| self.is_database(name));
        if is_ours { Effect::Removes(&self.followed.database) } else { Effect::None }
    }

    /// Reads what follows `DROP`. The server itself drops a session's temporary tables.
    fn dropped(&self, mut words: Words<'_>) -> Effect<'a> {
        if words.passes(&["index"]) {
            return self.index_dropped(words);
        }
        let is_database = words.passes_any(&["database", "schema"]);
        if !is_database && !words.passes_any(&["table", "tables"]) {
            return Effect::None;
        }
        words.passes(&["if", "exists"]);
        if is_database {
            return self.database_removed(words);
        }
        worst(words.parts().map(|mut part| self.removes(part.table())))
    }

    /// Reads what follows `DROP INDEX`. It may name the primary key.
    fn index_dropped(&self, mut words: Words<'_>) -> Effect<'a> {
        words.passes(&["if", "exists"]);
        let is_primary = words.name() == Some("primary");
        let table = if words.passes(&["on"]) { words.table() } else { None };
        let ours = table.and_then(|table| self.ours(table)).filter(|_| is_primary);
        ours.map_or(Effect::None, Effect::Rewrites)
    }

    /// Reads what follows `RENAME TABLE`: pairs of names.
    fn renamed(&self, mut words: Words<'_>) -> Effect<'a> {
        words.passes(&["if", "exists"]);
        worst(words.parts().map(|mut part| {
            let from = self.removes(part.table());
            part.pass_to("to");
            from.max(self.removes(part.table()))
        }))
    }

    /// Reads what follows `ALTER`.
    fn altered(&self, mut words: Words<'_>) -> Effect<'a> {
        let mut ignores = false;
        loop {
            if words.passes(&["ignore"]) {
                ignores = true;
            } else if !words.passes(&["online"]) {
                break;
            }
        }
        if !words.passes(&["table"]) {
            return Effect::None;
        }
        words.passes(&["if", "exists"]);
        let Some(altered) = words.table() else { return Effect::None };
        if words.passes(&["wait"]) {
            words.next();
        }
        words.passes(&["nowait"]);
        // MariaDB deletes the rows that a new key forbids, or that fit into no partition.
        let thins = ignores && ["unique", "primary", "partition"].iter().any(|by| words.has(&[by]));
        let own = match self.ours(altered) {
            None => Effect::None,
            Some(table) if thins || alteration::hides_changes(words) => Effect::Removes(table),
            Some(table) => match alteration::alters(words) {
                Alters::Nothing if self.is_strict => Effect::None,
                // Where the server copies the table, it may write zeros for values that are not valid.
                Alters::Nothing | Alters::Values => Effect::Rewrites(table),
                Alters::Rows => Effect::Removes(table),
            },
        };
        let others = words.parts().map(|part| self.removes(alteration::other_table(part)));
        own.max(worst(others))
    }

    fn removes(&self, table: Option<TableName<'_>>) -> Effect<'a> {
        table.and_then(|table| self.ours(table)).map_or(Effect::None, Effect::Removes)
    }

    fn ours(&self, name: TableName<'_>) -> Option<&'static str> {
        let is_here = name.database.map_or(self.current, |database| self.is_database(database));
        self.followed.tables.iter().copied().find(|table| is_here && name.table == *table)
    }

    fn is_database(&self, name: &str) -> bool {
        name == lower(&self.followed.database)
    }
}

fn worst<'a>(effects: impl Iterator<Item = Effect<'a>>) -> Effect<'a> {
    effects.max().unwrap_or(Effect::None)
}

#[cfg(test)]
mod tests;
