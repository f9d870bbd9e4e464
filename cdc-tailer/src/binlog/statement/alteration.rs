//! What the parts of `ALTER TABLE` do to a table's rows.

use crate::binlog::statement::words::{TableName, Word, Words};

/// What a part of `ALTER TABLE` may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alters {
    /// Each row keeps its values. It may get new columns.
    Nothing,
    /// Rows may have other values, other names for them, or another key.
    Values,
    /// Rows may be gone, or those of another table.
    Rows,
}

/// Options of a table that change no row. Whatever is not here may, and so may each option of later versions.
const HARMLESS_OPTIONS: [&str; 12] = [
    "algorithm",
    "auto_increment",
    "charset",
    "collate",
    "comment",
    "engine",
    "key_block_size",
    "lock",
    "row_format",
    "stats_auto_recalc",
    "stats_persistent",
    "stats_sample_pages",
];

/// Verbs of `ALTER TABLE … PARTITION` that leave each row in the table.
const HARMLESS_TO_PARTITIONS: [&str; 6] =
    ["analyze", "check", "coalesce", "optimize", "rebuild", "reorganize"];

/// Returns what the parts of `ALTER TABLE`, behind the table's name, may do together.
pub(super) fn alters(words: Words<'_>) -> Alters {
    let mut worst = Alters::Nothing;
    for part in words.parts() {
        let mut verb = part;
        // Names of partitions follow, up to the statement's end.
        if verb.passes_any(&HARMLESS_TO_PARTITIONS) && verb.passes(&["partition"]) {
            break;
        }
        worst = worst.max(alters_by(part));
    }
    worst
}

/// Returns what a part may do. A part that is not known may change values.
fn alters_by(mut words: Words<'_>) -> Alters {
    if words.passes(&["add"]) {
        return added(words);
    }
    if words.passes(&["drop"]) {
        return dropped(words);
    }
    if words.passes(&["rename"]) {
        return match words.0.first() {
            Some(Word::Plain(what)) => match what.as_str() {
                "index" | "key" | "constraint" => Alters::Nothing,
                "column" => Alters::Values,
                _ => Alters::Rows,
            },
            _ => Alters::Rows,
        };
    }
    if words.passes(&["convert", "to"]) {
        return Alters::Values;
    }
    if words.passes_any(&["truncate", "exchange", "convert", "discard", "import"]) {
        return Alters::Rows;
    }
    if words.passes(&["union"]) || moves_to_engine(words) {
        return Alters::Rows;
    }
    let keeps = words.passes(&["alter"]) && keeps_values(words)
        || words.passes_any(&["disable", "enable"]) && words.passes(&["keys"])
        || words.passes_any(&["with", "without"]) && words.passes(&["validation"])
        || words.passes(&["remove", "partitioning"])
        || keeps_options(words);
    if keeps { Alters::Nothing } else { Alters::Values }
}

/// Returns whether changes of a table defined like this are not all logged, or not as they are: cascading keys, rows
/// with a history.
pub(super) fn hides_changes(words: Words<'_>) -> bool {
    ["delete", "update"]
        .into_iter()
        .any(|event| words.has(&["on", event, "cascade"]) || words.has(&["on", event, "set"]))
        || words.has(&["system", "versioning"])
}

/// Returns the table that takes part besides the altered one: it is exchanged with a partition, or becomes one, or a
/// partition becomes it, or it is the new name.
pub(super) fn other_table(part: Words<'_>) -> Option<TableName<'_>> {
    let mut words = part;
    if words.passes(&["exchange"]) {
        words.pass_to("table");
        return words.table();
    }
    if words.passes(&["convert", "partition"]) {
        words.pass_to("table");
        return words.table();
    }
    if words.passes(&["convert", "table"]) {
        return words.table();
    }
    if !words.passes(&["rename"]) || words.passes_any(&["index", "key", "constraint", "column"]) {
        return None;
    }
    let _to = words.passes_any(&["to", "as"]) || words.passes_symbol('=');
    words.table()
}

/// Reads what follows `ADD`.
fn added(mut words: Words<'_>) -> Alters {
    // A key, or a period of a table with a history.
    if is_about_primary(words) || words.passes(&["period"]) {
        Alters::Values
    } else {
        Alters::Nothing
    }
}

/// Reads what follows `DROP`.
fn dropped(mut words: Words<'_>) -> Alters {
    if words.passes(&["partition"]) {
        return Alters::Rows;
    }
    let is_beside = words.passes_any(&["index", "key", "constraint", "check", "foreign"]);
    // What was dropped may be added again with other values.
    if is_beside && !is_about_primary(words) { Alters::Nothing } else { Alters::Values }
}

/// Returns whether the primary key is meant, by keyword or by its name.
fn is_about_primary(words: Words<'_>) -> bool {
    words
        .0
        .iter()
        .any(|word| matches!(word, Word::Plain(name) | Word::Quoted(name) if name == "primary"))
}

/// Reads what follows `ALTER` in a part: the default of a column, or how a key or a constraint is used.
fn keeps_values(words: Words<'_>) -> bool {
    let known = ["set", "drop", "visible", "invisible", "ignored", "not", "enforced"];
    known.into_iter().any(|keyword| words.has(&[keyword]))
}

/// Returns whether an option names another engine than `InnoDB`. Some have no rows, or those of other tables, and all
/// keep what is rolled back.
fn moves_to_engine(mut words: Words<'_>) -> bool {
    while !words.0.is_empty() {
        if words.passes(&["engine"]) {
            words.passes_symbol('=');
            let engine = words.next();
            let Some(Word::Plain(engine) | Word::Quoted(engine) | Word::Text(engine)) = engine
            else {
                return true;
            };
            return engine != "innodb";
        }
        words.next();
    }
    false
}

/// Reads options of the table, and its partitions behind them.
fn keeps_options(mut words: Words<'_>) -> bool {
    while !words.0.is_empty() {
        if words.passes(&["force"]) {
            continue;
        }
        if words.passes(&["partition", "by"]) {
            return true;
        }
        words.passes(&["default"]);
        if !words.passes(&["character", "set"]) && !words.passes_any(&HARMLESS_OPTIONS) {
            return false;
        }
        words.passes_symbol('=');
        words.next();
    }
    true
}
