//! The gate's keys. One hash tag per template and bucket keeps a script's keys in one slot; a test's prefix is outside
//! it. The number after `gate:` is the version of the layout.

use coupon::{Epoch, TemplateId};

/// The key names of one template's gate.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    base: String,
}

impl Keys {
    /// Bucket 0 is the only one until templates are split.
    pub(crate) fn new(prefix: &str, template: TemplateId) -> Self {
        Self { base: format!("{prefix}gate:1:{{{template}:0}}") }
    }

    /// Returns the pattern, for `SCAN`, of all gate keys under a prefix; `part` is `meta`, `outbox`, or `*` for any.
    pub(crate) fn pattern(prefix: &str, part: &str) -> String {
        let mut pattern = String::new();
        for letter in prefix.chars() {
            // Escape characters with a special meaning in patterns.
            if "*?[]^\\".contains(letter) {
                pattern.push('\\');
            }
            pattern.push(letter);
        }
        format!("{pattern}gate:1:{{*:0}}:{part}")
    }

    /// Returns the template of a meta key; `None` if it is no such key of this prefix.
    pub(crate) fn of_meta(prefix: &str, key: &str) -> Option<TemplateId> {
        key.strip_prefix(prefix)?.strip_prefix("gate:1:{")?.strip_suffix(":0}:meta")?.parse().ok()
    }

    /// Returns the template of an outbox; `None` if it is no such key of this prefix.
    pub(crate) fn of_outbox(prefix: &str, key: &str) -> Option<TemplateId> {
        key.strip_prefix(prefix)?.strip_prefix("gate:1:{")?.strip_suffix(":0}:outbox")?.parse().ok()
    }

    /// Returns the template and epoch of a key of users, in-flight or queued entries; `None` for any other key.
    pub(crate) fn of_epoch(prefix: &str, key: &str) -> Option<(TemplateId, Epoch)> {
        let (template, part) =
            key.strip_prefix(prefix)?.strip_prefix("gate:1:{")?.split_once(":0}:")?;
        let epoch =
            ["users:", "inflight:", "queued:"].into_iter().find_map(|of| part.strip_prefix(of))?;
        Some((template.parse().ok()?, Epoch(epoch.parse().ok()?)))
    }

    /// The type of the note that apis refuse from memory: the only key of a gate that ends by itself.
    pub(crate) const NOTE: &str = "string";

    /// All keys of a gate in one epoch, each with its type.
    pub(crate) fn of_gate(&self, epoch: Epoch) -> [(String, &'static str); 6] {
        [
            (self.meta(), "hash"),
            (self.users(epoch), "hash"),
            (self.inflight(epoch), "zset"),
            (self.queued(epoch), "zset"),
            (self.outbox(), "stream"),
            (self.refusing(), Self::NOTE),
        ]
    }

    /// What the gate knows about the template.
    pub(crate) fn meta(&self) -> String {
        format!("{}:meta", self.base)
    }

    /// Users' entries of one epoch.
    pub(crate) fn users(&self, epoch: Epoch) -> String {
        format!("{}:users:{epoch}", self.base)
    }

    /// Admissions in flight by time, of one epoch.
    pub(crate) fn inflight(&self, epoch: Epoch) -> String {
        format!("{}:inflight:{epoch}", self.base)
    }

    /// Queued admissions by time, of one epoch.
    pub(crate) fn queued(&self, epoch: Epoch) -> String {
        format!("{}:queued:{epoch}", self.base)
    }

    /// Exists as long as an api may refuse claims from memory by an earlier look.
    pub(crate) fn refusing(&self) -> String {
        format!("{}:refusing", self.base)
    }

    /// The stream of queued claims on their way to the topic. It outlives every epoch.
    pub(crate) fn outbox(&self) -> String {
        format!("{}:outbox", self.base)
    }
}
