//! Searches of one model within bounds, and what each must find.

use model::{
    Bug,
    search::{End, Explored, Model, explore},
};

/// Memory limit of one search; two run at a time.
const BYTES_MAX: usize = 512 << 20;

fn explored<M: Model>(model: &M) -> Explored<M::Promise> {
    explore(model, BYTES_MAX, |_, _| {})
}

/// Asserts that no state breaks a promise. `what` names the search in a failure.
pub(crate) fn assert_holds<M: Model>(what: &str, model: &M) {
    match explored(model).end {
        End::Holds => {}
        End::TooLarge => panic!("{what}: more than {BYTES_MAX} bytes"),
        End::Broken { promise, trace } => panic!("{what}: {promise}\n{trace}"),
    }
}

/// Asserts that every state of a configuration keeps the promises.
pub(crate) fn assert_configuration_holds<B: Copy, M: Model>(
    name: &str,
    configurations: &[(&str, B)],
    model: impl Fn(B) -> M,
) {
    let found = configurations.iter().find(|(found, _)| *found == name);
    let (_, bounds) = found.unwrap_or_else(|| panic!("there is no configuration {name:?}"));
    assert_holds(name, &model(*bounds));
}

/// Asserts that a mistake breaks its promise, and that without it the same bounds hold.
pub(crate) fn assert_caught<M: Model>(
    bug: Bug,
    promise: M::Promise,
    with_the_mistake: &M,
    without: &M,
) {
    let broken = explored(with_the_mistake);
    if let End::Broken { promise: other, trace } = &broken.end {
        assert_eq!(*other, promise, "{bug:?}\n{trace}");
    }
    assert_eq!(broken.promise(), Some(promise), "{bug:?}");
    assert_holds(&format!("without {bug:?}"), without);
}
