//! The protocols hold within bounds, and the search finds planted mistakes.

#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

/// One test per planted mistake, using `is_caught` and `PLANTED` of the calling module. Those whose bounds take seconds to
/// search are of the full tier.
macro_rules! is_caught {
    ($($test:ident: $bug:ident)* $(; full: $($long:ident: $late:ident)*)?) => {
        $(#[test] fn $test() { is_caught(Bug::$bug); })*

        $(
            /// Their bounds take seconds to search.
            mod caught {
                pub(super) mod full {
                    use super::super::*;

                    $(#[test] fn $long() { is_caught(Bug::$late); })*
                }
            }
        )?

        #[test]
        fn every_planted_mistake_has_a_test() {
            let mut tested = vec![$(Bug::$bug,)* $($(Bug::$late),*)?];
            let mut all: Vec<Bug> = PLANTED.iter().map(|(bug, ..)| *bug).collect();
            tested.sort_unstable_by_key(|bug| format!("{bug:?}"));
            all.sort_unstable_by_key(|bug| format!("{bug:?}"));
            assert_eq!(tested, all);
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
mod reconcile;
mod searched;
mod sold_out;
mod view;
mod worker;
