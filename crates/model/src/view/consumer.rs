//! The consumer: processes one message at a time, and stores its offset only after the effect.

use super::{Next, State, View, Zombie, keys::Keys, step};
use crate::Bug;

const CONSUMER: &str = "consumer";
const ZOMBIE: &str = "old consumer";

/// A message of the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Change {
    pub coupon: u8,
    pub version: u8,
}

impl View {
    pub(super) fn consume(&self, state: &State, next: &mut Next) {
        if let Some(change) = state.applied {
            let mut after = *state;
            self.read_back(&mut after.keys, change);
            after.applied = None;
            after.offset += 1;
            next.push((step(CONSUMER, "reads back, and stores its offset"), after));
        } else if let Some(change) = message(state) {
            let mut after = *state;
            let warm = self.apply(&mut after, change);
            after.applied = warm.then_some(change);
            after.offset += u8::from(!warm);
            next.push((step(CONSUMER, "view/apply_change.lua; skips a cold view"), after));
            self.put_aside(state, change, next);
        }
        self.replay(state, next);
    }

    /// An undecodable message may be about any change, so the user's view is dropped.
    fn put_aside(&self, state: &State, change: Change, next: &mut Next) {
        if state.left.undecodable > 0 {
            let mut dropped = *state;
            dropped.left.undecodable -= 1;
            let generation = dropped.keys.generation;
            dropped.keys = Keys { generation, ..Keys::default() };
            dropped.offset += 1;
            raise(&mut dropped, change);
            next.push((step(CONSUMER, "cannot decode: drops the user's view"), dropped));
        }
    }

    fn replay(&self, state: &State, next: &mut Next) {
        if state.left.replays == 0 {
            return;
        }
        let mut again = *state;
        again.left.replays -= 1;
        if state.offset > 0 && state.applied.is_none() {
            let mut from_start = again;
            from_start.offset = 0;
            next.push((step(CONSUMER, "its offsets are lost: begins again"), from_start));
        }
        if state.zombie.is_some() {
            return;
        }
        // The consumer pauses, another begins at the stored offset, and then the first one resumes.
        if let Some(change) = state.applied {
            again.zombie = Some((change, Zombie::ReadsBack));
            again.applied = None;
            next.push((step(CONSUMER, "pauses before it reads back; another begins"), again));
        } else if let Some(change) = message(state) {
            again.zombie = Some((change, Zombie::Applies));
            next.push((step(CONSUMER, "pauses before it applies; another begins"), again));
        }
    }

    pub(super) fn consume_late(&self, state: &State, next: &mut Next) {
        let Some((change, does)) = state.zombie else { return };
        let mut after = *state;
        match does {
            Zombie::Applies => {
                let warm = self.apply(&mut after, change);
                after.zombie = warm.then_some((change, Zombie::ReadsBack));
                next.push((step(ZOMBIE, "view/apply_change.lua"), after));
            }
            Zombie::ReadsBack => {
                self.read_back(&mut after.keys, change);
                after.zombie = None;
                next.push((step(ZOMBIE, "reads back"), after));
            }
        }
    }

    fn apply(&self, state: &mut State, change: Change) -> bool {
        raise(state, change);
        state.keys.apply(change.coupon, change.version, self.bounds.bug)
    }

    fn read_back(&self, keys: &mut Keys, change: Change) {
        keys.read_back(change.coupon, change.version, self.bounds.bug);
    }

    pub(super) fn has(&self, bug: Bug) -> bool {
        self.bounds.bug == Some(bug)
    }
}

fn message(state: &State) -> Option<Change> {
    state.topic.as_slice().get(usize::from(state.offset)).copied()
}

/// From now on a trusted view must show this version or a later one.
fn raise(state: &mut State, change: Change) {
    let floor = &mut state.floor[usize::from(change.coupon)];
    *floor = change.version.max(*floor);
}
