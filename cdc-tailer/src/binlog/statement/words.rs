//! Splits a statement into words, as its session read it: its character set, the quotes of its `sql_mode`, its comments.

use crate::binlog::{charset, event::Query};

/// Bits of `sql_mode`: double quotes enclose a name; a backslash in a string is an ordinary character.
const ANSI_QUOTES: u64 = 1 << 2;
const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;

/// Comments for MySQL's versions below this one are executed by each server that is followed. MariaDB omits those of
/// the versions from here on, which are those of features that it does not have.
const OF_ALL_BELOW: u32 = 50_700;

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

/// What becomes of comments that only some servers execute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Conditional {
    Executed,
    Omitted,
}

/// Whether the text may have a comment that only some servers execute.
pub(super) fn is_conditional(text: &[u8]) -> bool {
    text.windows(3).any(|three| matches!(three, b"/*!" | b"/*M"))
}

/// Splits a statement. Text without an end is read up to its end.
pub(super) fn split(query: Query<'_>, conditional: Conditional) -> Vec<Word> {
    let text = charset::decode(query.text, query.collation).to_lowercase();
    let is_set = |mode: u64| query.sql_mode & mode != 0;
    let (mut words, mut rest, mut is_executed) = (Vec::new(), text.as_str(), false);
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            '/' if behind.starts_with('*') => match executed(&behind[1..], conditional) {
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
            '-' if is_line_comment(behind) => behind_line(behind),
            '`' => quoted(behind, c, true, Word::Quoted, &mut words),
            '"' if is_set(ANSI_QUOTES) => quoted(behind, c, true, Word::Quoted, &mut words),
            '"' | '\'' => {
                let has_backslashes = !is_set(NO_BACKSLASH_ESCAPES);
                quoted(behind, c, !has_backslashes, Word::Text, &mut words)
            }
            c if c.is_whitespace() || c.is_control() => behind,
            c if of_word(c) => {
                let end = rest.find(|c| !of_word(c)).unwrap_or(rest.len());
                words.push(Word::Plain(rest[..end].to_owned()));
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

/// Returns whether a name without quotes may contain a character.
fn of_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii() && !c.is_control()
}

/// Reads what follows an opening quote; returns what follows the closing one. A doubled quote stands for itself.
fn quoted<'a>(
    text: &'a str,
    quote: char,
    is_plain_backslash: bool,
    word: impl Fn(String) -> Word,
    words: &mut Vec<Word>,
) -> &'a str {
    let (mut inside, mut end) = (String::new(), text.len());
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
    words.push(word(inside));
    &text[end..]
}

/// Takes the text after `/*`. Returns the contents if the server executes them.
fn executed(text: &str, conditional: Conditional) -> Option<&str> {
    let of_mariadb = text.strip_prefix("m!");
    let inside = of_mariadb.or_else(|| text.strip_prefix('!'))?;
    let statement = inside.trim_start_matches(|c: char| c.is_ascii_digit());
    let version = inside[..inside.len() - statement.len()].parse().unwrap_or(0);
    let by_all = of_mariadb.is_none() && version < OF_ALL_BELOW;
    (by_all || conditional == Conditional::Executed).then_some(statement)
}

fn behind_comment(text: &str) -> &str {
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

    /// Passes a symbol if it comes next.
    pub(super) fn passes_symbol(&mut self, symbol: char) -> bool {
        let found = self.0.first() == Some(&Word::Symbol(symbol));
        if found {
            self.0 = &self.0[1..];
        }
        found
    }

    /// Passes everything up to a keyword, and the keyword.
    pub(super) fn pass_to(&mut self, keyword: &str) {
        let at = self.0.iter().position(|word| is(word, keyword));
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
            match word {
                Word::Symbol('(') => depth += 1,
                Word::Symbol(')') => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && *word == Word::Symbol(',')
        });
        parts.map(Words)
    }
}

fn is(word: &Word, keyword: &str) -> bool {
    matches!(word, Word::Plain(word) if word == keyword)
}
