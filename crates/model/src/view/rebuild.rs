//! A reader that finds the view cold: begins, reads MySQL, loads the rows of that moment one by one, completes.

use super::{Next, State, View, bounds::COUPONS_MAX, is_unused, step};
use crate::Bug;

const READER: &str = "reader";

/// A reader that rebuilds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Reader {
    pub next: ReaderStep,
    pub nonce: u8,
    /// The rows it read; 0: no row.
    pub rows: [u8; COUPONS_MAX],
    /// The versions in MySQL at that time.
    pub seen: [u8; COUPONS_MAX],
}

/// The steps of a rebuild, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ReaderStep {
    /// Begin, if the view is cold.
    #[default]
    Begin,
    /// Read the rows.
    Read,
    /// Load this coupon's row and those after it.
    Load(u8),
    /// Make the view trusted.
    Complete,
}

impl View {
    pub(super) fn rebuild(&self, state: &State, which: usize, next: &mut Next) {
        let reader = state.readers[which];
        let idle = Reader::default();
        let bug = self.bounds.bug;
        let mut after = *state;
        let what = match reader.next {
            ReaderStep::Begin => {
                let turn = state.readers[..which].iter().all(|other| *other != idle);
                if state.left.rebuilds == 0 || state.keys.is_trusted(bug) || !turn {
                    return;
                }
                after.left.rebuilds -= 1;
                after.nonces += 1;
                after.keys.begin(after.nonces, bug);
                let next = ReaderStep::Read;
                after.readers[which] = Reader { next, nonce: after.nonces, ..idle };
                "view/begin.lua"
            }
            ReaderStep::Read => {
                let reader = &mut after.readers[which];
                reader.seen = state.versions;
                let all = !self.has(Bug::RebuildReadsUnusedOnly);
                reader.rows = state.versions.map(|v| if all || is_unused(v) { v } else { 0 });
                reader.next = ReaderStep::Load(0);
                "reads MySQL"
            }
            ReaderStep::Load(coupon) => {
                let at = usize::from(coupon);
                let apart = self.has(Bug::PiecesOfDifferentMoments);
                let version = if apart { state.versions[at] } else { reader.rows[at] };
                let loaded = version == 0 || after.keys.load(reader.nonce, coupon, version, bug);
                let reader = &mut after.readers[which];
                if !loaded {
                    *reader = idle;
                } else if usize::from(coupon) + 1 < self.bounds.coupons() {
                    reader.next = ReaderStep::Load(coupon + 1);
                } else {
                    reader.next = ReaderStep::Complete;
                }
                "view/load.lua, a row"
            }
            ReaderStep::Complete => {
                if after.keys.complete(reader.nonce, bug) {
                    for (floor, seen) in after.floor.iter_mut().zip(reader.seen) {
                        *floor = seen.max(*floor);
                    }
                }
                after.readers[which] = idle;
                "view/complete.lua"
            }
        };
        next.push((step(READER, what), after));
        if reader != idle && state.left.crashes > 0 {
            let mut died = *state;
            died.left.crashes -= 1;
            died.readers[which] = idle;
            next.push((step(READER, "dies"), died));
        }
    }
}
