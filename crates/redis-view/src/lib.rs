//! A user's coupons in Redis: applying changes, reading pages, rebuilding.
//!
//! A user's view is two keys (see [`keys`]): a ZSet of the unused coupons by time of claim, and a hash with the
//! version, status and details of every coupon that the view knows. The view is derived data. Any of it may be lost at
//! any time; the next reader rebuilds it from MySQL. So each read must establish whether the view is whole:
//!
//! - **Markers.** Both keys carry the token of the rebuild that made them. A reader reads page and markers in one
//!   script, and trusts them only if they agree and the state is `complete`. Redis evicts whole keys, so a present key
//!   is whole, and an absent key makes the view cold.
//! - **Versions.** Each write is "apply if newer". A coupon that left the list keeps its version in the hash, as a
//!   tombstone, so that a replayed insert cannot bring it back.
//! - **Generation.** One number for all views of a server, raised in MySQL when the server's run or replication id
//!   changes. Tokens of another generation are invalid. See [`GenerationsOf`].
//!
//! Only two writers exist: the sync-consumer, with [`ViewStore::apply`] and [`ViewStore::read_back`], and the rebuild
//! that a reader of a cold view starts with [`ViewReader::my_coupons`].
//!
//! Architecture invariant: no SQL and no topic. The caller supplies the generation, and the rows through [`Truth`].

mod entry;
mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod keys;
mod page;
mod reader;
mod store;
mod truth;

pub use entry::{Change, ViewCoupon};
pub use error::ViewError;
pub use page::{Cursor, CursorError, Page, PageAnswer, PageRequest};
pub use reader::metric::{DROPPED_VIEWS, REBUILDS};
pub use reader::rebuilds::Rebuilt;
pub use reader::{MyCoupons, MyCouponsError, Origin, ViewReader};
pub use store::connection::{Generations, GenerationsFuture, GenerationsOf, Served};
pub use store::inspect::{Contents, KeyLife};
pub use store::many::UserChanges;
pub use store::rebuild::{Begun, Nonce, REBUILD_WINDOW};
pub use store::{Applied, CHANGES_PER_CALL, ViewStore};
pub use truth::{Pieces, Truth};
