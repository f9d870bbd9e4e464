//! Parses the statements that a row-format binlog contains: those that frame transactions, and definitions.

use crate::binlog::{charset, event::Query, schema::Followed};

/// Meaning of a statement for its transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement<'a> {
    /// `BEGIN`, `XA START`.
    Begin,
    Commit,
    Rollback,
    /// Sets a savepoint of that name.
    Savepoint(&'a [u8]),
    /// Undoes everything after the savepoint of that name.
    RollbackTo(&'a [u8]),
    /// `XA COMMIT` and the transaction's name.
    XaCommit(&'a [u8]),
    /// `XA ROLLBACK` and the transaction's name.
    XaRollback(&'a [u8]),
    /// `XA END`, `XA PREPARE`: the event that ends the phase follows.
    XaPhase,
    /// DDL, or anything else.
    Other,
}

/// Classifies a statement in the server's normalized form: no comments, one space between words.
pub(crate) fn classify(text: &[u8]) -> Statement<'_> {
    let text = text.trim_ascii();
    if let Some(name) = after(text, b"SAVEPOINT ") {
        return Statement::Savepoint(unquoted(name));
    }
    if let Some(rest) = after(text, b"ROLLBACK TO ") {
        return Statement::RollbackTo(unquoted(after(rest, b"SAVEPOINT ").unwrap_or(rest)));
    }
    if let Some(name) = after(text, b"XA COMMIT ") {
        return Statement::XaCommit(name);
    }
    if let Some(name) = after(text, b"XA ROLLBACK ") {
        return Statement::XaRollback(name);
    }
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    let begins = |words: &[u8]| after(text, words).is_some();
    if is(b"BEGIN") || begins(b"XA START ") {
        Statement::Begin
    } else if is(b"COMMIT") {
        Statement::Commit
    } else if is(b"ROLLBACK") {
        Statement::Rollback
    } else if begins(b"XA ") {
        Statement::XaPhase
    } else {
        Statement::Other
    }
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

/// Returns whether and how a statement creates a table.
pub(crate) fn makes(query: Query<'_>) -> Makes {
    let text = plain(query);
    let words: Vec<&str> = words_of(&text).collect();
    match (is_table(&words), words.contains(&"select")) {
        (false, _) => Makes::No,
        (true, false) => Makes::Table,
        (true, true) => Makes::TableOfQuery,
    }
}

/// Returns the followed table that a definition drops, empties or exchanges, or whose changes are no longer all logged
/// after the definition. Ordinary row changes have events of their own.
pub(crate) fn redefines<'a>(query: Query<'_>, followed: &'a Followed) -> Option<&'a str> {
    let text = joined_at_dots(&plain(query));
    let words: Vec<&str> = words_of(&text).collect();
    let database = one_word(&followed.database.to_ascii_lowercase());
    if let ["drop", "database" | "schema", names @ ..] = words.as_slice() {
        return names.contains(&database.as_str()).then_some(followed.database.as_str());
    }
    if !takes_away(&words) && !hides_changes(&words) {
        return None;
    }
    let current = query.database.eq_ignore_ascii_case(followed.database.as_bytes());
    let named = |word: &str, table: &str| match word.split_once('.') {
        None => current && word == table,
        // Either a database and its table, or a table of the current database and its column.
        Some((first, rest)) => {
            current && first == table || first == database && rest.split('.').next() == Some(table)
        }
    };
    let mut words = words.into_iter();
    words.find_map(|word| followed.tables.iter().find(|table| named(word, table))).copied()
}

/// Returns whether a definition, as words in lower case, replaces or empties a table that it names.
fn takes_away(words: &[&str]) -> bool {
    let has = |word: &str| words.contains(&word);
    match words {
        ["truncate" | "import", ..] => true,
        // The server itself drops a session's temporary tables.
        ["drop", "table" | "tables", ..] | ["rename", "table" | "tables", ..] => true,
        ["create", "or", "replace", "table", ..] => true,
        ["alter", ..] => {
            let renamed = words.windows(2).any(|pair| {
                pair[0] == "rename" && !matches!(pair[1], "column" | "index" | "key" | "constraint")
            });
            let emptied = ["truncate", "drop", "exchange", "convert"]
                .into_iter()
                .any(|verb| words.windows(2).any(|pair| pair == [verb, "partition"]));
            let filled = words.windows(2).any(|pair| pair == ["convert", "table"]);
            // MariaDB deletes the rows that a new unique key forbids.
            let thinned = words.iter().take_while(|word| **word != "table").any(|w| *w == "ignore");
            renamed || emptied || filled || thinned || has("tablespace")
        }
        _ => false,
    }
}

/// Returns whether a definition leads to changes that the binlog omits or represents differently: cascading keys, rows
/// with a history.
fn hides_changes(words: &[&str]) -> bool {
    let has = |pair: [&str; 2]| words.windows(2).any(|found| found == pair);
    let defines = is_table(words) || matches!(words, ["alter", ..]);
    let cascades = has(["on", "delete"]) || has(["on", "update"]);
    let cascades = cascades && (words.contains(&"cascade") || has(["set", "null"]));
    defines && (cascades || has(["system", "versioning"]))
}

fn is_table(words: &[&str]) -> bool {
    matches!(words, ["create", "table", ..] | ["create", "or", "replace", "table", ..])
}

fn words_of(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !of_name(c)).filter(|word| !word.is_empty())
}

/// Returns whether the names of followed tables may contain a character. The dot joins a table to its database.
fn of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '.')
}

/// Turns `a . b` into `a.b`.
fn joined_at_dots(text: &str) -> String {
    let parts: Vec<&str> = text.split('.').map(str::trim).collect();
    parts.join(".")
}

/// Bits of `sql_mode`: double quotes enclose a name; a backslash in a string is an ordinary character.
const ANSI_QUOTES: u64 = 1 << 2;
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// Returns the text in lower case, without comments, quoted strings, and the quotes of names. The contents of comments
/// that the server executes are kept.
fn plain(query: Query<'_>) -> String {
    let text = charset::decode(query.text, query.collation).to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    let is_set = |mode: u64| query.sql_mode & mode != 0;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            '/' if behind.starts_with('*') => {
                out.push(' ');
                behind_comment(&behind[1..])
            }
            // The end of a comment whose contents the server executes.
            '*' if behind.starts_with('/') => {
                out.push(' ');
                &behind[1..]
            }
            '#' => behind_line(behind),
            '-' if is_line_comment(behind) => behind_line(behind),
            '`' => behind_name(behind, c, &mut out),
            '"' if is_set(ANSI_QUOTES) => behind_name(behind, c, &mut out),
            '"' | '\'' => {
                out.push(' ');
                behind_text(behind, c, is_set(NO_BACKSLASH_ESCAPES))
            }
            c => {
                out.push(c);
                behind
            }
        };
    }
    out
}

/// Takes the text after a name's opening quote and returns the text after the name. Writes the name without quotes,
/// with an underscore for each character that would end a word.
fn behind_name<'a>(text: &'a str, quote: char, out: &mut String) -> &'a str {
    let (name, rest) = text.split_once(quote).unwrap_or((text, ""));
    out.push_str(&one_word(name));
    rest
}

fn one_word(name: &str) -> String {
    name.chars().map(|c| if of_name(c) && c != '.' { c } else { '_' }).collect()
}

/// Takes the text after `/*` and returns the text after the comment, or its contents if the server executes them.
fn behind_comment(text: &str) -> &str {
    if let Some(inside) = text.strip_prefix("m!").or_else(|| text.strip_prefix('!')) {
        // The minimum server version that executes it.
        return inside.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    text.split_once("*/").map_or("", |(_, rest)| rest)
}

/// Returns whether the `-` before the text begins a comment.
fn is_line_comment(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('-') else { return false };
    rest.chars().next().is_none_or(|c| c.is_whitespace() || c.is_control())
}

fn behind_line(text: &str) -> &str {
    text.find('\n').map_or("", |end| &text[end..])
}

/// Takes the text after an opening quote and returns the text after the string. A doubled quote begins another string.
fn behind_text(text: &str, quote: char, plain_backslash: bool) -> &str {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if !plain_backslash => drop(characters.next()),
            c if c == quote => return &text[at + 1..],
            _ => {}
        }
    }
    ""
}

fn after<'a>(text: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(words.len())?;
    head.eq_ignore_ascii_case(words).then_some(rest)
}

fn unquoted(name: &[u8]) -> &[u8] {
    let name = name.trim_ascii();
    let inside = |quote: &[u8]| name.strip_prefix(quote)?.strip_suffix(quote);
    inside(b"`").or_else(|| inside(b"\"")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statements_that_frame_transactions_are_distinguished() {
        assert_eq!(classify(b"BEGIN"), Statement::Begin);
        assert_eq!(classify(b"XA START X'61',X'',1"), Statement::Begin);
        assert_eq!(classify(b"SAVEPOINT `a b`"), Statement::Savepoint(b"a b"));
        assert_eq!(classify(b"ROLLBACK TO `x`"), Statement::RollbackTo(b"x"));
        assert_eq!(classify(b"rollback to savepoint x"), Statement::RollbackTo(b"x"));
        assert_eq!(classify(b"ROLLBACK"), Statement::Rollback);
        assert_eq!(classify(b"XA COMMIT X'61',X'',1"), Statement::XaCommit(b"X'61',X'',1"));
        assert_eq!(classify(b"xa rollback X'61',X'',1"), Statement::XaRollback(b"X'61',X'',1"));
        assert_eq!(classify(b"XA END X'61'"), Statement::XaPhase);
        assert_eq!(classify(b"create table beginning (a int)"), Statement::Other);
    }

    fn found(database: &str, text: &str) -> Option<String> {
        let query = Query { database: database.as_bytes(), ..query(text) };
        found_in(query)
    }

    fn found_in(query: Query<'_>) -> Option<String> {
        let followed = Followed { database: "My-Shop".into(), tables: &["user_coupon"] };
        redefines(query, &followed).map(str::to_owned)
    }

    fn query(text: &str) -> Query<'_> {
        Query { database: b"My-Shop", text: text.as_bytes(), sql_mode: 0, collation: 0 }
    }

    #[test]
    fn quotes_and_backslashes_mean_what_they_mean_to_the_session() {
        const BOTH: u64 = ANSI_QUOTES | NO_BACKSLASH_ESCAPES;
        for (text, modes) in [
            (r"alter table user_coupon comment 'a\', rename to old -- '", [0, 1, 0, 1]),
            (
                r#"alter table user_coupon comment "a\" '", rename to old, comment 'x'"#,
                [1, 0, 0, 0],
            ),
            (r#"truncate "user_coupon""#, [0, 0, 1, 1]),
            (r#"truncate `user_coupon` -- """#, [1, 1, 1, 1]),
        ] {
            let found = [0, NO_BACKSLASH_ESCAPES, ANSI_QUOTES, BOTH]
                .map(|sql_mode| u8::from(found_in(Query { sql_mode, ..query(text) }).is_some()));
            assert_eq!(found, modes, "{text}");
        }
    }

    #[test]
    fn a_text_is_read_in_the_character_set_of_its_session() {
        const GBK: u16 = 28;
        let text = b"alter table user_coupon comment '\x81\x5c', rename to old -- '";
        let found = |collation| found_in(Query { text, collation, ..query("") });
        assert_eq!(found(GBK).as_deref(), Some("user_coupon"));
        assert_eq!(found(0), None, "read as UTF-8, the string has no end");
    }

    #[test]
    fn definitions_that_take_a_followed_table_away_or_hide_its_changes_are_noticed() {
        for text in [
            "/* hi */ TRUNCATE TABLE `my-shop`.user_coupon",
            "-- why\n# and\n TRUNCATE user_coupon",
            "truncate -- it's\n user_coupon",
            "/*!50000 truncate */ user_coupon",
            "/*M!100100 truncate user_coupon */",
            "rename /* 'a */ table user_coupon to old",
            "truncate `My-Shop` . `user_coupon`",
            "alter table user_coupon convert partition p1 to table other",
            "DROP TABLE `user_coupon` /* generated by server */",
            "rename table user_coupon to old, new to user_coupon",
            "alter table user_coupon rename to old",
            "alter table `user_coupon` truncate partition p1",
            "alter table user_coupon exchange partition p1 with table other",
            "alter table other exchange partition p1 with table user_coupon without validation",
            "create or replace table user_coupon (a int)",
            "alter ignore table user_coupon add unique (user_id)",
            "alter online ignore table user_coupon add unique (user_id)",
            "alter table user_coupon add foreign key (id) references t (id) on delete cascade",
            "alter table user_coupon add foreign key (id) references t (id) on update set null",
            "alter table user_coupon add system versioning",
        ] {
            assert_eq!(found("My-Shop", text).as_deref(), Some("user_coupon"), "{text}");
        }
        let coupons = Some("user_coupon");
        assert_eq!(found("other", "truncate `my-shop`.`user_coupon`").as_deref(), coupons);
        assert_eq!(found("", "drop schema if exists `my-shop`").as_deref(), Some("My-Shop"));
    }

    #[test]
    fn definitions_that_do_neither_are_not() {
        for text in [
            "drop database `shop`",
            "alter table user_coupon add column x int, rename index a to b",
            "alter table user_coupon add foreign key (id) references t (id)",
            "create table user_coupon (id int)",
            "create index i on user_coupon (status)",
            "alter table user_coupon alter index number ignored, add ignore int",
            "alter ignore table other add unique (a)",
            "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `user_coupon`",
            "analyze table user_coupon",
            "alter table other exchange partition user_coupons with table another",
            "create table t (a int comment 'truncate user_coupon')",
        ] {
            assert_eq!(found("My-Shop", text), None, "{text}");
        }
        assert_eq!(found("other", "truncate user_coupon"), None);
    }

    #[test]
    fn a_table_is_made_with_rows_behind_it_unless_a_query_stands_in_it() {
        for (text, expected) in [
            ("CREATE TABLE `c` (\n  `b` int, `a` int) START TRANSACTION", Makes::Table),
            ("CREATE OR REPLACE TABLE `c` (`a` int COMMENT 'select')", Makes::Table),
            ("create table c as select f()", Makes::TableOfQuery),
            ("create view v as select 1", Makes::No),
            ("insert into t values (1)", Makes::No),
            ("", Makes::No),
        ] {
            assert_eq!(makes(query(text)), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _statement = classify(&text);
            let _found = found("My-Shop", &String::from_utf8_lossy(&text));
        }
    }
}
