//! The user's two keys, one method per command in `lua/`, with the same names and answers.

use super::{bounds::COUPONS_MAX, is_unused};
use crate::Bug;

/// Identifies the generation and the rebuild that a key belongs to.
pub type Token = (u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Keys {
    /// The generation that every connection sends.
    pub generation: u8,
    pub list: Option<List>,
    pub coupons: Option<Hash>,
}

/// The ZSet: the token and the unused coupons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct List {
    pub token: Option<Token>,
    /// Which coupons it contains.
    pub members: [bool; COUPONS_MAX],
}

/// The hash: the token and the coupons' entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Hash {
    pub token: Option<Token>,
    pub phase: Phase,
    /// Version of each coupon; 0: unknown.
    pub versions: [u8; COUPONS_MAX],
}

/// The phase of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    #[default]
    Loading,
    /// Trusted by readers.
    Complete,
}

/// State of the view according to both keys; see `lua/view/includes/state.lua`.
pub type ViewState = Option<(Phase, Token)>;

impl Keys {
    /// `view/state.lua`; `None`: the view is cold.
    pub fn state(&self, bug: Option<Bug>) -> ViewState {
        let hash = self.coupons?;
        let token = hash.token.filter(|(generation, _)| *generation == self.generation)?;
        let in_hash_only = bug == Some(Bug::NonceInHashOnly) && hash.phase == Phase::Loading;
        let agree = in_hash_only || self.list.is_some_and(|list| list.token == Some(token));
        agree.then_some((hash.phase, token))
    }

    /// Returns whether readers trust the view.
    pub fn is_trusted(&self, bug: Option<Bug>) -> bool {
        matches!(self.state(bug), Some((Phase::Complete, _)))
    }

    /// `view/begin.lua`. Time is not modelled, so any running rebuild may count as timed out.
    pub fn begin(&mut self, nonce: u8, bug: Option<Bug>) {
        let token = Some((self.generation, nonce));
        let kept = *self;
        let keep = bug == Some(Bug::BeginKeepsKeys);
        let list = kept.list.filter(|_| keep).unwrap_or_default();
        let hash = kept.coupons.filter(|_| keep).unwrap_or_default();
        self.coupons = Some(Hash { token, phase: Phase::Loading, ..hash });
        self.list = if bug == Some(Bug::NonceInHashOnly) {
            kept.list.filter(|_| keep)
        } else {
            Some(List { token, ..list })
        };
    }

    /// `view/load.lua` for one row; `false`: this rebuild does not own the view any more.
    pub fn load(&mut self, nonce: u8, coupon: u8, version: u8, bug: Option<Bug>) -> bool {
        if !self.is_loading(nonce, bug) {
            return false;
        }
        self.apply_if_newer(coupon, version, bug);
        true
    }

    /// `view/complete.lua`; `false`: this rebuild does not own the view any more.
    pub fn complete(&mut self, nonce: u8, bug: Option<Bug>) -> bool {
        let any = bug == Some(Bug::CompleteWithoutNonce)
            && matches!(self.state(bug), Some((Phase::Loading, _)));
        if !any && !self.is_loading(nonce, bug) {
            return false;
        }
        let Some(hash) = &mut self.coupons else { return false };
        hash.phase = Phase::Complete;
        if bug == Some(Bug::NonceInHashOnly) {
            self.list.get_or_insert_default().token = hash.token;
        }
        true
    }

    fn is_loading(&self, nonce: u8, bug: Option<Bug>) -> bool {
        self.state(bug) == Some((Phase::Loading, (self.generation, nonce)))
    }

    /// `view/apply_change.lua` for one change; `false`: the view is cold.
    pub fn apply(&mut self, coupon: u8, version: u8, bug: Option<Bug>) -> bool {
        let loading_skipped = bug == Some(Bug::LoadingSkipped);
        match self.state(bug) {
            None => false,
            Some((Phase::Loading, _)) if loading_skipped => false,
            Some(_) => {
                self.apply_if_newer(coupon, version, bug);
                true
            }
        }
    }

    /// The read after the write, and `view/write_again.lua` if the member is missing.
    pub fn read_back(&mut self, coupon: u8, version: u8, bug: Option<Bug>) {
        let at = usize::from(coupon);
        if !is_unused(version) || self.list.is_some_and(|list| list.members[at]) {
            return;
        }
        let holds_it = self.coupons.is_some_and(|hash| hash.versions[at] == version);
        let right = self.state(bug).is_some() && holds_it;
        if right || (bug == Some(Bug::WriteAgainUnconditional) && self.coupons.is_some()) {
            self.list.get_or_insert_default().members[at] = true;
        }
    }

    /// `view/apply_if_newer.lua`: a coupon that leaves the list stays in the hash as a tombstone.
    fn apply_if_newer(&mut self, coupon: u8, version: u8, bug: Option<Bug>) {
        let at = usize::from(coupon);
        let hash = self.coupons.get_or_insert_default();
        if hash.versions[at] >= version {
            return;
        }
        let unused = is_unused(version);
        let forgets = !unused && bug == Some(Bug::NoTombstone);
        hash.versions[at] = if forgets { 0 } else { version };
        if unused {
            self.list.get_or_insert_default().members[at] = true;
        } else if let Some(list) = &mut self.list {
            list.members[at] = false;
        }
    }
}
