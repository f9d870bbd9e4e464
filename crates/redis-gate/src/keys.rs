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

    /// What every key of a gate under a prefix looks like, as `SCAN` takes it; `part` is `meta`, or `*` for any.
    pub(crate) fn pattern(prefix: &str, part: &str) -> String {
        let mut pattern = String::new();
        for letter in prefix.chars() {
            // In a pattern they stand for something else.
            if "*?[]^\\".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        format!("{pattern}gate:1:{{*:0}}:{part}")
    }

    /// Whose meta a key is; absent: it is none of this prefix.
    pub(crate) fn of_meta(prefix: &str, key: &str) -> Option<TemplateId> {
        key.strip_prefix(prefix)?.strip_prefix("gate:1:{")?.strip_suffix(":0}:meta")?.parse().ok()
    }

    /// Whose users or in-flight entries a key holds, and of which epoch; absent: it is no such key.
    pub(crate) fn of_epoch(prefix: &str, key: &str) -> Option<(TemplateId, Epoch)> {
        let (template, part) =
            key.strip_prefix(prefix)?.strip_prefix("gate:1:{")?.split_once(":0}:")?;
        let epoch = part.strip_prefix("users:").or_else(|| part.strip_prefix("inflight:"))?;
        Some((template.parse().ok()?, Epoch(epoch.parse().ok()?)))
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
