//! Messages about coupons that end soon, for services that remind their owners.

use serde::{Deserialize, Serialize};

/// An unused coupon that ends soon. Sent at least once for each lead time and deadline; coupon id, deadline and lead
/// time together identify a repetition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpiringSoon {
    pub coupon_id: i64,
    /// The owner. The message's key is this id in decimal.
    pub user_id: i64,
    pub template_id: i64,
    /// Deadline, milliseconds since 1970.
    pub valid_until_ms: i64,
    /// Lead time that caused this message, in seconds. The time left until the deadline is at most this; it is less if
    /// the sender was down.
    pub lead_seconds: u32,
}
