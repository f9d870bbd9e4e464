//! Every limit that a client can meet, with its reason.

/// Largest limit per user. The gate hands out the numbers 1..=limit and keeps them as one byte each
/// in a user's entry, and a claim row's coupons are written by one statement.
pub const PER_USER_MAX: u32 = 100;

/// Largest quantity of one claim: a claim lands whole, so it must fit a batch many times over.
pub const QUANTITY_MAX: u32 = 100;

/// Largest stock of a template: what fits the gate's arithmetic (2^53) with much to spare.
pub const STOCK_MAX: i64 = 1_000_000_000;

/// Longest request id: the `varbinary(64)` that holds it.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// Longest name of a template, in characters: what a shop page shows on two lines.
pub const NAME_CHARS_MAX: usize = 200;

/// Longest order reference, in characters: the `varchar(64)` that holds it.
pub const ORDER_REF_CHARS_MAX: usize = 64;

/// Longest validity: ten years. Beyond it a typing error is likelier than a coupon.
pub const VALID_FOR_MS_MAX: i64 = 10 * 365 * 24 * 60 * 60 * 1000;
