//! The vocabulary of the platform: ids, states and their transitions, limits, outcome rules.
//!
//! Architecture invariant: pure. No I/O, no clock, no wire format; time is an argument.

mod claim;
mod editing;
mod expiry_shard;
mod id;
pub mod limit;
mod outcome;
mod scope;
mod status;
mod template;
pub mod text;

pub use claim::{
    Admission, Claim, ClaimState, LandedClaim, LandedCoupon, Numbers, PayloadHash, RequestId,
    RequestIdError,
};
pub use editing::{NotEditable, TemplateField};
pub use expiry_shard::{EXPIRY_SHARDS, expiry_shard, expiry_shards, partition_of};
pub use id::{
    ApiKeyId, AuditId, ClaimId, CouponId, Epoch, IdError, MerchantId, TemplateId, UserId,
};
pub use outcome::{ClaimRow, Decision, FoundRows, StockRow, decide};
pub use scope::{Scope, Scopes};
pub use status::CouponStatus;
pub use template::{
    Discount, DiscountKind, MoveState, Template, TemplateError, TemplateState, UnknownCode,
    Validity, Window,
};
