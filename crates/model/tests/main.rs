//! The protocols hold within bounds, and the search finds planted mistakes.

#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

/// One test per planted mistake, using `is_caught` and `PLANTED` of the calling module.
macro_rules! is_caught {
    ($($test:ident: $bug:ident)*) => {
        $(#[test] fn $test() { is_caught(Bug::$bug); })*

        #[test]
        fn every_planted_mistake_has_a_test() {
            let tested = [$(Bug::$bug),*];
            let all: Vec<Bug> = PLANTED.iter().map(|(bug, ..)| *bug).collect();
            assert_eq!(tested, all[..]);
        }
    };
}

/// One test per configuration, so that they run in parallel, using `holds` and `configurations` of the calling module.
macro_rules! holds {
    ($($test:ident: $name:literal)*) => {
        /// Their searches take most of the time of a run.
        mod full {
            use super::*;

            $(#[test] fn $test() { holds($name); })*
        }

        #[test]
        fn every_small_configuration_has_a_test() {
            let tested: &[&str] = &[$($name),*];
            let all: Vec<&str> = configurations::SMALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(tested, all);
        }
    };
}

mod claim;
mod failover;
mod halted;
mod holds;
mod mixed;
mod queued;
mod searched;
mod sold_out;
mod view;
mod worker;
