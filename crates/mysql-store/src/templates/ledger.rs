//! The ledger of a template's stock, the newest entry first: landed claims take stock, movements add or take it.
//!
//! It has no table of its own. Movements are read in the order of `seq`, claims in that of their ids, which is that of time
//! (`uq_claim_id`): no index has a template's claims in the order of time, since it would cost every landing a write. So a
//! chunk may pass over other templates' claims, and says where it stopped.

use chrono::{DateTime, Utc};
use coupon::{CLOCK_SKEW_MAX, ClaimId, ClaimState, TemplateId, UserId, read_returned};
use sqlx::{FromRow, MySqlConnection, Row as _};

use crate::{
    StoreError,
    code::Code,
    listed::{Listed, listed},
    templates::movement::Kind,
};

/// Entries of `uq_claim_id` that one chunk passes over: few enough for one statement. Not measured.
const SCANNED_MAX: u32 = 20_000;

/// Bits of an id below its milliseconds.
const ID_BITS: u32 = 22;

/// A position in the ledger: older claims and movements are behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Claims with lower ids are behind it.
    pub claim: i64,
    /// Movements with lower numbers are behind it.
    pub seq: i64,
}

/// What changed the stock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A claim landed.
    Claim { id: ClaimId, user: UserId, quantity: i64, at: DateTime<Utc> },
    /// A movement.
    Movement {
        seq: i64,
        kind: Kind,
        /// Change of the total.
        delta: i64,
        /// Change of the stock.
        delta_stock: i64,
        /// The user, if the movement concerns only one.
        user: Option<UserId>,
        reason: String,
        actor: String,
        at: DateTime<Utc>,
    },
    /// A claim of this id that cannot be read. Whether it landed, and when, is not known.
    DamagedClaim(i64),
    /// A movement of this number that cannot be read.
    DamagedMovement(i64),
    /// Nothing: the chunk ends here, and there may be more behind it.
    Gap,
}

/// An entry, and the position behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub entry: Entry,
    pub behind: Position,
}

/// Which entries are read. The others are passed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Streams {
    pub claims: bool,
    pub movements: bool,
}

#[derive(FromRow)]
struct ClaimRow {
    #[sqlx(try_from = "i64")]
    id: ClaimId,
    #[sqlx(try_from = "i64")]
    user_id: UserId,
    quantity: i64,
    #[sqlx(try_from = "Code")]
    state: ClaimState,
    created_at: DateTime<Utc>,
}

#[derive(FromRow)]
struct MovementRow {
    seq: i64,
    #[sqlx(try_from = "Code")]
    kind: Kind,
    delta: i64,
    delta_stock: i64,
    #[sqlx(try_from = "Option<String>")]
    returned: OneUser,
    reason: String,
    actor: String,
    created_at: DateTime<Utc>,
}

/// The next rows of one table, newest first, and the position down to which they are complete. A row that cannot be
/// read is its id or number.
struct Read<T> {
    rows: Vec<Listed<T, i64>>,
    /// `None`: to the end.
    down_to: Option<i64>,
}

/// Returns the entries behind a position, at most `limit`, newest first. If there may be more, the last one is
/// an [`Entry::Gap`].
pub async fn chunk(
    connection: &mut MySqlConnection,
    template: TemplateId,
    streams: Streams,
    behind: Option<Position>,
    limit: u32,
) -> Result<Vec<Line>, StoreError> {
    let behind = behind.unwrap_or(Position { claim: i64::MAX, seq: i64::MAX });
    let nothing = Read { rows: Vec::new(), down_to: None };
    let movements = if streams.movements {
        movements(connection, template, behind.seq, limit).await?
    } else {
        nothing
    };
    let nothing = Read { rows: Vec::new(), down_to: None };
    let claims = if streams.claims {
        claims(connection, template, behind.claim, limit).await?
    } else {
        nothing
    };
    Ok(merged(claims, movements, behind, limit))
}

/// Merges claims and movements by time, down to where one of them is not read completely. A row without a time that can
/// be read comes as soon as its table reaches it.
fn merged(
    claims: Read<ClaimRow>,
    movements: Read<MovementRow>,
    mut behind: Position,
    limit: u32,
) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut of_claims = claims.rows.into_iter().peekable();
    let mut of_movements = movements.rows.into_iter().peekable();
    loop {
        let is_full = lines.len() >= limit as usize;
        let takes_claim = match (of_claims.peek(), of_movements.peek()) {
            _ if is_full => break,
            (Some(Listed::Unreadable(_)), _) => true,
            (_, Some(Listed::Unreadable(_))) => false,
            (Some(Listed::Row(claim)), Some(Listed::Row(movement))) => {
                claim.created_at >= movement.created_at
            }
            (Some(_), None) if movements.down_to.is_none() => true,
            (None, Some(_)) if claims.down_to.is_none() => false,
            _ => break,
        };
        if takes_claim {
            let Some(row) = of_claims.next() else { break };
            behind.claim = row.position(|row| row.id.0);
            let entry = match row {
                Listed::Row(row) if row.state != ClaimState::Landed => continue,
                Listed::Row(row) => row.into(),
                Listed::Unreadable(id) => Entry::DamagedClaim(id),
            };
            lines.push(Line { entry, behind });
        } else {
            let Some(row) = of_movements.next() else { break };
            behind.seq = row.position(|row| row.seq);
            let entry = match row {
                Listed::Row(row) => row.into(),
                Listed::Unreadable(seq) => Entry::DamagedMovement(seq),
            };
            lines.push(Line { entry, behind });
        }
    }
    let claims_left = of_claims.peek().is_some();
    let movements_left = of_movements.peek().is_some();
    // What was passed over need not be read again.
    if let (false, Some(down_to)) = (claims_left, claims.down_to) {
        behind.claim = down_to;
    }
    let is_cut =
        claims_left || movements_left || claims.down_to.is_some() || movements.down_to.is_some();
    if is_cut {
        lines.push(Line { entry: Entry::Gap, behind });
    }
    lines
}

async fn movements(
    connection: &mut MySqlConnection,
    template: TemplateId,
    below: i64,
    limit: u32,
) -> Result<Read<MovementRow>, StoreError> {
    // A list of several users may have kilobytes, and is not shown.
    let rows = sqlx::query(
        "select seq, kind, delta, coalesce(delta_stock, delta) as delta_stock, \
         if(locate(',', returned) = 0, returned, null) as returned, reason, actor, created_at \
         from stock_movement where template_id = ? and seq < ? order by seq desc limit ?",
    )
    .bind(template.0)
    .bind(below)
    .bind(limit)
    .fetch_all(connection)
    .await;
    let rows = rows
        .and_then(|rows| listed(&rows, MovementRow::from_row, |row| row.try_get("seq")))
        .map_err(StoreError::query("read a ledger's movements"))?;
    let last = rows.last().filter(|_| rows.len() >= limit as usize);
    let down_to = last.map(|row| row.position(|row| row.seq)).filter(|seq| *seq > 1);
    Ok(Read { rows, down_to })
}

async fn claims(
    connection: &mut MySqlConnection,
    template: TemplateId,
    below: i64,
    limit: u32,
) -> Result<Read<ClaimRow>, StoreError> {
    let Some((first, last)) = possible_ids(connection, template).await? else {
        return Ok(Read { rows: Vec::new(), down_to: None });
    };
    let below = below.min(last);
    // Only the index is read: it has the columns of the primary key too.
    let passed: (i64, Option<i64>) = sqlx::query_as(
        "select count(*), min(id) from (select id from claim force index (uq_claim_id) \
         where id < ? and id >= ? order by id desc limit ?) passed",
    )
    .bind(below)
    .bind(first)
    .bind(SCANNED_MAX)
    .fetch_one(&mut *connection)
    .await
    .map_err(StoreError::query("bound a ledger's claims"))?;
    let (scanned, Some(lowest)) = passed else {
        return Ok(Read { rows: Vec::new(), down_to: None });
    };
    let rows = sqlx::query(
        "select claim.id, claim.user_id, cast(claim.quantity as signed) as quantity, claim.state, \
         claim.created_at from (select template_id, user_id, request_id \
         from claim force index (uq_claim_id) where id < ? and id >= ? and template_id = ? \
         order by id desc limit ?) own join claim force index (primary) \
         using (template_id, user_id, request_id) order by claim.id desc",
    )
    .bind(below)
    .bind(lowest)
    .bind(template.0)
    .bind(limit)
    .fetch_all(connection)
    .await;
    let rows = rows
        .and_then(|rows| listed(&rows, ClaimRow::from_row, |row| row.try_get("id")))
        .map_err(StoreError::query("read a ledger's claims"))?;
    let is_cut = rows.len() >= limit as usize;
    let down_to = match rows.last() {
        Some(row) if is_cut => Some(row.position(|row| row.id.0)),
        _ if scanned >= i64::from(SCANNED_MAX) => Some(lowest),
        _ => None,
    };
    Ok(Read { rows, down_to })
}

/// Returns bounds for the ids of a template's claims: its creation, and the later of its window's end and its last
/// change, both with [`CLOCK_SKEW_MAX`].
async fn possible_ids(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<(i64, i64)>, StoreError> {
    let times: Option<(DateTime<Utc>, DateTime<Utc>)> = sqlx::query_as(
        "select created_at, greatest(claim_ends_at, changed_at) from coupon_template where id = ?",
    )
    .bind(template.0)
    .fetch_optional(connection)
    .await
    .map_err(StoreError::query("bound a ledger"))?;
    Ok(times.map(|(created, last)| {
        let later = (last - created + CLOCK_SKEW_MAX).num_milliseconds();
        let later = later.checked_mul(1 << ID_BITS);
        let last = later.map_or(i64::MAX, |later| template.0.saturating_add(later));
        (template.0.saturating_sub(CLOCK_SKEW_MAX.num_milliseconds() << ID_BITS), last)
    }))
}

impl From<ClaimRow> for Entry {
    fn from(row: ClaimRow) -> Self {
        let ClaimRow { id, user_id: user, quantity, created_at: at, .. } = row;
        Self::Claim { id, user, quantity, at }
    }
}

impl From<MovementRow> for Entry {
    fn from(row: MovementRow) -> Self {
        Self::Movement {
            seq: row.seq,
            kind: row.kind,
            delta: row.delta,
            delta_stock: row.delta_stock,
            user: row.returned.0,
            reason: row.reason,
            actor: row.actor,
            at: row.created_at,
        }
    }
}

/// The one user that a movement concerns, if it concerns one.
struct OneUser(Option<UserId>);

impl TryFrom<Option<String>> for OneUser {
    type Error = coupon::ReturnedError;

    fn try_from(returned: Option<String>) -> Result<Self, Self::Error> {
        let returned = read_returned(returned.as_deref().unwrap_or_default())?;
        Ok(Self(returned.first().map(|one| one.user)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> DateTime<Utc> {
        DateTime::from_timestamp_millis(ms).unwrap()
    }

    fn claims(ids: &[i64], down_to: Option<i64>) -> Read<ClaimRow> {
        let row = |id: &i64| ClaimRow {
            id: ClaimId(*id),
            user_id: UserId(1),
            quantity: 1,
            state: ClaimState::Landed,
            created_at: at(*id),
        };
        Read { rows: ids.iter().map(row).map(Listed::Row).collect(), down_to }
    }

    fn movements(seqs: &[(i64, i64)], down_to: Option<i64>) -> Read<MovementRow> {
        let row = |(seq, ms): &(i64, i64)| MovementRow {
            seq: *seq,
            kind: Kind::Return,
            delta: 0,
            delta_stock: 1,
            returned: OneUser(None),
            reason: String::new(),
            actor: String::new(),
            created_at: at(*ms),
        };
        Read { rows: seqs.iter().map(row).map(Listed::Row).collect(), down_to }
    }

    /// Claims by their ids, movements by minus their numbers, a gap as 0; and the last position.
    fn order(
        claims: Read<ClaimRow>,
        movements: Read<MovementRow>,
        limit: u32,
    ) -> (Vec<i64>, Position) {
        let behind = Position { claim: i64::MAX, seq: i64::MAX };
        let lines = merged(claims, movements, behind, limit);
        let number = |line: &Line| match &line.entry {
            Entry::Claim { id, .. } => id.0,
            Entry::Movement { seq, .. } => -seq,
            Entry::DamagedClaim(id) => *id,
            Entry::DamagedMovement(seq) => -seq,
            Entry::Gap => 0,
        };
        (lines.iter().map(number).collect(), lines.last().map_or(behind, |line| line.behind))
    }

    #[test]
    fn claims_and_movements_follow_each_other_by_time() {
        let (all, last) =
            order(claims(&[90, 50, 20], None), movements(&[(2, 60), (1, 10)], None), 9);
        assert_eq!(all, [90, -2, 50, 20, -1]);
        assert_eq!(last, Position { claim: 20, seq: 1 });
    }

    #[test]
    fn a_row_that_cannot_be_read_keeps_its_place_in_its_table_and_holds_nothing_up() {
        let mut damaged = claims(&[90, 50, 20], None);
        damaged.rows[1] = Listed::Unreadable(50);
        let (all, last) = order(damaged, movements(&[(2, 60), (1, 10)], None), 9);
        assert_eq!(all, [90, 50, -2, 20, -1]);
        assert_eq!(last, Position { claim: 20, seq: 1 });
        let mut damaged = movements(&[(2, 60), (1, 10)], None);
        damaged.rows[0] = Listed::Unreadable(2);
        assert_eq!(order(claims(&[90], None), damaged, 9).0, [-2, 90, -1]);
    }

    #[test]
    fn nothing_older_is_shown_before_what_may_be_newer_and_is_not_read_yet() {
        let (all, last) = order(claims(&[90], Some(70)), movements(&[(2, 60), (1, 10)], None), 9);
        assert_eq!(all, [90, 0], "claims between 60 and 70 may come first");
        assert_eq!(last, Position { claim: 70, seq: i64::MAX });
        let (all, _) = order(claims(&[90, 50], None), movements(&[(5, 60)], Some(5)), 9);
        assert_eq!(all, [90, -5, 0]);
        let (all, last) = order(claims(&[90, 50], None), movements(&[(1, 60)], None), 2);
        assert_eq!((all, last), (vec![90, -1, 0], Position { claim: 90, seq: 1 }));
    }
}
