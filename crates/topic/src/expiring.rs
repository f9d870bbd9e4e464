//! Word that a coupon ends soon, for whoever reminds its owner.

use serde::{Deserialize, Serialize};

/// A coupon that is unused and ends soon. Sent at least once for each lead time and deadline; the
/// three together with the coupon's id tell a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiringSoon {
    /// The coupon.
    pub coupon_id: i64,
    /// Whose it is; the message's key, in decimal.
    pub user_id: i64,
    /// Of which template.
    pub template_id: i64,
    /// When it ends, milliseconds since 1970.
    pub valid_until_ms: i64,
    /// The lead time that is the reason for this message, seconds. What is left until the deadline is
    /// no more than that, and can be less: the sender may have been away.
    pub lead_seconds: u32,
}
