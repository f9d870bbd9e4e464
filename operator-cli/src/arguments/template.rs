//! Arguments about templates and their stock.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Page, id};

#[derive(Subcommand)]
pub(crate) enum TemplateCommand {
    /// Creates a draft from a TOML or JSON file.
    Create {
        /// The file, with fields as in docs/api.md; `-` for standard input.
        #[arg(required_unless_present = "example")]
        file: Option<PathBuf>,
        /// Prints an example file.
        #[arg(long, conflicts_with = "file")]
        example: bool,
    },
    /// Lists templates, the newest first.
    List(Page),
    /// Shows a template.
    Show(TemplateId),
    /// Changes fields of a template. Its state decides which ones can be changed.
    Edit {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        /// A file with the fields to change, TOML or JSON as in docs/api.md; `-` for standard input.
        file: PathBuf,
        /// The version that you have seen (`template show`); another version is not changed. Or set `version` in the
        /// file.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<i64>,
    },
    /// Shows how far issued coupons have followed a change of the validity.
    ValidityMove(TemplateId),
    /// Opens a draft for claims, within its window.
    Publish(TemplateId),
    /// Refuses claims until `resume`.
    Pause(TemplateId),
    /// Ends a pause.
    Resume(TemplateId),
    /// Ends a template permanently.
    End(TemplateId),
    /// Shows how a template sells, until it is sold out or over, or until Ctrl-C.
    Watch {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        /// Ends after this many seconds at the latest.
        #[arg(long = "for", value_name = "SECONDS")]
        at_most: Option<u64>,
        /// Seconds between polls.
        #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
    },
    /// Loads the gate again from MySQL, under a new epoch. Safe while users claim.
    RebuildGate(TemplateId),
}

#[derive(Subcommand)]
pub(crate) enum StockCommand {
    /// Shows the stock: total = gate stock + in flight + landed.
    Show(TemplateId),
    /// Adds coupons to the stock.
    Add(Movement),
    /// Removes coupons from the stock that nobody has claimed.
    Cut(Movement),
}

#[derive(Args)]
pub(crate) struct TemplateId {
    /// The template's id.
    #[arg(value_parser = id)]
    pub(crate) id: i64,
}

/// A movement of stock.
#[derive(Args)]
pub(crate) struct Movement {
    /// The template's id.
    #[arg(value_parser = id)]
    pub(crate) id: i64,
    /// Number of coupons.
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) count: i64,
    /// The reason, for people who read the movements.
    #[arg(long)]
    pub(crate) reason: String,
    /// Name of the movement: sent again under the same name, it counts once. Default: a random name.
    #[arg(long)]
    pub(crate) request_id: Option<String>,
}
