//! Every key of the gate. One hash tag per template and bucket keeps a script's keys in one slot; the
//! prefix of a test stands outside it. The number after `gate:` is the version of the layout.

use coupon::{Epoch, TemplateId};

/// The names of one template's keys.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    base: String,
}

impl Keys {
    /// Bucket 0 is the only one until templates are split.
    pub(crate) fn new(prefix: &str, template: TemplateId) -> Self {
        Self { base: format!("{prefix}gate:1:{{{template}:0}}") }
    }

    /// What the gate knows of the template.
    pub(crate) fn meta(&self) -> String {
        format!("{}:meta", self.base)
    }

    /// User → entry, of one epoch.
    pub(crate) fn users(&self, epoch: Epoch) -> String {
        format!("{}:users:{epoch}", self.base)
    }

    /// Admissions by time, of one epoch.
    pub(crate) fn inflight(&self, epoch: Epoch) -> String {
        format!("{}:inflight:{epoch}", self.base)
    }
}
