//! Arguments about exports.

use std::path::PathBuf;

use clap::Args;

use super::{
    id,
    template::{Period, TemplateId},
};

#[derive(Args)]
pub(crate) struct Export {
    /// The template's id.
    #[command(flatten)]
    pub(crate) id: TemplateId,
    /// What to export.
    #[arg(long, default_value = "coupons", value_parser = ["coupons", "claims", "movements"])]
    pub(crate) list: String,
    /// Format of the file: a table with a line of names, or one JSON object in each line.
    #[arg(long, default_value = "csv", value_parser = ["csv", "ndjson"])]
    pub(crate) format: String,
    /// The file to write; without it, standard output. What was there is replaced once all has arrived.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Exports only coupons of this status, e.g. `used`.
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Exports only claims that landed, were rejected behind a queue, or were given up.
    #[arg(long, value_parser = ["landed", "rejected", "given_up"])]
    pub(crate) state: Option<String>,
    /// Exports only those of this user.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) user: Option<i64>,
    #[command(flatten)]
    pub(crate) period: Period,
}
