//! Arguments about what the reconciler found.

use clap::{Args, Subcommand};

use super::{Page, desk::Why, id};

#[derive(Subcommand)]
pub(crate) enum FindingCommand {
    /// Lists findings, the newest first.
    List {
        /// Only findings of this kind, e.g. `account` or `number_leaked`.
        #[arg(long)]
        kind: Option<String>,
        /// Only findings in this state.
        #[arg(long, value_parser = ["open", "repairing", "repaired", "accepted", "overtaken"])]
        state: Option<String>,
        /// Only findings about this template.
        #[arg(long, value_name = "ID", value_parser = id)]
        template: Option<i64>,
        /// Shows those of another merchant, or of `all`. For the platform's own key.
        #[arg(long, value_name = "ID")]
        merchant: Option<String>,
        #[command(flatten)]
        page: Page,
    },
    /// Shows a finding.
    Show(FindingId),
    /// Leaves an open finding as it is. It repairs nothing.
    Accept {
        #[command(flatten)]
        finding: FindingId,
        #[command(flatten)]
        why: Why,
    },
}

#[derive(Args)]
pub(crate) struct FindingId {
    /// The finding's id.
    #[arg(value_name = "ID", value_parser = id)]
    pub(crate) finding_id: i64,
}
