//! Every limit that a client can reach, with its reason.

/// Largest limit per user. The gate hands out the numbers 1..=limit and keeps each as one byte in a
/// user's entry, and one statement writes all coupons of a claim row.
pub const PER_USER_MAX: u32 = 100;

/// Largest quantity of one claim. A claim lands whole, and a batch must have room for many.
pub const QUANTITY_MAX: u32 = 100;

/// Largest stock of a template, far below what the gate's arithmetic can hold (2^53).
pub const STOCK_MAX: i64 = 1_000_000_000;

/// Longest request id: the size of its `varbinary(64)` column.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// Longest name of a template, in characters: two lines on a shop page.
pub const NAME_CHARS_MAX: usize = 200;

/// Longest order reference, in characters: the size of its `varchar(64)` column.
pub const ORDER_REF_CHARS_MAX: usize = 64;

/// Times at which a claim may have been admitted, in milliseconds since 1970: the years 2000 to 8999. The end of its
/// coupons' validity then fits a `datetime` column.
pub const CLAIMED_AT_MS: std::ops::Range<i64> = 946_684_800_000..221_845_392_000_000;

/// Longest validity: ten years. A longer one is more likely a typing error.
pub const VALID_FOR_MS_MAX: i64 = 10 * 365 * 24 * 60 * 60 * 1000;

/// Most rows of one job of grants: a large list of customers. A larger list is split into several jobs, which take
/// turns with others.
pub const JOB_ROWS_MAX: usize = 50_000;

/// Longest text of a job's row that is no user id, in characters: the size of its `varchar(64)` column. The rest is cut
/// off, since it is only shown to the operator.
pub const JOB_ROW_CHARS_MAX: usize = 64;

/// Most jobs of one merchant that have not ended. The jobs of all merchants take turns, so more would only wait.
pub const JOBS_OPEN_MAX: usize = 20;

/// Largest amount of an order, in minor units: ten billion of most currencies. A larger one is more likely a typing
/// error, and the sum over millions of such orders still fits into 64 bits.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000;

/// Smallest usual percentage, in hundredths of a percent: 1 %. A smaller one is accepted with a warning: it is more
/// likely a fraction, 0.2 for 20 %.
pub const PERCENT_USUAL_MIN: i64 = 100;

/// Largest number of coupons that one order redeems together: one transaction locks them all.
pub const ORDER_COUPONS_MAX: usize = 20;

/// Longest lock of a coupon for a checkout, in milliseconds: 30 minutes. A shopper who takes longer has left.
pub const LOCK_MS_MAX: i64 = 30 * 60 * 1000;

/// Shortest hold, in milliseconds: one second. A shorter one lapses while its claim is answered.
pub const HOLD_MS_MIN: i64 = 1_000;

/// Longest hold, in milliseconds: 30 days. A longer one is more likely a typing error.
pub const HOLD_MS_MAX: i64 = 30 * 24 * 60 * 60 * 1000;

/// Most lapses before a user is refused: the gate keeps the count in one byte, and counts no further.
pub const LAPSES_ALLOWED_MAX: u32 = 100;

/// Largest number of coupons in one return. One byte counts a user's lapses among them. The movement's list, with as
/// many users at 26 bytes each, fits its `varchar(8000)` column.
pub const RETURN_COUPONS_MAX: usize = 255;

/// Longest payment reference, in characters: the size of its `varchar(64)` column.
pub const PAYMENT_REF_CHARS_MAX: usize = 64;
