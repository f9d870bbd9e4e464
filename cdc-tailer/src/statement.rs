//! The few statements a row-format binlog holds, and those that should not be in one.

use crate::{event::Query, tables::Followed};

/// What a statement means for the transaction it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement<'a> {
    /// `BEGIN`, `XA START`.
    Begin,
    Commit,
    Rollback,
    /// Remembers a place under a name.
    Savepoint(&'a [u8]),
    /// Undoes what came after the place of that name.
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

/// Reads the statement as the server writes it: no comments, one space between words.
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

/// Whether a statement changes rows of a followed table without saying which: a session in statement
/// format, TRUNCATE, or a change of what table has the name.
pub(crate) fn changes_rows_of(query: Query<'_>, followed: &Followed) -> Option<&'static str> {
    let text = String::from_utf8_lossy(query.text).to_ascii_lowercase();
    let text = without_texts(without_comments(text.trim_start()));
    let words: Vec<&str> = text.split(|c: char| !of_name(c)).filter(|w| !w.is_empty()).collect();
    if !changes_rows(&words) {
        return None;
    }
    let current = query.database == followed.database.as_bytes();
    let database = followed.database.to_ascii_lowercase();
    let named = |word: &str, table: &str| match word.split_once('.') {
        None => current && word == table,
        // A table of some database, or a column of a table of the current one.
        Some((first, rest)) => {
            current && first == table || first == database && rest.split('.').next() == Some(table)
        }
    };
    let mut words = words.into_iter();
    words.find_map(|word| followed.tables.iter().find(|table| named(word, table))).copied()
}

/// Whether a statement of these words, all in lower case, changes rows of the tables that it names.
fn changes_rows(words: &[&str]) -> bool {
    let has = |word: &str| words.contains(&word);
    match words {
        [
            "insert" | "update" | "delete" | "replace" | "load" | "truncate" | "with" | "import",
            ..,
        ] => true,
        // The server itself drops a session's temporary tables.
        ["drop", "table" | "tables", ..] | ["rename", "table" | "tables", ..] => true,
        ["create", "or", "replace", "table", ..] => true,
        ["alter", ..] => {
            let renamed = words.windows(2).any(|pair| {
                pair[0] == "rename" && !matches!(pair[1], "column" | "index" | "key" | "constraint")
            });
            let emptied = ["truncate", "drop", "exchange"]
                .into_iter()
                .any(|verb| words.windows(2).any(|pair| pair == [verb, "partition"]));
            renamed || emptied || has("tablespace")
        }
        _ => false,
    }
}

/// Names may hold more, but not those of followed tables; the dot joins a table to its database.
fn of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '.')
}

/// The statement without its quoted texts, which may say anything, and without the quotes of names.
fn without_texts(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\'' | '"' => {
                out.push(' ');
                while let Some(inside) = rest.next() {
                    match inside {
                        '\\' => drop(rest.next()),
                        // A doubled quote begins the next text.
                        end if end == c => break,
                        _ => {}
                    }
                }
            }
            '`' => {}
            c => out.push(c),
        }
    }
    out
}

/// The text behind any leading comments.
fn without_comments(mut text: &str) -> &str {
    while let Some((_, rest)) = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
        text = rest.trim_start();
    }
    text
}

fn after<'a>(text: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    let (head, rest) = text.split_at_checked(words.len())?;
    head.eq_ignore_ascii_case(words).then_some(rest)
}

fn unquoted(name: &[u8]) -> &[u8] {
    let name = name.trim_ascii();
    name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn statements_that_frame_transactions_are_told_apart() {
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

    fn found(database: &str, text: &str) -> Option<&'static str> {
        let followed = Followed { database: "shop".into(), tables: &["user_coupon"] };
        let query = Query { database: database.as_bytes(), text: text.as_bytes() };
        changes_rows_of(query, &followed)
    }

    #[test]
    fn statements_that_change_rows_of_followed_tables_alarm() {
        for text in [
            "update `User_Coupon` set status = 1",
            "/* hi */ TRUNCATE TABLE shop.user_coupon",
            "update t, user_coupon set user_coupon.status = t.status",
            "DROP TABLE `user_coupon` /* generated by server */",
            "rename table user_coupon to old, new to user_coupon",
            "alter table user_coupon rename to old",
            "alter table `user_coupon` truncate partition p1",
            "create or replace table user_coupon (a int)",
        ] {
            assert_eq!(found("shop", text), Some("user_coupon"), "{text}");
        }
        assert_eq!(found("other", "truncate `shop`.`user_coupon`"), Some("user_coupon"));
        assert_eq!(found("", "delete from Shop.user_coupon where id = 1"), Some("user_coupon"));
    }

    #[test]
    fn statements_that_change_none_of_their_rows_do_not() {
        for text in [
            "insert into user_coupon_copy values (1)",
            "insert into audit values ('user_coupon', \"user_coupon\", 'it''s \\' user_coupon')",
            "insert into elsewhere.user_coupon values (1)",
            "alter table user_coupon add column x int, rename index a to b",
            "create table user_coupon (id int)",
            "create index i on user_coupon (status)",
            "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `user_coupon`",
            "analyze table user_coupon",
        ] {
            assert_eq!(found("shop", text), None, "{text}");
        }
        assert_eq!(found("other", "truncate user_coupon"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _statement = classify(&text);
            let _found = found("shop", &String::from_utf8_lossy(&text));
        }
    }
}
