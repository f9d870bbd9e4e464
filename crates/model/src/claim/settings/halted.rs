//! Bounds of pauses at the gate, and their planted mistakes.

use super::{
    super::{Attempt, Bounds, Change, Promise, attempt},
    Configuration, Planted,
};
use crate::Bug;

const ONE: Attempt = attempt(0, 0, 1);
const OTHER: Attempt = attempt(1, 1, 1);

const RESUME: &[Change] = &[Change::Resume];
const DIRECT: Bounds =
    Bounds { rebuilders: 1, pauses: false, coarse: true, ..Bounds::CALM }.halts();
const TOLD: Bounds = Bounds { coarse: false, ..DIRECT };
const QUEUED: Bounds = Bounds::QUEUED.halts();

/// Bounds that every test run explores.
pub const SMALL: &[Configuration] = configurations! {
    "a user, a resume; a rebuild, two crashes" => DIRECT.changes(RESUME).rebuilds(1).crashes(2);
    "a user, a pause and a resume in MySQL; a crash" =>
        TOLD.changes(&[Change::Pause, Change::Resume]).crashes(1);
    "two users, another change, a resume; a rebuild" =>
        DIRECT.attempts(&[ONE, OTHER]).changes(&[Change::Validity, Change::Resume]).rebuilds(1);
    "a user, the end of the template; a rebuild" => DIRECT.changes(&[Change::End]).rebuilds(1);
    "queued: two users, a resume; a rebuild" => QUEUED.attempts(&[ONE, OTHER]).changes(RESUME).rebuilds(1);
};

/// Bounds that a soak explores.
pub const LARGE: &[Configuration] = configurations! {
    "two users, a pause and two resumes; two rebuilds, a crash" =>
        DIRECT.attempts(&[ONE, OTHER]).changes(&[Change::Pause, Change::Resume, Change::Resume]).rebuilds(2)
            .crashes(1);
    "queued: two users, another change, a resume; two rebuilds, a crash" =>
        QUEUED.attempts(&[ONE, OTHER]).changes(&[Change::Validity, Change::Resume]).rebuilds(2).crashes(1);
};

/// Every planted mistake of pauses at the gate.
pub const PLANTED: &[Planted] = planted! {
    BeginForgetsHalt: HaltHolds => DIRECT.rebuilds(1);
    HaltLiftedBeforeItsRecord: HaltHolds => DIRECT;
    HaltLiftedUntold: HaltHolds => DIRECT;
    HaltRecordedTwice: ResumeStands => DIRECT.changes(RESUME);
    ResumeBeforeHalt: ResumeStands => DIRECT.changes(&[Change::Pause, Change::Resume]);
};
