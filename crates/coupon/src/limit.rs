//! Every limit that a client can reach, with its reason.

/// Largest limit per user. The gate hands out the numbers 1..=limit and keeps each as one byte in a
/// user's entry, and one statement writes all coupons of a claim row.
pub const PER_USER_MAX: u32 = 100;

/// Largest quantity of one claim. A claim lands whole, so many must fit into one batch.
pub const QUANTITY_MAX: u32 = 100;

/// Largest stock of a template, far below what the gate's arithmetic can hold (2^53).
pub const STOCK_MAX: i64 = 1_000_000_000;

/// Longest request id: the size of its `varbinary(64)` column.
pub const REQUEST_ID_BYTES_MAX: usize = 64;

/// Longest name of a template, in characters: two lines on a shop page.
pub const NAME_CHARS_MAX: usize = 200;

/// Longest order reference, in characters: the size of its `varchar(64)` column.
pub const ORDER_REF_CHARS_MAX: usize = 64;

/// Longest validity: ten years. A longer one is more likely a typing error.
pub const VALID_FOR_MS_MAX: i64 = 10 * 365 * 24 * 60 * 60 * 1000;
