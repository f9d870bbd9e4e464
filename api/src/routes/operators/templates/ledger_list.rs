//! The list of [`super::ledger`]: what it reads, shows and writes, and its positions.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

use coupon::TemplateId;
use mysql_store::{
    Listed, MySqlConnection, StoreError,
    ledger::{self, Entry, Line as LedgerLine, Position, Streams},
    stock::Kind,
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    http::{
        csv::Line,
        cursor::NoCursor,
        instant::instant,
        schemas::{Id, Instant, LedgerKind},
    },
    routes::operators::templates::export::{List, Read},
};

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Claim,
    Movement(Kind),
}

pub(crate) struct Ledger {
    pub(crate) template: TemplateId,
    /// Only those of this kind.
    pub(crate) kind: Option<EntryKind>,
}

/// An entry of the ledger: something that changed the stock.
#[derive(Serialize, ToSchema)]
#[schema(as = LedgerEntry, examples(example))]
pub(crate) struct EntryRow {
    /// When: of a claim, when it was made.
    #[schema(value_type = Instant)]
    at: String,
    #[schema(value_type = LedgerKind)]
    kind: &'static str,
    /// Change of the stock.
    quantity: i64,
    /// Change of the total.
    total_change: i64,
    /// The claim. Null: it is a movement.
    #[schema(value_type = Option<Id>, required = true)]
    claim_id: Option<String>,
    /// Number of the movement. Null: it is a claim.
    #[schema(required = true)]
    seq: Option<i64>,
    /// The user. Null: it concerns several, or none.
    #[schema(value_type = Option<Id>, required = true)]
    user_id: Option<String>,
    /// Who moved it. Null: it is a claim.
    #[schema(required = true)]
    actor: Option<String>,
    /// Why. Null: it is a claim.
    #[schema(required = true)]
    reason: Option<String>,
}

pub(crate) fn example() -> Value {
    json!({
        "at": "2026-11-27T08:00:01.207Z", "kind": "claim", "quantity": -1, "total_change": 0,
        "claim_id": "2123985068924862465", "seq": null, "user_id": "42", "actor": null, "reason": null,
    })
}

/// A position as clients see it: `claim.seq`.
pub(crate) struct LedgerCursor(Position);

impl EntryKind {
    /// In the order in which lists name them.
    pub(crate) const ALL: [Self; 4] = [
        Self::Claim,
        Self::Movement(Kind::Total),
        Self::Movement(Kind::Return),
        Self::Movement(Kind::Lift),
    ];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Claim => "claim",
            Self::Movement(Kind::Total) => "total",
            Self::Movement(Kind::Return) => "return",
            Self::Movement(Kind::Lift) => "lift",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.word() == word)
    }

    fn of(entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Claim { .. } => Some(Self::Claim),
            Entry::Movement { kind, .. } => Some(Self::Movement(*kind)),
            Entry::DamagedClaim(_) | Entry::DamagedMovement(_) | Entry::Gap => None,
        }
    }
}

/// An entry that cannot be read.
pub(crate) struct DamagedEntry {
    /// `claim` and its id, or `movement` and its number.
    name: String,
    behind: Position,
}

impl List for Ledger {
    type Line = LedgerLine;
    type Damaged = DamagedEntry;
    type Row = EntryRow;
    type Position = LedgerCursor;

    const NAME: &'static str = "ledger";
    const COLUMNS: &'static [&'static str] = &[
        "at",
        "kind",
        "quantity",
        "total_change",
        "claim_id",
        "seq",
        "user_id",
        "actor",
        "reason",
    ];

    async fn read(
        &self,
        connection: &mut MySqlConnection,
        behind: Option<&LedgerCursor>,
        limit: u32,
    ) -> Result<Vec<Read<Self>>, StoreError> {
        let streams = Streams {
            claims: self.kind.is_none_or(|kind| kind == EntryKind::Claim),
            movements: self.kind.is_none_or(|kind| kind != EntryKind::Claim),
        };
        let behind = behind.map(|behind| behind.0);
        let lines = ledger::chunk(connection, self.template, streams, behind, limit).await?;
        Ok(lines.into_iter().map(listed).collect())
    }

    fn position(read: &Read<Self>) -> LedgerCursor {
        LedgerCursor(match read {
            Listed::Row(line) => line.behind,
            Listed::Unreadable(damaged) => damaged.behind,
        })
    }

    fn name(damaged: &DamagedEntry) -> String {
        damaged.name.clone()
    }

    fn admits(&self, line: &LedgerLine) -> bool {
        let kind = EntryKind::of(&line.entry);
        kind.is_some() && self.kind.is_none_or(|wanted| kind == Some(wanted))
    }

    fn is_last(chunk: &[Read<Self>], _limit: u32) -> bool {
        let last = chunk.last().and_then(Listed::row);
        last.is_none_or(|line| line.entry != Entry::Gap)
    }

    fn row(&self, line: LedgerLine) -> EntryRow {
        let kind = EntryKind::of(&line.entry).map_or("", EntryKind::word);
        let none = EntryRow {
            at: String::new(),
            kind,
            quantity: 0,
            total_change: 0,
            claim_id: None,
            seq: None,
            user_id: None,
            actor: None,
            reason: None,
        };
        match line.entry {
            Entry::Claim { id, user, quantity, at } => EntryRow {
                at: instant(at),
                quantity: -quantity,
                claim_id: Some(id.to_string()),
                user_id: Some(user.to_string()),
                ..none
            },
            Entry::Movement { seq, delta, delta_stock, user, reason, actor, at, .. } => EntryRow {
                at: instant(at),
                quantity: delta_stock,
                total_change: delta,
                seq: Some(seq),
                user_id: user.map(|user| user.to_string()),
                actor: Some(actor),
                reason: Some(reason),
                ..none
            },
            // Not admitted.
            Entry::DamagedClaim(_) | Entry::DamagedMovement(_) | Entry::Gap => none,
        }
    }

    fn cells(row: &EntryRow, line: &mut Line<'_>) {
        line.plain(&row.at);
        line.plain(row.kind);
        line.plain(row.quantity);
        line.plain(row.total_change);
        line.maybe(row.claim_id.as_deref());
        line.maybe(row.seq);
        line.maybe(row.user_id.as_deref());
        line.text(row.actor.as_deref().unwrap_or_default());
        line.text(row.reason.as_deref().unwrap_or_default());
    }
}

fn listed(line: LedgerLine) -> Read<Ledger> {
    let name = match line.entry {
        Entry::DamagedClaim(id) => format!("claim {id}"),
        Entry::DamagedMovement(seq) => format!("movement {seq}"),
        Entry::Claim { .. } | Entry::Movement { .. } | Entry::Gap => return Listed::Row(line),
    };
    Listed::Unreadable(DamagedEntry { name, behind: line.behind })
}

impl Display for LedgerCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.claim, self.0.seq)
    }
}

impl FromStr for LedgerCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (claim, seq) = text.split_once('.').ok_or(NoCursor)?;
        let number = |text: &str| text.parse().ok().filter(|n: &i64| *n >= 0).ok_or(NoCursor);
        let cursor = Self(Position { claim: number(claim)?, seq: number(seq)? });
        // Accept only the form that we write.
        if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_no_other_text_is_one() {
        let read: LedgerCursor = "70.3".parse().unwrap();
        assert_eq!(read.0, Position { claim: 70, seq: 3 });
        assert_eq!(read.to_string(), "70.3");
        for wrong in ["", "70", "70.", ".3", "70.3.1", "070.3", "-70.3", "a.b"] {
            assert!(wrong.parse::<LedgerCursor>().is_err(), "{wrong:?}");
        }
    }
}
