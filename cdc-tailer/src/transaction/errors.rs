//! Errors of events, with what mends them.

use crate::{
    binlog::{
        compressed::CompressedError,
        event::{Header, Query},
        gtid::Gtid,
    },
    cells::bytes::Truncated,
    error::TailError,
};

/// Characters of a statement shown in an error.
const STATEMENT_SHOWN: usize = 80;

/// Adds the event kind to the error of a truncated table map.
pub(super) fn named(header: &Header, error: TailError) -> TailError {
    match error {
        TailError::Truncated { source, .. } => truncated(header, source),
        other => other,
    }
}

pub(super) fn truncated(header: &Header, source: Truncated) -> TailError {
    TailError::Truncated { kind: header.kind, source }
}

pub(super) fn compressed(header: &Header, source: CompressedError) -> TailError {
    match source {
        CompressedError::Oversize(limit) => TailError::Oversize { limit },
        source => TailError::Compressed { kind: header.kind, source },
    }
}

/// Why a table is read anew behind a definition.
pub(crate) fn rewritten(table: &str) -> String {
    format!("{table} was altered in a way that may have changed its rows without events of them")
}

pub(super) fn in_place_of_rows(gtid: Gtid, query: Query<'_>) -> TailError {
    let text = String::from_utf8_lossy(query.text);
    let begins: String = text.chars().take(STATEMENT_SHOWN).collect();
    unsupported(format!(
        "{gtid} holds a statement in place of the rows that it changes, {begins:?}: have that session (or \
         the server) set binlog_format = 'ROW', then start with --resnapshot"
    ))
}

pub(super) fn unsupported(what: impl Into<String>) -> TailError {
    TailError::Unsupported { what: what.into() }
}

pub(super) fn unknown(kind: u8) -> String {
    const TAGGED_GTID: u8 = 42;
    match kind {
        TAGGED_GTID => {
            "the server wrote the tagged GTID of a transaction in a way that this version does not \
             know: have clients leave tags out of gtid_next, then start with --resnapshot"
                .to_owned()
        }
        kind => format!(
            "the binlog holds an event of kind {kind}, which this version does not know and the \
             server does not let a replica skip: take a newer version, or start with --resnapshot"
        ),
    }
}
