//! What a rebuild is of, and what it is for.

use coupon::TemplateId;

/// The aim of a rebuild.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// An open gate. Nothing is to be done if another process has opened it meanwhile.
    Open,
    /// A gate of a new epoch, whatever is there.
    Replace,
    /// No gate, and a queue that is closed for good: the template is over.
    Close,
}

/// A template's gate that is to be rebuilt, and to what end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Goal {
    pub(crate) template: TemplateId,
    pub(crate) aim: Aim,
}
