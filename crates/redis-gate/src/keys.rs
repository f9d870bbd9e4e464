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

    /// What every [`Keys::meta`] under a prefix looks like, as `SCAN` takes it.
    pub(crate) fn metas(prefix: &str) -> String {
        let mut pattern = String::new();
        for letter in prefix.chars() {
            // In a pattern they stand for something else.
            if "*?[]^\\".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        format!("{pattern}gate:1:{{*:0}}:meta")
    }

    /// Whose meta a key is; absent: it is none of this prefix.
    pub(crate) fn of_meta(prefix: &str, key: &str) -> Option<TemplateId> {
        key.strip_prefix(prefix)?.strip_prefix("gate:1:{")?.strip_suffix(":0}:meta")?.parse().ok()
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
