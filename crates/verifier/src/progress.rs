//! How far a look has come, for somebody who waits.

use std::{fmt, sync::Arc};

type Hear = dyn Fn(&str) + Send + Sync;

/// Hears how far the verifier has come; by default nobody does.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Hear>>);

impl Progress {
    /// Tells `hear` at each step: what is looked at, and how much of it.
    pub fn to(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if let Some(hear) = &self.0 {
            hear(&what());
        }
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Progress").field(&self.0.is_some()).finish()
    }
}
