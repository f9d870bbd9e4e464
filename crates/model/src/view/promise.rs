//! Promises about a trusted view.

use std::fmt;

use super::{State, View, bounds::COUPONS_MAX, is_unused, rebuild::Reader};

/// A promise of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// I11
    NoResurrection,
    /// I8
    NothingMissing,
    /// I8
    MembersHaveDetails,
    /// Read your own claim: a view that knows a coupon knows its latest applied version.
    KnownIsNotOlder,
    /// `after=`: a view that knows a coupon knows everything committed before it.
    KnowsWhatCameBefore,
    /// I8, I12
    QuietViewIsMySqls,
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoResurrection => "a trusted view shows a coupon that left the list",
            Self::NothingMissing => "a trusted view lacks a coupon that was read or applied",
            Self::MembersHaveDetails => "a member of a trusted view has no details",
            Self::KnownIsNotOlder => {
                "a trusted view knows a coupon in a version before an applied one"
            }
            Self::KnowsWhatCameBefore => {
                "a trusted view knows a coupon and not what came before it"
            }
            Self::QuietViewIsMySqls => "all is quiet, and the trusted view is not MySQL's",
        })
    }
}

impl View {
    pub(super) fn broken_in(&self, state: &State) -> Option<Promise> {
        if !state.keys.is_trusted(self.bounds.bug) {
            return None;
        }
        let list = state.keys.list.unwrap_or_default();
        let hash = state.keys.coupons.unwrap_or_default();
        let quiet = self.is_quiet(state);
        for coupon in 0..self.bounds.coupons() {
            let floor = state.floor[coupon];
            let newest = state.versions[coupon];
            let shown = list.members[coupon];
            let known = hash.versions[coupon];
            // The view may show any version from the last one applied to the newest one.
            if !(floor..=newest).any(|version| is_unused(version) == shown) {
                let promise = if shown { Promise::NoResurrection } else { Promise::NothingMissing };
                return Some(promise);
            }
            for own in (0..self.bounds.coupons()).filter(|own| hash.versions[*own] > 0) {
                let floor = floor.max(before(state, own)[coupon]);
                if !(floor..=newest).any(|version| is_unused(version) == shown) {
                    return Some(Promise::KnowsWhatCameBefore);
                }
            }
            if shown && known == 0 {
                return Some(Promise::MembersHaveDetails);
            }
            if known > 0 && known < floor {
                return Some(Promise::KnownIsNotOlder);
            }
            if quiet && shown != is_unused(newest) {
                return Some(Promise::QuietViewIsMySqls);
            }
        }
        None
    }

    fn is_quiet(&self, state: &State) -> bool {
        usize::from(state.offset) == state.topic.as_slice().len()
            && state.applied.is_none()
            && state.zombie.is_none()
            && state.readers.iter().all(|reader| *reader == Reader::default())
    }
}

/// Returns the versions of all coupons at the moment when this one had just been issued.
fn before(state: &State, coupon: usize) -> [u8; COUPONS_MAX] {
    let mut versions = [0; COUPONS_MAX];
    for change in state.topic.as_slice() {
        versions[usize::from(change.coupon)] = change.version;
        if usize::from(change.coupon) == coupon {
            break;
        }
    }
    versions
}
