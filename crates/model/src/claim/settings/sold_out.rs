//! Bounds of refusals from memory, and their planted mistakes. A claim that will not land is one whose process dies.

use super::{
    super::{Attempt, Bounds, Change, Promise, attempt},
    Configuration, Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OTHER: Attempt = attempt(1, 1, 1);
const THIRD: Attempt = attempt(2, 2, 1);

const TOP_UP: &[Change] = &[Change::Move(1)];
const TOP_UPS: &[Change] = &[Change::Move(1), Change::Move(1)];
const TWO: Bounds = Bounds::REFUSING.attempts(&[ONE, OTHER]);

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "two apis, two users; a top-up, a release" => TWO.apis(2).changes(TOP_UP).crashes(1);
    "an api, three users; two top-ups, a release" =>
        TWO.attempts(&[ONE, OTHER, THIRD]).changes(TOP_UPS).crashes(1);
    "an api that forgets, a user; Redis forgets, a top-up, a rebuild" =>
        Bounds::REFUSING.changes(TOP_UP).rebuilds(1).losses(1).forgets(1);
    "an api, a user; Redis goes back in time, a top-up, a rebuild" =>
        Bounds::REFUSING.changes(TOP_UP).rebuilds(1).rewinds(1);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "an api that forgets, two users; Redis forgets, a top-up, a rebuild" =>
        TWO.changes(TOP_UP).rebuilds(1).losses(1).forgets(1);
    "two apis, two users; Redis forgets, a top-up, a rebuild" =>
        TWO.apis(2).changes(TOP_UP).rebuilds(1).losses(1);
    "two apis, three users; two top-ups, a release" =>
        TWO.attempts(&[ONE, OTHER, THIRD]).apis(2).changes(TOP_UPS).crashes(1);
    "an api, two users; Redis goes back in time, a top-up, a rebuild" =>
        TWO.changes(TOP_UP).rebuilds(1).rewinds(1);
};

/// A user's key twice. The api's look comes before the top-up, and its answer after the rebuild.
const ASKED_TWICE: Bounds = Bounds::REFUSING.total(0).attempts(&[ONE, ONE]).changes(TOP_UP);

/// Every planted mistake of refusals from memory.
pub const PLANTED: &[Planted] = planted! {
    ScanNotProved: AnsweredIsNotRefused => TWO.attempts(&[ONE, ONE, OTHER]).crashes(1);
    LeaseFromTheLooksEnd: AsTheGateDid => Bounds::REFUSING.total(0).changes(TOP_UP);
    LookWithoutEpoch: AsTheGateDid => TWO.rebuilds(1);
    LookWithoutRun: AsTheGateDid => Bounds::REFUSING.total(0).rewinds(1);
    AnswerBeforeRefusalsEnd: AnsweredIsNotRefused => Bounds::REFUSING.total(0).changes(TOP_UP);
    StoredAnswerBeforeRefusalsEnd: AnsweredIsNotRefused => ASKED_TWICE.rebuilds(1);
    RebuildNotesNothing: AnsweredIsNotRefused =>
        Bounds::REFUSING.total(0).changes(TOP_UP).rebuilds(1).losses(1);
};
