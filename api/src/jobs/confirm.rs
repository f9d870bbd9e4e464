//! Confirms what a row was granted, where the template holds its coupons: nobody pays for a grant, so it would lapse.
//!
//! The row's key is the payment's reference. So a row that is repeated, after its process died between landing and
//! confirmation, is confirmed once. A job that is cancelled in between leaves its last rows held.

use coupon::{CouponId, LandedClaim, MerchantId, RequestId, RowOutcome};
use mysql_store::{
    StoreError,
    confirmation::{self, Confirmation, Payment},
    connect,
};

use crate::{code::Code, shop::payment::Wanted, state::App};

/// What a row was granted.
pub(super) struct Grant<'a> {
    pub(super) merchant: MerchantId,
    /// Name of the operator who created the job.
    pub(super) actor: &'a str,
    /// The row's key.
    pub(super) key: &'a RequestId,
    pub(super) claim: &'a LandedClaim,
}

impl Grant<'_> {
    /// Makes the coupons usable if they are held, and returns the row's outcome, or the code of what it waits for.
    pub(super) async fn confirm(&self, app: &App) -> Result<RowOutcome, Code> {
        if self.claim.held_until.is_none() {
            return Ok(RowOutcome::Granted);
        }
        let wanted = Wanted {
            merchant: self.merchant,
            payment_ref: self.key.as_str().to_owned(),
            claim: self.claim.id,
            coupons: None,
            actor: self.actor.to_owned(),
        };
        if app.batches.payments.together(wanted).await.is_some() {
            return Ok(RowOutcome::Granted);
        }
        let work = || self.confirm_alone(app);
        let ended = connect::within(connect::retried(work, StoreError::is_conflict)).await;
        ended.map_err(|error| {
            let why = format!("claim {}: {}", self.claim.id, runtime::report(&error));
            runtime::seldom!("grants wait to be confirmed", why);
            Code::StoreUnavailable
        })?
    }

    async fn confirm_alone(&self, app: &App) -> Result<Result<RowOutcome, Code>, StoreError> {
        let mut coupons: Vec<CouponId> =
            self.claim.coupons.iter().map(|coupon| coupon.id).collect();
        coupons.sort_unstable();
        let payment = Payment {
            merchant: self.merchant,
            payment_ref: self.key.as_str(),
            claim: self.claim.id,
            template: self.claim.template_id,
            coupons: &coupons,
            actor: self.actor,
            now: app.clock.now(),
        };
        let mut transaction = connect::begin(&app.pool).await?;
        let ended = confirmation::confirm(&mut transaction, &payment).await?;
        if matches!(ended, Confirmation::Confirmed(_)) {
            connect::commit(transaction).await?;
        }
        Ok(outcome(&ended))
    }
}

/// Returns the outcome that a confirmation gives its row.
fn outcome(ended: &Confirmation) -> Result<RowOutcome, Code> {
    match ended {
        // One that is not held was confirmed by the shop, or given up by its user, before the job came to that.
        Confirmation::Confirmed(_)
        | Confirmation::Replayed { .. }
        | Confirmation::NotHeld { .. } => Ok(RowOutcome::Granted),
        Confirmation::Lapsed { .. } => Ok(RowOutcome::Lapsed),
        // The validity may be lengthened until the hold lapses.
        Confirmation::Ended { .. } => Err(Code::CouponExpired),
        Confirmation::Unsure => Err(Code::HoldUnsure),
        Confirmation::ReferenceTaken => Err(Code::PaymentRefReused),
        Confirmation::NotFound => Err(Code::CouponNotFound),
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use coupon::CouponStatus;

    use super::*;

    #[test]
    fn a_row_whose_hold_lapsed_says_so_and_one_that_was_confirmed_otherwise_is_granted() {
        let coupon = CouponId(7);
        let at = DateTime::UNIX_EPOCH;
        let lapsed = Confirmation::Lapsed { coupon, lapsed_at: at };
        assert_eq!(outcome(&lapsed), Ok(RowOutcome::Lapsed));
        let confirmed = Confirmation::Replayed { confirmed_at: at, coupons: Vec::new() };
        let by_another = Confirmation::NotHeld { coupon, status: CouponStatus::Used };
        for done in [confirmed, by_another] {
            assert_eq!(outcome(&done), Ok(RowOutcome::Granted), "{done:?}");
        }
        assert_eq!(outcome(&Confirmation::Unsure), Err(Code::HoldUnsure));
    }
}
