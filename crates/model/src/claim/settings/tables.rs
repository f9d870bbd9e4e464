//! How the tables of bounds are written: one setter for each field, so that a configuration fits on a line.

use coupon::{AcceptAfter, ClaimMode};

use super::super::bounds::{Attempt, Bounds, Cancel, Change, LateKind, Payment};

/// Bounds with their names.
macro_rules! configurations {
    ($($name:literal => $bounds:expr;)*) => { &[$(($name, $bounds)),*] };
}

/// Mistakes, each with the promise that it breaks and the bounds in which it does.
macro_rules! planted {
    ($($bug:ident: $promise:ident => $bounds:expr;)*) => {
        &[$((Bug::$bug, Promise::$promise, $bounds)),*]
    };
}

macro_rules! setters {
    ({ $($field:ident: $type:ty,)* } { $($left:ident)* }) => {
        impl Bounds {
            $(
                pub(super) const fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
            $(
                pub(super) const fn $left(mut self, $left: u8) -> Self {
                    self.left.$left = $left;
                    self
                }
            )*
        }
    };
}

setters! {
    {
        total: i16,
        limit: u8,
        attempts: &'static [Attempt],
        changes: &'static [Change],
        resolvers: usize,
        rebuilders: usize,
        mode: ClaimMode,
        accept_after: AcceptAfter,
        relays: usize,
        landers: usize,
        lapses_allowed: u8,
        lapsers: usize,
        payments: &'static [Payment],
        cancels: &'static [Cancel],
        apis: usize,
    }
    {
        rebuilds crashes losses rewinds lies checks rollbacks deadlines
        reads deaf refusals looks strangers orphans forgets failovers
    }
}

impl Bounds {
    /// The limit of each user, and the number of coupons.
    pub(super) const fn limit_of(self, limit: u8, total: i16) -> Self {
        self.limit(limit).total(total)
    }

    /// One of these packets may be late.
    pub(super) const fn late(mut self, kinds: &'static [LateKind]) -> Self {
        self.late_kinds = kinds;
        self.left.late = 1;
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    pub(super) const fn two_primaries(mut self) -> Self {
        self.two_primaries = true;
        self.left.failovers = 1;
        self
    }

    pub(super) const fn halts(mut self) -> Self {
        self.halts = true;
        self
    }

    pub(super) const fn retire(mut self) -> Self {
        self.retire = true;
        self
    }

    pub(super) const fn reread_in_steps(mut self) -> Self {
        self.reread_in_steps = true;
        self
    }
}
