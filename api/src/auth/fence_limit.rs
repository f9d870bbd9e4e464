//! Limits of the fences that lookups of unknown claims place. Each fence is a permanent row, even if the id was made
//! up.

use std::time::Duration;

use coupon::{MerchantId, UserId};

use crate::auth::{Operator, rate_limit::RateLimit};

/// Fences of one user: more than a client needs to ask for claims that were never answered.
const OF_USER_PER_SECOND: u32 = 2;
const OF_USER_PER_MINUTE: u32 = 10;

/// Fences of one merchant, by all its keys: an outage leaves shops with more claims to ask for than a user has.
const OF_MERCHANT_PER_SECOND: u32 = 10;
const OF_MERCHANT_PER_MINUTE: u32 = 120;

/// The limits of a process.
pub(crate) struct FenceLimit {
    users: RateLimit,
    merchants: RateLimit<MerchantId>,
}

impl FenceLimit {
    pub(crate) fn new() -> Self {
        Self {
            users: RateLimit::new(OF_USER_PER_SECOND, OF_USER_PER_MINUTE),
            merchants: RateLimit::new(OF_MERCHANT_PER_SECOND, OF_MERCHANT_PER_MINUTE),
        }
    }

    /// Counts a fence for a user. Fails with the time until another one may be placed.
    pub(crate) fn count_of_user(&self, user: UserId) -> Result<(), Duration> {
        self.users.count(user).map(drop).map_err(|too_many| too_many.wait)
    }

    /// Counts a fence for the merchant of a key. The platform's own key has no limit: its holder has MySQL as well.
    pub(crate) fn count_of_operator(&self, operator: Operator) -> Result<(), Duration> {
        if operator.key_id.is_none() {
            return Ok(());
        }
        self.merchants.count(operator.merchant_id).map(drop).map_err(|too_many| too_many.wait)
    }
}
