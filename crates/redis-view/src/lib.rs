//! The user's coupons in Redis: apply a change, page, rebuild.
//!
//! A user's view is two keys (see [`keys`]): a ZSet of the unused coupons by time of claim, and a
//! hash with the version, status and details of every coupon that the view has heard of. It is
//! derived: any of it may be lost at any time, and the next reader rebuilds it from MySQL. So the
//! question is never whether the view is there, but whether it is whole:
//!
//! - **Sentinels.** Both keys carry the token of the rebuild that made them. A reader reads page and
//!   sentinels in one script and trusts them only if they agree and the state is `complete`. Redis
//!   evicts whole keys, so a key that is there is whole, and one that is not makes the view cold.
//! - **Versions.** Each write is "apply if newer". A coupon that left the list keeps its version in
//!   the hash, a tombstone, so that a replayed insert cannot bring it back.
//! - **Generation.** One number for all views of a server, raised in MySQL when the server's run or
//!   replication id changes; a token of another generation is worth nothing. See [`GenerationsOf`].
//!
//! Who writes: the sync-consumer by [`ViewStore::apply`] and [`ViewStore::read_back`]; the rebuild that a reader of a cold
//! view begins by [`ViewReader::my_coupons`]. Nobody else.
//!
//! Architecture invariant: no SQL and no topic; the generation comes in as a value, rows by [`Truth`].

mod connection;
mod drop;
mod entry;
mod error;
#[doc(hidden)]
pub mod fuzz;
mod inspect;
pub mod keys;
mod many;
mod page;
mod reader;
mod rebuild;
mod rebuilds;
mod scripts;
mod send;
mod store;
mod truth;

pub use connection::{Generations, GenerationsFuture, GenerationsOf, Served};
pub use entry::{Change, ViewCoupon};
pub use error::ViewError;
pub use inspect::Contents;
pub use many::UserChanges;
pub use page::{Cursor, CursorError, Page, PageAnswer, PageRequest};
pub use reader::{DROP_REASONS, DROPPED_VIEWS, MyCoupons, MyCouponsError, Origin, ViewReader};
pub use rebuild::{Begun, Nonce, REBUILD_WINDOW};
pub use rebuilds::{REBUILD_RESULTS, REBUILDS, Rebuilt};
pub use store::{Applied, CHANGES_PER_CALL, ViewStore};
pub use truth::{Pieces, Truth};
