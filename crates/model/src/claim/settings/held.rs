//! Bounds of holds: small ones for every test run, and larger ones for a soak.

use super::{
    super::{Attempt, Bounds, By, Cancel, Change, LateKind, Left, Part, Payment, attempt},
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
const REBUILT: Bounds = Bounds { rebuilders: 1, left: REBUILDS, ..Bounds::HELD };

const REBUILDS: Left = Left { rebuilds: 1, ..Left::NONE };
const LOST: Left = Left { losses: 1, crashes: 1, ..REBUILDS };
const LATE: Left = Left { late: 1, ..REBUILDS };

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = &[
    (
        "a payment twice, a lapse, both cancellations, a crash",
        Bounds {
            payments: &[PAY, PAY],
            cancels: &[BY_USER, BY_MERCHANT],
            hidden: true,
            left: Left { deadlines: 1, crashes: 1, ..Left::NONE },
            ..Bounds::HELD
        },
    ),
    (
        "two coupons: a payment of one and of both, one cancelled, a lapse, a claim again",
        Bounds {
            attempts: &[TWO, OWN],
            limit: 2,
            total: 2,
            payments: &[PAY, PAY_FIRST],
            cancels: &[SECOND_BY_USER, BY_MERCHANT],
            left: Left { deadlines: 1, ..Left::NONE },
            ..Bounds::HELD
        },
    ),
    (
        "two lapses, three claims; Redis forgets, a crash, a rebuild",
        Bounds { attempts: &[ONE, OWN, THIRD], left: Left { deadlines: 2, ..LOST }, ..REBUILT },
    ),
    (
        "a lapse, two users; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, OTHER],
            limit: 2,
            left: Left { deadlines: 1, ..LOST },
            ..REBUILT
        },
    ),
    (
        "a lapse and a cancellation, a late movement, hidden commits, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            limit: 2,
            total: 2,
            cancels: &[NEXT_BY_USER],
            hidden: true,
            left: Left { deadlines: 1, ..LATE },
            late_kinds: &[LateKind::Move],
            ..REBUILT
        },
    ),
    (
        "a lapse, the number claimed again, a late claim, settle or release; a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            total: 2,
            resolvers: 1,
            left: Left { deadlines: 1, ..LATE },
            late_kinds: LATE_CALLS,
            ..REBUILT
        },
    ),
    (
        "a lapse, the number claimed again, a late landing; a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            resolvers: 1,
            left: Left { deadlines: 1, ..LATE },
            late_kinds: &[LateKind::Landing],
            ..REBUILT
        },
    ),
    (
        "two lapses, Redis goes back in time, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            left: Left { deadlines: 2, rewinds: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "a lapse, Redis forgets, two rebuilders",
        Bounds {
            attempts: &[ONE, OTHER],
            rebuilders: 2,
            left: Left { deadlines: 1, rebuilds: 2, losses: 1, ..Left::NONE },
            ..REBUILT
        },
    ),
    (
        "the same key again after its lapse, another user; Redis forgets, a crash, a rebuild",
        Bounds { attempts: &[ONE, OTHER, ONE], left: Left { deadlines: 1, ..LOST }, ..REBUILT },
    ),
    (
        "two lapses, requests dropped, the same key again, a late claim",
        Bounds {
            attempts: &[ONE, OWN, ONE],
            total: 2,
            left: Left { deadlines: 2, late: 1, ..Left::NONE },
            late_kinds: &[LateKind::Claim],
            ..Bounds::HELD
        },
    ),
    (
        "a ban after two lapses, a lift; Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            lapses_allowed: 2,
            changes: &[Change::Lift(0)],
            left: Left { deadlines: 2, losses: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "a ban after a lapse, a lift, hidden commits; Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            lapses_allowed: 1,
            changes: &[Change::Lift(0)],
            hidden: true,
            left: Left { deadlines: 1, losses: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "a ban after a lapse, a lift, the same key again, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, ONE],
            lapses_allowed: 1,
            changes: &[Change::Lift(0)],
            left: Left { deadlines: 2, crashes: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "a lapse and a cancellation that retire, a payment; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            total: 2,
            retire: true,
            payments: &[PAY],
            cancels: &[BY_MERCHANT],
            left: Left { deadlines: 1, ..LOST },
            ..REBUILT
        },
    ),
    (
        "a lapse, a top-up and a cut, hidden commits, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            changes: UP_AND_CUT,
            hidden: true,
            left: Left { deadlines: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "two lapses and a cancellation, hidden commits, the keeper looks twice",
        Bounds {
            attempts: &[ONE, OWN],
            limit: 2,
            total: 2,
            cancels: &[NEXT_BY_USER],
            hidden: true,
            left: Left { deadlines: 2, checks: 2, ..Left::NONE },
            ..Bounds::HELD
        },
    ),
    (
        "a lapse and a cancellation, the gate lies, the keeper looks",
        Bounds {
            attempts: &[ONE, OWN],
            limit: 2,
            total: 2,
            cancels: &[NEXT_BY_USER],
            left: Left { deadlines: 1, checks: 1, lies: 1, ..Left::NONE },
            ..Bounds::HELD
        },
    ),
    (
        "a lapse, hidden commits, a landing rolled back with its batch, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            total: 2,
            hidden: true,
            resolvers: 1,
            left: Left { deadlines: 1, rollbacks: 1, crashes: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "no limit: two lapses, two users; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, OTHER],
            limit: 0,
            left: Left { deadlines: 2, ..LOST },
            ..REBUILT
        },
    ),
    (
        "no limit: a ban after a lapse, a lift; Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            limit: 0,
            total: 2,
            lapses_allowed: 1,
            changes: &[Change::Lift(0)],
            left: Left { deadlines: 2, losses: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "two workers that lapse, hidden commits, a payment, a cancellation, a crash",
        Bounds {
            attempts: &[ONE, OTHER],
            total: 2,
            lapsers: 2,
            payments: &[PAY],
            cancels: &[NEXT_BY_USER],
            hidden: true,
            left: Left { deadlines: 2, crashes: 1, ..Left::NONE },
            ..Bounds::HELD
        },
    ),
];

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = &[
    (
        "two lapses, two users; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, OTHER],
            limit: 2,
            total: 2,
            left: Left { deadlines: 2, ..LOST },
            ..REBUILT
        },
    ),
    (
        "a ban after two lapses, a lift, hidden commits; Redis forgets, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, THIRD],
            lapses_allowed: 2,
            changes: &[Change::Lift(0)],
            hidden: true,
            left: Left { deadlines: 2, losses: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "any late packet; two lapses, a cancellation, hidden commits, a rebuild",
        Bounds {
            attempts: &[ONE, OWN],
            total: 2,
            cancels: &[BY_MERCHANT],
            hidden: true,
            resolvers: 1,
            left: Left { deadlines: 2, ..LATE },
            late_kinds: ALL_LATE,
            ..REBUILT
        },
    ),
    (
        "two coupons and one: payments, cancellations, a lapse in parts; Redis forgets, a crash, a rebuild",
        Bounds {
            attempts: &[TWO, OWN],
            limit: 2,
            total: 2,
            payments: &[PAY_FIRST],
            cancels: &[SECOND_BY_USER],
            left: Left { deadlines: 1, ..LOST },
            ..REBUILT
        },
    ),
    (
        "a lapse and a cancellation, hidden commits; Redis forgets, two rebuilders",
        Bounds {
            attempts: &[ONE, OTHER],
            total: 2,
            cancels: &[NEXT_BY_USER],
            hidden: true,
            rebuilders: 2,
            left: Left { deadlines: 1, rebuilds: 2, losses: 1, ..Left::NONE },
            ..REBUILT
        },
    ),
    (
        "the same key again, two lapses, Redis goes back in time, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, OTHER, ONE],
            left: Left { deadlines: 2, rewinds: 1, crashes: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
    (
        "no limit: a ban after a lapse, a lift, the same key again; hidden commits, a crash, a rebuild",
        Bounds {
            attempts: &[ONE, OWN, ONE],
            limit: 0,
            total: 2,
            lapses_allowed: 1,
            changes: &[Change::Lift(0)],
            hidden: true,
            left: Left { deadlines: 2, crashes: 1, ..REBUILDS },
            ..REBUILT
        },
    ),
];
