//! The statements that a row-format binlog contains: those that frame transactions, and definitions.

mod alteration;
mod definition;
mod words;

pub(crate) use definition::{Effect, Makes, effect, makes};

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

    proptest! {
        #[test]
        fn any_text_is_classified(text in prop::collection::vec(any::<u8>(), 0..80)) {
            let _statement = classify(&text);
        }
    }
}
