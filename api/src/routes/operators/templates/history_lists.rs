//! The lists of [`crate::routes::operators::templates::history`]: what each reads, shows and writes, and its positions.

use std::{
    fmt::{self, Display},
    str::FromStr,
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, Utc};
use coupon::{ClaimState, CouponStatus, TemplateId, UserId};
use mysql_store::{
    Listed, MySqlConnection, StoreError,
    history::{
        self, BehindClaim, BehindCoupon, ClaimLine, CouponLine, DamagedClaim, DamagedCoupon,
        MovementLine,
    },
};

use crate::{
    http::{
        csv::Line,
        cursor::NoCursor,
        instant::{RequestInstant, instant},
    },
    routes::{
        bodies::history_rows::{ClaimRow, CouponRow, MovementRow},
        operators::templates::{
            export::{List, Read},
            ledger_list::EntryKind,
        },
    },
};

/// A period: from its first moment, inclusive, to its end, exclusive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Period {
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) to: Option<DateTime<Utc>>,
}

impl Period {
    /// The period that a request names.
    pub(crate) fn asked(from: Option<RequestInstant>, to: Option<RequestInstant>) -> Self {
        Self { from: from.map(|at| at.0), to: to.map(|at| at.0) }
    }

    fn has(self, at: DateTime<Utc>) -> bool {
        self.from.is_none_or(|from| from <= at) && self.to.is_none_or(|to| at < to)
    }
}

pub(crate) struct Movements {
    pub(crate) template: TemplateId,
    pub(crate) period: Period,
}

pub(crate) struct Claims {
    pub(crate) template: TemplateId,
    pub(crate) user: Option<UserId>,
    /// Only those in this state.
    pub(crate) state: Option<ClaimState>,
    pub(crate) period: Period,
}

pub(crate) struct Coupons {
    pub(crate) template: TemplateId,
    pub(crate) user: Option<UserId>,
    pub(crate) status: Option<CouponStatus>,
    pub(crate) period: Period,
    /// The moment that decides which coupons have expired.
    pub(crate) now: DateTime<Utc>,
}

impl List for Movements {
    type Line = MovementLine;
    /// Its number.
    type Damaged = i64;
    type Row = MovementRow;
    type Position = Seq;

    const NAME: &'static str = "movements";
    const COLUMNS: &'static [&'static str] =
        &["seq", "delta", "reason", "actor", "created_at", "total", "stock", "kind", "delta_stock"];

    async fn read(
        &self,
        connection: &mut MySqlConnection,
        behind: Option<&Seq>,
        limit: u32,
    ) -> Result<Vec<Read<Self>>, StoreError> {
        let seq = behind.map_or(0, |behind| behind.0);
        history::movements(connection, self.template, seq, limit).await
    }

    fn position(read: &Read<Self>) -> Seq {
        Seq(read.position(|line| line.seq))
    }

    fn name(seq: &i64) -> String {
        seq.to_string()
    }

    fn admits(&self, line: &MovementLine) -> bool {
        self.period.has(line.created_at)
    }

    fn row(&self, line: MovementLine) -> MovementRow {
        MovementRow {
            seq: line.seq,
            delta: line.delta,
            reason: line.reason,
            actor: line.actor,
            created_at: instant(line.created_at),
            total: line.total_after,
            stock: line.stock_after,
            kind: EntryKind::Movement(line.kind).word(),
            delta_stock: line.delta_stock,
        }
    }

    fn cells(row: &MovementRow, line: &mut Line<'_>) {
        line.plain(row.seq);
        line.plain(row.delta);
        line.text(&row.reason);
        line.text(&row.actor);
        line.plain(&row.created_at);
        line.maybe(row.total);
        line.maybe(row.stock);
        line.plain(row.kind);
        line.plain(row.delta_stock);
    }
}

impl List for Claims {
    type Line = ClaimLine;
    type Damaged = DamagedClaim;
    type Row = ClaimRow;
    type Position = ClaimCursor;

    const NAME: &'static str = "claims";
    const COLUMNS: &'static [&'static str] =
        &["id", "user_id", "quantity", "state", "claimed_at", "valid_from", "valid_until"];

    async fn read(
        &self,
        connection: &mut MySqlConnection,
        behind: Option<&ClaimCursor>,
        limit: u32,
    ) -> Result<Vec<Read<Self>>, StoreError> {
        let behind = behind.map(|behind| &behind.0);
        history::claims(connection, self.template, self.user, behind, limit).await
    }

    fn position(read: &Read<Self>) -> ClaimCursor {
        ClaimCursor(match read {
            Listed::Row(line) => {
                BehindClaim { user: line.user_id, request_id: line.request_id.clone() }
            }
            Listed::Unreadable(damaged) => damaged.behind.clone(),
        })
    }

    fn name(damaged: &DamagedClaim) -> String {
        damaged.id.to_string()
    }

    fn admits(&self, line: &ClaimLine) -> bool {
        self.state.is_none_or(|state| state == line.state) && self.period.has(line.created_at)
    }

    fn row(&self, line: ClaimLine) -> ClaimRow {
        let has_landed = line.state == ClaimState::Landed;
        ClaimRow {
            id: line.id.to_string(),
            user_id: line.user_id.to_string(),
            quantity: line.quantity,
            state: ClaimRow::word_of(line.state),
            claimed_at: instant(line.created_at),
            valid_from: has_landed.then(|| instant(line.valid_from)),
            valid_until: has_landed.then(|| instant(line.valid_until)),
        }
    }

    fn cells(row: &ClaimRow, line: &mut Line<'_>) {
        line.plain(&row.id);
        line.plain(&row.user_id);
        line.plain(row.quantity);
        line.plain(row.state);
        line.plain(&row.claimed_at);
        line.maybe(row.valid_from.as_deref());
        line.maybe(row.valid_until.as_deref());
    }
}

impl List for Coupons {
    type Line = CouponLine;
    type Damaged = DamagedCoupon;
    type Row = CouponRow;
    type Position = CouponCursor;

    const NAME: &'static str = "coupons";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "user_id",
        "number",
        "claim_id",
        "status",
        "claimed_at",
        "valid_from",
        "valid_until",
        "used_at",
        "order_ref",
    ];

    async fn read(
        &self,
        connection: &mut MySqlConnection,
        behind: Option<&CouponCursor>,
        limit: u32,
    ) -> Result<Vec<Read<Self>>, StoreError> {
        let behind = behind.map(|behind| behind.0);
        history::coupons(connection, self.template, self.user, behind, limit).await
    }

    fn position(read: &Read<Self>) -> CouponCursor {
        CouponCursor(match read {
            Listed::Row(line) => BehindCoupon { user: line.user_id, number: line.claim_no },
            Listed::Unreadable(damaged) => damaged.behind,
        })
    }

    fn name(damaged: &DamagedCoupon) -> String {
        damaged.id.to_string()
    }

    fn admits(&self, line: &CouponLine) -> bool {
        let status = line.status.at(line.valid_until, self.now);
        self.status.is_none_or(|wanted| wanted == status) && self.period.has(line.claimed_at)
    }

    fn row(&self, line: CouponLine) -> CouponRow {
        let is_used = line.status == CouponStatus::Used;
        CouponRow {
            id: line.id.to_string(),
            user_id: line.user_id.to_string(),
            number: line.number().to_string(),
            claim_id: line.claim_id.to_string(),
            status: line.status.at(line.valid_until, self.now).word(),
            claimed_at: instant(line.claimed_at),
            valid_from: instant(line.valid_from),
            valid_until: instant(line.valid_until),
            used_at: line.used_at.map(instant),
            order_ref: line.order_ref.filter(|_| is_used),
        }
    }

    fn cells(row: &CouponRow, line: &mut Line<'_>) {
        line.plain(&row.id);
        line.plain(&row.user_id);
        line.plain(&row.number);
        line.plain(&row.claim_id);
        line.plain(row.status);
        line.plain(&row.claimed_at);
        line.plain(&row.valid_from);
        line.plain(&row.valid_until);
        line.maybe(row.used_at.as_deref());
        line.text(row.order_ref.as_deref().unwrap_or_default());
    }
}

/// A position among movements: behind this number.
pub(crate) struct Seq(i64);

/// A position among claims: the user, a dot, and the request's key in base64.
pub(crate) struct ClaimCursor(BehindClaim);

/// A position among coupons: the user, a dot, and the number.
pub(crate) struct CouponCursor(BehindCoupon);

impl Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Display for ClaimCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request = URL_SAFE_NO_PAD.encode(&self.0.request_id);
        write!(f, "{}.{request}", self.0.user)
    }
}

impl Display for CouponCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0.user, self.0.number)
    }
}

impl FromStr for Seq {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let seq = text.parse().ok().filter(|seq: &i64| *seq >= 0);
        as_written(Self(seq.ok_or(NoCursor)?), text)
    }
}

impl FromStr for ClaimCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (user, request) = text.split_once('.').ok_or(NoCursor)?;
        let user = user.parse().map_err(|_| NoCursor)?;
        let request_id = URL_SAFE_NO_PAD.decode(request).map_err(|_| NoCursor)?;
        as_written(Self(BehindClaim { user, request_id }), text)
    }
}

impl FromStr for CouponCursor {
    type Err = NoCursor;

    fn from_str(text: &str) -> Result<Self, NoCursor> {
        let (user, number) = text.split_once('.').ok_or(NoCursor)?;
        let user = user.parse().map_err(|_| NoCursor)?;
        let number = number.parse().ok().filter(|number: &i64| *number >= 0);
        as_written(Self(BehindCoupon { user, number: number.ok_or(NoCursor)? }), text)
    }
}

/// Accepts only the form that we write.
fn as_written<T: Display>(cursor: T, text: &str) -> Result<T, NoCursor> {
    if cursor.to_string() == text { Ok(cursor) } else { Err(NoCursor) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_is_read_back_and_no_other_form_of_it() {
        fn is_kept<T: FromStr + Display>(right: &str, wrong: &[&str]) {
            assert_eq!(right.parse::<T>().ok().unwrap().to_string(), right);
            for text in wrong {
                assert!(text.parse::<T>().is_err(), "{text:?}");
            }
        }
        is_kept::<Seq>("7", &["", "-1", "+7", "07", "7.0"]);
        is_kept::<CouponCursor>("42.7", &["42", ".7", "42.", "42.-7", "042.7", "42.7.1"]);
        is_kept::<ClaimCursor>("42.a2V5LTE", &["42", ".a2V5LTE", "42.a2V5LTE=", "42.?", "-1.a"]);
    }

    #[test]
    fn a_returned_coupon_has_the_number_that_it_was_issued_with_and_its_place_by_the_other() {
        let at = DateTime::UNIX_EPOCH;
        let list = Coupons {
            template: TemplateId(10),
            user: None,
            status: None,
            period: Period { from: None, to: None },
            now: at,
        };
        let line = CouponLine {
            id: coupon::CouponId(700),
            user_id: UserId(42),
            claim_no: 700,
            issued_no: Some(2),
            claim_id: coupon::ClaimId(701),
            status: CouponStatus::Lapsed,
            claimed_at: at,
            valid_from: at,
            valid_until: at,
            used_at: None,
            order_ref: None,
        };
        let position = Coupons::position(&Listed::Row(line.clone()));
        assert_eq!(position.to_string(), "42.700");
        assert_eq!(list.row(line).number, "2");
    }

    #[test]
    fn a_period_begins_at_its_first_moment_and_excludes_its_end() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let period = Period { from: Some(at(5)), to: Some(at(7)) };
        let inside: Vec<i64> = (0..10).filter(|ms| period.has(at(*ms))).collect();
        assert_eq!(inside, [5, 6]);
        assert!(Period { from: None, to: None }.has(at(0)));
    }
}
