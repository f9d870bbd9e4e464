//! Searches of one model within bounds, and what each must find.

use std::{
    any::type_name,
    collections::HashMap,
    fmt::Debug,
    sync::{Arc, LazyLock, Mutex, OnceLock},
};

use model::{
    Bug,
    claim::{
        Bounds, Protocol,
        settings::{Configuration, Planted},
    },
    search::{End, Explored, Model, explore},
};

/// Memory limit of one search; two run at a time.
const BYTES_MAX: usize = 512 << 20;

fn explored<M: Model>(model: &M) -> Explored<M::Promise> {
    explore(model, BYTES_MAX, |_, _| {})
}

/// One search each for the bounds that were searched so far. Many mistakes are planted within the same bounds.
static SEARCHED: LazyLock<Mutex<HashMap<String, Arc<OnceLock<()>>>>> =
    LazyLock::new(Mutex::default);

/// Asserts that no state within these bounds breaks a promise. `what` names the search in a failure.
pub(crate) fn assert_holds<M: Model>(what: &str, bounds: &impl Debug, model: &M) {
    let key = format!("{} {bounds:?}", type_name::<M>());
    let search = Arc::clone(SEARCHED.lock().unwrap().entry(key).or_default());
    search.get_or_init(|| match explored(model).end {
        End::Holds => {}
        End::TooLarge => panic!("{what}: more than {BYTES_MAX} bytes"),
        End::Broken { promise, trace } => panic!("{what}: {promise}\n{trace}"),
    });
}

/// Asserts that every state of a configuration of claims keeps the promises.
pub(crate) fn assert_bounds_hold(name: &str, configurations: &[Configuration]) {
    let found = configurations.iter().find(|(found, _)| *found == name);
    let (_, bounds) = found.unwrap_or_else(|| panic!("there is no configuration {name:?}"));
    assert_holds(name, bounds, &Protocol::new(*bounds));
}

/// Asserts that a mistake breaks its promise within the bounds planted for it, and that without it they hold.
pub(crate) fn assert_claims_caught(bug: Bug, planted: &[Planted]) {
    let found = planted.iter().find(|(planted, ..)| *planted == bug);
    let (_, promise, bounds) = found.unwrap_or_else(|| panic!("{bug:?} is not planted"));
    assert_breaks(bug, *promise, &Protocol::new(Bounds { bug: Some(bug), ..*bounds }));
    assert_holds(&format!("without {bug:?}"), bounds, &Protocol::new(*bounds));
}

/// Asserts that a mistake breaks its promise.
pub(crate) fn assert_breaks<M: Model>(bug: Bug, promise: M::Promise, with_the_mistake: &M) {
    let broken = explored(with_the_mistake);
    if let End::Broken { promise: other, trace } = &broken.end {
        assert_eq!(*other, promise, "{bug:?}\n{trace}");
    }
    assert_eq!(broken.promise(), Some(promise), "{bug:?}");
}
