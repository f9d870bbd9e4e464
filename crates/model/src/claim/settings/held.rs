//! Bounds of holds: small ones for every test run, and larger ones for a soak.

use super::{
    super::{Attempt, Bounds, By, Cancel, Change, LateKind, Part, Payment, attempt},
    Configuration,
};

const ONE: Attempt = attempt(0, 0, 1);
const TWO: Attempt = attempt(0, 0, 2);
const OWN: Attempt = attempt(0, 1, 1);
const THIRD: Attempt = attempt(0, 2, 1);
const OTHER: Attempt = attempt(1, 3, 1);

const PAY: Payment = Payment { claim: 0, part: Part::All, reference: 0 };
const PAY_FIRST: Payment = Payment { claim: 0, part: Part::First, reference: 1 };
const BY_USER: Cancel = Cancel { claim: 0, part: Part::All, by: By::User };
const BY_MERCHANT: Cancel = Cancel { claim: 0, part: Part::All, by: By::Merchant };
const SECOND_BY_USER: Cancel = Cancel { claim: 0, part: Part::Second, by: By::User };
const NEXT_BY_USER: Cancel = Cancel { claim: 1, part: Part::All, by: By::User };

const UP_AND_CUT: &[Change] = &[Change::Move(1), Change::Move(-1)];

const LATE_CALLS: &[LateKind] = &[LateKind::Claim, LateKind::Settle, LateKind::Release];
const ALL_LATE: &[LateKind] =
    &[LateKind::Claim, LateKind::Settle, LateKind::Release, LateKind::Landing, LateKind::Move];

/// A rebuild, as in most bounds.
const REBUILT: Bounds = Bounds::HELD.rebuilders(1).rebuilds(1);

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "a payment twice, a lapse, both cancellations, a crash" =>
        Bounds::HELD.payments(&[PAY, PAY]).cancels(&[BY_USER, BY_MERCHANT]).hidden().crashes(1).deadlines(1);
    "two coupons: a payment of one and of both, one cancelled, a lapse, a claim again" =>
        Bounds::HELD.attempts(&[TWO, OWN]).limit_of(2, 2).payments(&[PAY, PAY_FIRST])
            .cancels(&[SECOND_BY_USER, BY_MERCHANT]).deadlines(1);
    "two lapses, three claims; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, THIRD]).crashes(1).losses(1).deadlines(2);
    "a lapse, two users; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, OTHER]).limit(2).crashes(1).losses(1).deadlines(1);
    "a lapse and a cancellation, a late movement, hidden commits, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).limit_of(2, 2).cancels(&[NEXT_BY_USER]).hidden()
            .late(&[LateKind::Move]).deadlines(1);
    "a lapse, the number claimed again, a late claim, settle or release; a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).total(2).resolvers(1).late(LATE_CALLS).deadlines(1);
    "a lapse, the number claimed again, a late landing; a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).resolvers(1).late(&[LateKind::Landing]).deadlines(1);
    "two lapses, Redis goes back in time, a rebuild" => REBUILT.attempts(&[ONE, OWN]).rewinds(1).deadlines(2);
    "a lapse, Redis forgets, two rebuilders" =>
        REBUILT.rebuilders(2).attempts(&[ONE, OTHER]).rebuilds(2).losses(1).deadlines(1);
    "the same key again after its lapse, another user; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OTHER, ONE]).crashes(1).losses(1).deadlines(1);
    "two lapses, requests dropped, the same key again, a late claim" =>
        Bounds::HELD.attempts(&[ONE, OWN, ONE]).total(2).late(&[LateKind::Claim]).deadlines(2);
    "a ban after two lapses, a lift; Redis forgets, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).lapses_allowed(2).changes(&[Change::Lift(0)]).losses(1).deadlines(2);
    "a ban after a lapse, a lift, hidden commits; Redis forgets, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).lapses_allowed(1).changes(&[Change::Lift(0)]).hidden().losses(1)
            .deadlines(1);
    "a ban after a lapse, a lift, the same key again, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, ONE]).lapses_allowed(1).changes(&[Change::Lift(0)]).crashes(1)
            .deadlines(2);
    "a lapse and a cancellation that retire, a payment; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).total(2).retire().payments(&[PAY]).cancels(&[BY_MERCHANT]).crashes(1)
            .losses(1).deadlines(1);
    "a lapse, a top-up and a cut, hidden commits, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).changes(UP_AND_CUT).hidden().deadlines(1);
    "two lapses and a cancellation, hidden commits, the keeper looks twice" =>
        Bounds::HELD.attempts(&[ONE, OWN]).limit_of(2, 2).cancels(&[NEXT_BY_USER]).hidden().checks(2)
            .deadlines(2);
    "a lapse and a cancellation, the gate lies, the keeper looks" =>
        Bounds::HELD.attempts(&[ONE, OWN]).limit_of(2, 2).cancels(&[NEXT_BY_USER]).lies(1).checks(1)
            .deadlines(1);
    "a lapse, hidden commits, a landing rolled back with its batch, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).total(2).hidden().resolvers(1).crashes(1).rollbacks(1).deadlines(1);
    "no limit: two lapses, two users; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, OTHER]).limit(0).crashes(1).losses(1).deadlines(2);
    "no limit: a ban after a lapse, a lift; Redis forgets, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).limit_of(0, 2).lapses_allowed(1).changes(&[Change::Lift(0)]).losses(1)
            .deadlines(2);
    "two workers that lapse, hidden commits, a payment, a cancellation, a crash" =>
        Bounds::HELD.attempts(&[ONE, OTHER]).total(2).lapsers(2).payments(&[PAY]).cancels(&[NEXT_BY_USER])
            .hidden().crashes(1).deadlines(2);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "two lapses, two users; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, OTHER]).limit_of(2, 2).crashes(1).losses(1).deadlines(2);
    "a ban after two lapses, a lift, hidden commits; Redis forgets, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, THIRD]).lapses_allowed(2).changes(&[Change::Lift(0)]).hidden().losses(1)
            .deadlines(2);
    "any late packet; two lapses, a cancellation, hidden commits, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN]).total(2).cancels(&[BY_MERCHANT]).hidden().resolvers(1).late(ALL_LATE)
            .deadlines(2);
    "two coupons and one: payments, cancellations, a lapse in parts; Redis forgets, a crash, a rebuild" =>
        REBUILT.attempts(&[TWO, OWN]).limit_of(2, 2).payments(&[PAY_FIRST]).cancels(&[SECOND_BY_USER])
            .crashes(1).losses(1).deadlines(1);
    "a lapse and a cancellation, hidden commits; Redis forgets, two rebuilders" =>
        REBUILT.rebuilders(2).attempts(&[ONE, OTHER]).total(2).cancels(&[NEXT_BY_USER]).hidden().rebuilds(2)
            .losses(1).deadlines(1);
    "the same key again, two lapses, Redis goes back in time, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, OTHER, ONE]).crashes(1).rewinds(1).deadlines(2);
    "no limit: a ban after a lapse, a lift, the same key again; hidden commits, a crash, a rebuild" =>
        REBUILT.attempts(&[ONE, OWN, ONE]).limit_of(0, 2).lapses_allowed(1).changes(&[Change::Lift(0)])
            .hidden().crashes(1).deadlines(2);
};
