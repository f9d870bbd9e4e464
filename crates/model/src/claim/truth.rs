//! MySQL: each method is one transaction or statement.

use coupon::TemplateState;

use super::bounds::{ATTEMPTS_MAX, Attempt, KEYS_MAX, MOVEMENTS_MAX};
use crate::{Bug, gate::Numbers};

/// The rows of one template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Truth {
    /// `template_stock.total`.
    pub total: i16,
    /// `template_stock.stock`.
    pub stock: i16,
    /// `template_stock.epoch`.
    pub epoch: u8,
    /// `coupon_template.version`.
    pub version: u8,
    /// `coupon_template.state`; `template_stock.open` changes in the same transaction.
    pub state: TemplateState,
    /// `template_stock.terms`: the version at which the validity last changed; 0: never.
    pub terms: u8,
    /// The last `stock_movement.seq`; 0 is the movement that created the template.
    pub movement: u8,
    /// `stock_movement.delta`, from `seq` 1 on.
    pub deltas: [i16; MOVEMENTS_MAX],
    /// `claim`, by id.
    pub claims: [Row; ATTEMPTS_MAX + 1],
    /// Only with [`Bug::FenceOnClientsKey`]: the admission whose fence uses the client's key, as id + 1.
    pub fences_on_keys: [u8; KEYS_MAX],
}

/// The `claim` row of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Row {
    /// There is no row.
    #[default]
    Absent,
    /// Landed, with its coupons' numbers.
    Landed(Numbers),
    /// A fence.
    Void,
}

/// Result of fencing an admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fence {
    /// The fence stands: the admission can never land.
    Stands,
    /// The admission has landed.
    Landed,
}

/// A landing, as it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Landing {
    pub id: u8,
    pub epoch: u8,
    pub numbers: Numbers,
    /// The last change of validity in the template that its coupons were made from.
    pub terms: u8,
    /// Only with [`Bug::FenceOnClientsKey`]: the fence to take over, as id + 1.
    pub over: u8,
}

/// The claims of a search, by id.
#[derive(Debug, Clone, Copy)]
pub struct Claims<'a> {
    pub(super) attempts: &'a [Attempt],
    pub(super) spare: Attempt,
}

impl Claims<'_> {
    pub(super) fn of(&self, id: u8) -> Attempt {
        self.attempts.get(usize::from(id)).copied().unwrap_or(self.spare)
    }
}

impl Truth {
    /// Creates a published template.
    pub(super) fn new(total: i16) -> Self {
        Self {
            total,
            stock: total,
            epoch: 1,
            version: 1,
            state: TemplateState::Published,
            terms: 0,
            movement: 0,
            deltas: [0; MOVEMENTS_MAX],
            claims: [Row::Absent; ATTEMPTS_MAX + 1],
            fences_on_keys: [0; KEYS_MAX],
        }
    }

    /// `template_stock.open`.
    pub fn is_open(&self) -> bool {
        self.state == TemplateState::Published
    }

    /// Returns the ids that landed, each with its numbers.
    pub fn landed(&self) -> impl Iterator<Item = (u8, Numbers)> {
        (0..).zip(self.claims).filter_map(|(id, row)| match row {
            Row::Landed(numbers) => Some((id, numbers)),
            Row::Absent | Row::Void => None,
        })
    }

    /// Returns the admission that landed under a key.
    pub fn landed_under(&self, claims: Claims<'_>, key: u8) -> Option<u8> {
        self.landed().map(|(id, _)| id).find(|id| claims.of(*id).key == key)
    }

    pub fn has_landed(&self, id: u8) -> bool {
        matches!(self.claims[usize::from(id)], Row::Landed(_))
    }

    /// Returns the numbers that a user holds.
    pub fn taken(&self, claims: Claims<'_>, user: u8) -> Numbers {
        let of_user = self.landed().filter(|(id, _)| claims.of(*id).user == user);
        of_user.fold(Numbers::default(), |all, (_, numbers)| all.with(numbers))
    }

    /// Runs the whole landing: unique keys, then the guard, then the commit. Returns `false` if it was rolled back.
    pub(super) fn land(&mut self, claims: Claims<'_>, landing: Landing, bug: Option<Bug>) -> bool {
        let Landing { id, epoch, numbers, terms, over } = landing;
        let Attempt { user, key, quantity } = claims.of(id);
        let fence = self.fences_on_keys[usize::from(key)];
        let in_the_way = fence != 0 && (fence != over || fence == id + 1);
        let row = &self.claims[usize::from(id)];
        if *row != Row::Absent || in_the_way || self.landed_under(claims, key).is_some() {
            return false;
        }
        if self.taken(claims, user).meets(numbers) {
            return false;
        }
        let epoch_differs = epoch != self.epoch && bug != Some(Bug::GuardWithoutEpoch);
        if self.terms > terms && bug != Some(Bug::GuardWithoutTerms) {
            return false;
        }
        if epoch_differs || !self.is_open() || self.stock < i16::from(quantity) {
            return false;
        }
        self.stock -= i16::from(quantity);
        self.claims[usize::from(id)] = Row::Landed(numbers);
        self.fences_on_keys[usize::from(key)] = 0;
        true
    }

    /// Makes a later landing of an admission impossible, or finds that it landed.
    pub(super) fn fence(&mut self, claims: Claims<'_>, id: u8, bug: Option<Bug>) -> Fence {
        if bug == Some(Bug::FenceOnClientsKey) {
            return self.fence_on_key(claims, id);
        }
        let row = &mut self.claims[usize::from(id)];
        if matches!(row, Row::Landed(_)) {
            return Fence::Landed;
        }
        *row = Row::Void;
        Fence::Stands
    }

    fn fence_on_key(&mut self, claims: Claims<'_>, id: u8) -> Fence {
        let key = claims.of(id).key;
        match self.landed_under(claims, key) {
            Some(landed) if landed == id => Fence::Landed,
            Some(_) => Fence::Stands,
            None => {
                self.fences_on_keys[usize::from(key)] = id + 1;
                Fence::Stands
            }
        }
    }

    /// Adds a movement and changes the stock in one transaction. Returns `false` if a cut would take more than is left.
    pub(super) fn add_movement(&mut self, delta: i16) -> bool {
        if self.stock + delta < 0 {
            return false;
        }
        self.deltas[usize::from(self.movement)] = delta;
        self.movement += 1;
        self.stock += delta;
        self.total += delta;
        true
    }

    /// Changes state, version and `open` in one transaction.
    pub(super) fn change_state(&mut self, state: TemplateState) -> bool {
        let may = self.state.may_become(state);
        if may {
            self.state = state;
            self.version += 1;
        }
        may
    }

    /// Changes validity, version and `terms` in one transaction.
    pub(super) fn change_validity(&mut self) {
        self.version += 1;
        self.terms = self.version;
    }

    /// Returns the movements after `seq`, in order, each with its number and delta.
    pub fn movements_after(&self, seq: u8) -> impl Iterator<Item = (u8, i16)> {
        let deltas = self.deltas;
        (seq + 1..=self.movement).map(move |seq| (seq, deltas[usize::from(seq) - 1]))
    }

    /// Returns whether an admission is fenced.
    pub(super) fn is_fenced(&self, claims: Claims<'_>, id: u8) -> bool {
        let on_key = self.fences_on_keys[usize::from(claims.of(id).key)];
        self.claims[usize::from(id)] == Row::Void || on_key == id + 1
    }
}
