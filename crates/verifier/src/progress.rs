//! Progress reports of a verification.

use std::{fmt, sync::Arc};

type Hear = dyn Fn(&str) + Send + Sync;

/// Receives the verifier's progress; by default it is discarded.
#[derive(Clone, Default)]
pub struct ProgressReporter(Option<Arc<Hear>>);

impl ProgressReporter {
    /// Calls `hear` at each step with what is being checked, and how much of it is done.
    pub fn to(hear: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(hear)))
    }

    pub(crate) fn say(&self, what: impl FnOnce() -> String) {
        if let Some(hear) = &self.0 {
            hear(&what());
        }
    }
}

impl fmt::Debug for ProgressReporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProgressReporter").field(&self.0.is_some()).finish()
    }
}
