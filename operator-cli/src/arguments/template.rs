//! Templates and their stock.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{Page, id};

#[derive(Subcommand)]
pub(crate) enum TemplateCommand {
    /// Creates a draft from a TOML or JSON file.
    Create {
        /// The file, fields as in docs/api.md; `-`: standard input.
        #[arg(required_unless_present = "example")]
        file: Option<PathBuf>,
        /// Prints a file to begin with.
        #[arg(long, conflicts_with = "file")]
        example: bool,
    },
    /// Lists templates, the newest first.
    List(Page),
    /// Shows a template.
    Show(TemplateId),
    /// Changes fields of a template; which ones can be changed, its state decides.
    Edit {
        /// The template.
        #[command(flatten)]
        id: TemplateId,
        /// The fields that shall be different, TOML or JSON as in docs/api.md; `-`: standard input.
        file: PathBuf,
        /// The version that you have seen (`template show`): another one is not changed. Or `version` in the file.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<i64>,
    },
    /// Shows how far issued coupons have followed a change of the validity.
    ValidityMove(TemplateId),
    /// Opens a draft for claims, within its window.
    Publish(TemplateId),
    /// Refuses claims until `resume`.
    Pause(TemplateId),
    /// Takes a pause back.
    Resume(TemplateId),
    /// Ends a template for good.
    End(TemplateId),
    /// Shows how it sells, until it is sold out or over, or Ctrl-C.
    Watch {
        /// The template.
        #[command(flatten)]
        id: TemplateId,
        /// Ends after so many seconds at the latest.
        #[arg(long = "for", value_name = "SECONDS")]
        at_most: Option<u64>,
        /// Seconds between two looks.
        #[arg(long, default_value_t = 1, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        every: u64,
    },
    /// Loads the gate anew from MySQL, under a new epoch; safe while users claim.
    RebuildGate(TemplateId),
}

#[derive(Subcommand)]
pub(crate) enum StockCommand {
    /// Shows the account: total = gate stock + in flight + landed.
    Show(TemplateId),
    /// Adds coupons.
    Add(Movement),
    /// Takes coupons away that nobody has claimed.
    Cut(Movement),
}

#[derive(Args)]
pub(crate) struct TemplateId {
    /// The template.
    #[arg(value_parser = id)]
    pub(crate) id: i64,
}

/// A movement of stock.
#[derive(Args)]
pub(crate) struct Movement {
    /// The template.
    #[arg(value_parser = id)]
    pub(crate) id: i64,
    /// How many coupons.
    #[arg(value_parser = clap::value_parser!(i64).range(1..))]
    pub(crate) count: i64,
    /// Why, for whoever reads the movements later.
    #[arg(long)]
    pub(crate) reason: String,
    /// Names the movement: sent again under the same name it counts once. Made up if absent.
    #[arg(long)]
    pub(crate) request_id: Option<String>,
}
