//! The vocabulary of the platform: ids, states and their transitions, limits, money, decisions after a rollback.
//!
//! Architecture invariant: pure. No I/O, no clock, no wire format; time is an argument.

mod claim;
mod code;
mod decision;
mod editing;
mod expiry_shard;
mod finding;
mod hold;
mod id;
mod job;
pub mod limit;
mod mode;
pub mod money;
mod queued;
mod returned;
mod scope;
mod status;
mod template;
pub mod text;

pub use claim::{
    Admission, Claim, ClaimState, LandedClaim, LandedCoupon, Numbers, PayloadHash, RequestId,
    RequestIdError,
};
pub use code::UnknownCode;
pub use decision::{ClaimRow, Decision, FoundRows, LandingMode, StockRow, decide};
pub use editing::{NotEditable, TemplateField};
pub use expiry_shard::{
    EXPIRY_SHARDS, expiry_shard, expiry_shards, partition_of, partition_of_key,
    partition_of_template,
};
pub use finding::{FindingAbout, FindingKind, FindingState};
pub use hold::{HoldTerms, ReturnedStock};
pub use id::{
    ApiKeyId, AuditId, CLOCK_SKEW_MAX, ClaimId, CouponId, Epoch, FindingId, IdError, JobId,
    MerchantId, RedemptionId, TemplateId, UserId,
};
pub use job::{JobState, RowOutcome};
pub use mode::{AcceptAfter, AcceptedClaims, ClaimMode, Open};
pub use queued::{QueueReach, QueuedClaim, RejectReason};
pub use returned::{Lapses, Returned, ReturnedError, ReturnedList, read_returned};
pub use scope::{Scope, Scopes};
pub use status::{CouponStatus, transitions::Transition};
pub use template::{
    Discount, DiscountKind, MoveState, Template, TemplateError, TemplateState, Validity, Window,
};
