//! What the tests of several crates share. Development only; no running platform depends on it. Servers and clocks are
//! in `devstack`.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

mod claims;
mod counters;
mod coupon_row;
mod each_flavor;
mod proxy;
mod running;
mod session;
mod until;

pub use claims::{MERCHANT, claim, draft, landed};
pub use counters::{counted, record_metrics};
pub use coupon_row::{CouponRow, insert_coupons, sql_time};
pub use proxy::{COMMIT, HeldMessage, Proxy, server_of};
pub use running::Running;
pub use session::{Address, address, client, session, sql, try_sql};
pub use until::{STATE_MAX, until, until_listed, until_true, until_within};
