//! Splits a statement into words. What a text means depends on the session that read it: its character set, its
//! `sql_mode`, the server. The event tells most of that, but of a prepared statement it tells what held when it was
//! executed. So where the answer matters a text has several readings.

use crate::binlog::{charset, event::Query};

/// Bits of `sql_mode`: double quotes enclose a name; a backslash in a string is an ordinary character.
const ANSI_QUOTES: u64 = 1 << 2;
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// A piece of a statement, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Word {
    /// A keyword, a name or a number.
    Plain(String),
    /// A name in quotes; never a keyword.
    Quoted(String),
    /// A string.
    Text(String),
    Symbol(char),
}

/// A way in which a text may have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    sql_mode: u64,
    /// Whether each byte is a character, instead of the character set of the session.
    is_bytewise: bool,
    /// Whether characters that are white space in some character sets are.
    has_odd_spaces: bool,
    /// Whether comments for MariaDB alone are executed.
    is_of_mariadb: bool,
}

/// Returns the ways in which a text may have been read, the one that the event tells first.
pub(super) fn readings(query: Query<'_>) -> Vec<Reading> {
    let has = |part: &[u8]| query.text.windows(part.len()).any(|found| found == part);
    let mut all = vec![Reading {
        sql_mode: query.sql_mode,
        is_bytewise: false,
        has_odd_spaces: false,
        is_of_mariadb: true,
    }];
    let mut also = |other: fn(Reading) -> Reading| {
        let others: Vec<_> = all.iter().copied().map(other).collect();
        all.extend(others);
    };
    if has(b"\"") {
        also(|it| Reading { sql_mode: it.sql_mode ^ ANSI_QUOTES, ..it });
    }
    if has(b"\\") {
        also(|it| Reading { sql_mode: it.sql_mode ^ NO_BACKSLASH_ESCAPES, ..it });
    }
    if has(b"/*M!") {
        also(|it| Reading { is_of_mariadb: false, ..it });
    }
    if !query.text.is_ascii() {
        also(|it| Reading { is_bytewise: true, ..it });
        also(|it| Reading { has_odd_spaces: true, ..it });
    }
    all
}

/// Makes the letters of a name small. Each by itself: at the end of a word, a sigma has another small form.
pub(super) fn lower(name: &str) -> String {
    name.chars().flat_map(char::to_lowercase).collect()
}

/// Splits a statement, up to `most` words. Text without an end is read up to its end.
pub(super) fn split(query: Query<'_>, reading: Reading, most: usize) -> Vec<Word> {
    let text = if reading.is_bytewise {
        query.text.iter().copied().map(char::from).collect()
    } else {
        charset::decode(query.text, query.collation)
    };
    let mut words = Vec::new();
    let mut rest = text.as_ref();
    let mut is_executed = false;
    while words.len() < most
        && let Some(c) = rest.chars().next()
    {
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            '/' if behind.starts_with('*') => match reading.executed(&behind[1..]) {
                Some(inside) => {
                    is_executed = true;
                    inside
                }
                None => behind_comment(&behind[1..]),
            },
            '*' if is_executed && behind.starts_with('/') => {
                is_executed = false;
                &behind[1..]
            }
            '#' => behind_line(behind),
            '-' if reading.is_line_comment(behind) => behind_line(behind),
            '`' => quoted(behind, c, true, Word::Quoted, &mut words),
            '"' if reading.is_set(ANSI_QUOTES) => quoted(behind, c, true, Word::Quoted, &mut words),
            '"' | '\'' => {
                let is_plain_backslash = reading.is_set(NO_BACKSLASH_ESCAPES);
                quoted(behind, c, is_plain_backslash, Word::Text, &mut words)
            }
            c if reading.is_space(c) => behind,
            c if of_word(c) => {
                let end = rest.find(|c| !of_word(c) || reading.is_space(c)).unwrap_or(rest.len());
                words.push(Word::Plain(lower(&rest[..end])));
                &rest[end..]
            }
            c => {
                words.push(Word::Symbol(c));
                behind
            }
        };
    }
    words
}

impl Reading {
    fn is_set(self, mode: u64) -> bool {
        self.sql_mode & mode != 0
    }

    /// A byte that is a non-breaking space in a set of single bytes ends a word, and a character that is one in UTF-8
    /// does not.
    fn is_space(self, c: char) -> bool {
        c.is_ascii_whitespace()
            || c.is_ascii_control()
            || self.has_odd_spaces
                && !c.is_ascii()
                && (self.is_bytewise || matches!(c, '\u{a0}' | char::REPLACEMENT_CHARACTER))
    }

    /// Returns whether the `-` before the text begins a comment.
    fn is_line_comment(self, text: &str) -> bool {
        let Some(rest) = text.strip_prefix('-') else { return false };
        // Beyond ASCII, each set has its own characters that begin one.
        let begins = |c: char| self.is_space(c) || self.has_odd_spaces && !c.is_ascii();
        rest.chars().next().is_none_or(begins)
    }

    /// Takes the text after `/*`. Returns the contents if the server executed them. Those for a version of MySQL were: a
    /// server that passes them over logs them as an ordinary comment.
    fn executed(self, text: &str) -> Option<&str> {
        let of_mariadb = text.strip_prefix("M!").filter(|_| self.is_of_mariadb);
        let inside = of_mariadb.or_else(|| text.strip_prefix('!'))?;
        // The lowest version of the server that executes it.
        Some(inside.trim_start_matches(|c: char| c.is_ascii_digit()))
    }
}

/// Returns whether a name without quotes may contain a character.
fn of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

/// Reads what follows an opening quote; returns what follows the closing one. A doubled quote stands for itself.
fn quoted<'a>(
    text: &'a str,
    quote: char,
    is_plain_backslash: bool,
    word: impl Fn(String) -> Word,
    words: &mut Vec<Word>,
) -> &'a str {
    let mut inside = String::new();
    let mut end = text.len();
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if !is_plain_backslash => inside.extend(characters.next().map(|(_, c)| c)),
            c if c == quote => match characters.next_if(|(_, next)| *next == quote) {
                Some(_) => inside.push(quote),
                None => {
                    end = at + quote.len_utf8();
                    break;
                }
            },
            c => inside.push(c),
        }
    }
    words.push(word(lower(&inside)));
    &text[end..]
}

fn behind_comment(text: &str) -> &str {
    text.split_once("*/").map_or("", |(_, rest)| rest)
}

fn behind_line(text: &str) -> &str {
    text.find('\n').map_or("", |end| &text[end..])
}

/// What is left of a statement's words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'a>(pub(super) &'a [Word]);

/// A table as a statement names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TableName<'a> {
    /// `None`: the current one.
    pub(super) database: Option<&'a str>,
    pub(super) table: &'a str,
}

impl<'a> Words<'a> {
    /// Returns whether these keywords come next, and passes them.
    pub(super) fn passes(&mut self, keywords: &[&str]) -> bool {
        let Some((head, rest)) = self.0.split_at_checked(keywords.len()) else { return false };
        let found = head.iter().zip(keywords).all(|(word, keyword)| is(word, keyword));
        if found {
            self.0 = rest;
        }
        found
    }

    /// Returns whether one of these keywords comes next, and passes it.
    pub(super) fn passes_any(&mut self, keywords: &[&str]) -> bool {
        keywords.iter().any(|keyword| self.passes(&[keyword]))
    }

    /// Returns whether these keywords stand next to each other somewhere.
    pub(super) fn has(self, keywords: &[&str]) -> bool {
        (0..self.0.len()).any(|from| Words(&self.0[from..]).passes(keywords))
    }

    /// Returns whether rows stand somewhere: `VALUES (`. What partitions hold is `VALUES IN (` and `VALUES LESS THAN`.
    pub(super) fn has_values(self) -> bool {
        (0..self.0.len()).any(|from| {
            let mut words = Words(&self.0[from..]);
            words.passes(&["values"]) && words.passes_symbol('(')
        })
    }

    /// Passes a symbol if it comes next.
    pub(super) fn passes_symbol(&mut self, symbol: char) -> bool {
        let found = self.0.first() == Some(&Word::Symbol(symbol));
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    /// Passes everything up to a keyword that is not inside parentheses, and the keyword.
    pub(super) fn pass_to(&mut self, keyword: &str) {
        let mut depth = 0_usize;
        let at = self.0.iter().position(|word| {
            depth = deeper(depth, word);
            depth == 0 && is(word, keyword)
        });
        self.0 = at.map_or(&[], |at| &self.0[at + 1..]);
    }

    pub(super) fn next(&mut self) -> Option<&'a Word> {
        let (word, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(word)
    }

    /// Passes a name.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        let (Word::Plain(name) | Word::Quoted(name)) = self.0.first()? else { return None };
        self.0 = &self.0[1..];
        Some(name)
    }

    /// Passes a table's name. MariaDB takes a dot without a database before it.
    pub(super) fn table(&mut self) -> Option<TableName<'a>> {
        let first =
            if self.0.first() == Some(&Word::Symbol('.')) { None } else { Some(self.name()?) };
        if self.passes_symbol('.') {
            return Some(TableName { database: first, table: self.name()? });
        }
        Some(TableName { database: None, table: first? })
    }

    /// Splits at the commas that are not inside parentheses.
    pub(super) fn parts(self) -> impl Iterator<Item = Self> {
        let mut depth = 0_usize;
        let parts = self.0.split(move |word| {
            depth = deeper(depth, word);
            depth == 0 && *word == Word::Symbol(',')
        });
        parts.map(Words)
    }
}

/// Counts the parentheses that are open behind a word.
fn deeper(depth: usize, word: &Word) -> usize {
    match word {
        Word::Symbol('(') => depth + 1,
        Word::Symbol(')') => depth.saturating_sub(1),
        _ => depth,
    }
}

fn is(word: &Word, keyword: &str) -> bool {
    matches!(word, Word::Plain(word) if word == keyword)
}
