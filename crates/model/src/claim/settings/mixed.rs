//! Bounds in which several features are switched on at once.

use coupon::{AcceptAfter, ClaimMode};

use super::{
    super::{Attempt, Bounds, By, Cancel, Change, Part, Payment, attempt},
    Configuration,
};

const ONE: Attempt = attempt(0, 0, 1);
const OWN: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const PAY: Payment = Payment { claim: 0, part: Part::All, reference: 0 };
const BY_USER: Cancel = Cancel { claim: 0, part: Part::All, by: By::User };

const TOP_UP: &[Change] = &[Change::Move(1)];
const TWO: &[Attempt] = &[ONE, OTHER];
const HELD: Bounds = Bounds { held: true, lapsers: 1, ..Bounds::QUEUED };
const HELD_REFUSING: Bounds = Bounds { held: true, lapsers: 1, ..Bounds::REFUSING };
const QUEUED_REFUSING: Bounds = Bounds { apis: 1, ..Bounds::QUEUED };
const ALL: Bounds = Bounds { apis: 1, ..HELD };

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "queued, held: a lapse, two users; Redis forgets, a crash, a rebuild" =>
        HELD.attempts(TWO).losses(1).crashes(1).rebuilds(1).deadlines(1);
    "queued, held: a lapse, the number claimed again, the same key again; a rebuild" =>
        HELD.attempts(&[ONE, OWN, ONE]).rebuilds(1).deadlines(1);
    "queued, held: a lapse, a ban, a lift; Redis forgets, a rebuild" =>
        HELD.attempts(&[ONE, OWN]).lapses_allowed(1).changes(&[Change::Lift(0)]).losses(1).rebuilds(1)
            .deadlines(1);
    "queued, held: a payment, a cancellation, hidden commits; two landers, a rebuild" =>
        HELD.attempts(TWO).payments(&[PAY]).cancels(&[BY_USER]).landers(2).hidden().rebuilds(1).deadlines(1);
    "queued, held: a cut and a top-up, a lapse, hidden commits; a rebuild" =>
        HELD.attempts(TWO).changes(&[Change::Move(-1), Change::Move(1)]).hidden().rebuilds(1).deadlines(1);
    "spill, held: a lapse, the same key again; Redis forgets, a crash, a rebuild" =>
        HELD.mode(ClaimMode::Spill).attempts(&[ONE, OWN, ONE]).losses(1).crashes(1).rebuilds(1).deadlines(1);
    "after the gate, held: a lapse; Redis goes back in time, a rebuild" =>
        HELD.accept_after(AcceptAfter::Gate).attempts(TWO).reads(2).rewinds(1).rebuilds(1).deadlines(1);
    "held, sold out: a lapse, two users, an api; a rebuild" =>
        HELD_REFUSING.attempts(TWO).rebuilds(1).deadlines(1);
    "held, sold out: a lapse, the same key again, an api; Redis forgets, a rebuild" =>
        HELD_REFUSING.attempts(&[ONE, ONE]).losses(1).rebuilds(1).deadlines(1);
    "queued, sold out: two users, an api; a rebuild" => QUEUED_REFUSING.attempts(TWO).rebuilds(1);
    "queued, sold out: a top-up, a user's key twice, an api; a rebuild" =>
        QUEUED_REFUSING.total(0).attempts(&[ONE, ONE]).changes(TOP_UP).rebuilds(1);
    "queued, held, sold out: a lapse, two users, an api" => ALL.attempts(TWO).deadlines(1);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "queued, sold out: a cut and a top-up, a user's key twice, an api; a rebuild" =>
        QUEUED_REFUSING.attempts(&[ONE, ONE]).changes(&[Change::Move(-1), Change::Move(1)]).rebuilds(1);
    "queued, held: three claims of two users, two lapses; Redis forgets, a crash, a rebuild" =>
        HELD.attempts(&[ONE, OWN, OTHER]).losses(1).crashes(1).rebuilds(1).deadlines(2);
    "queued, held, sold out: a lapse, two users, an api; Redis forgets, a rebuild" =>
        ALL.attempts(TWO).losses(1).rebuilds(1).deadlines(1);
};
