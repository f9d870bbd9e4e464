//! The few statements a row-format binlog holds, and those that should not be in one.

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
    /// `XA COMMIT`, `XA ROLLBACK` of a prepared transaction.
    XaFinish,
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
    let is = |word: &[u8]| text.eq_ignore_ascii_case(word);
    let begins = |words: &[u8]| after(text, words).is_some();
    if is(b"BEGIN") || begins(b"XA START ") {
        Statement::Begin
    } else if is(b"COMMIT") {
        Statement::Commit
    } else if is(b"ROLLBACK") {
        Statement::Rollback
    } else if begins(b"XA COMMIT ") || begins(b"XA ROLLBACK ") {
        Statement::XaFinish
    } else if begins(b"XA ") {
        Statement::XaPhase
    } else {
        Statement::Other
    }
}

/// Whether a statement changes rows of one of these tables without saying which: a session in
/// statement format, or TRUNCATE.
pub(crate) fn changes_rows_of<'t>(text: &[u8], tables: &[&'t str]) -> Option<&'t str> {
    let text = String::from_utf8_lossy(text).to_ascii_lowercase();
    let text = without_comments(text.trim_start());
    let verb = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    if !matches!(verb, "insert" | "update" | "delete" | "replace" | "load" | "truncate" | "with") {
        return None;
    }
    let of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    let mut words = text.split(|c: char| !of_name(c));
    words.find_map(|word| tables.iter().find(|table| **table == word)).copied()
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
    use super::*;

    #[test]
    fn statements_that_frame_transactions_are_told_apart() {
        assert_eq!(classify(b"BEGIN"), Statement::Begin);
        assert_eq!(classify(b"XA START X'61',X'',1"), Statement::Begin);
        assert_eq!(classify(b"SAVEPOINT `a b`"), Statement::Savepoint(b"a b"));
        assert_eq!(classify(b"ROLLBACK TO `x`"), Statement::RollbackTo(b"x"));
        assert_eq!(classify(b"rollback to savepoint x"), Statement::RollbackTo(b"x"));
        assert_eq!(classify(b"ROLLBACK"), Statement::Rollback);
        assert_eq!(classify(b"XA COMMIT X'61'"), Statement::XaFinish);
        assert_eq!(classify(b"XA END X'61'"), Statement::XaPhase);
        assert_eq!(classify(b"create table beginning (a int)"), Statement::Other);
    }

    #[test]
    fn only_row_changes_of_followed_tables_alarm() {
        let found = |text: &str| changes_rows_of(text.as_bytes(), &["user_coupon"]);
        assert_eq!(found("update `User_Coupon` set status = 1"), Some("user_coupon"));
        assert_eq!(found("/* hi */ TRUNCATE TABLE shop.user_coupon"), Some("user_coupon"));
        assert_eq!(found("insert into user_coupon_copy values (1)"), None);
        assert_eq!(found("alter table user_coupon add column x int"), None);
    }
}
