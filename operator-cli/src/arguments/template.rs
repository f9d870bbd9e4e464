//! Arguments about templates and their stock.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{
    Discount, Page,
    export::Export,
    hold::{Hold, Ledger},
    id,
};

#[derive(Subcommand)]
pub(crate) enum TemplateCommand {
    /// Creates a draft from a TOML or JSON file, or from what `show --json` prints.
    Create {
        /// The file, with the fields of `POST /v1/templates` (`/docs` of an api); `-` for standard input.
        #[arg(required_unless_present = "example")]
        file: Option<PathBuf>,
        /// Prints an example file.
        #[arg(long, conflicts_with = "file")]
        example: bool,
        #[command(flatten)]
        discount: Discount,
        #[command(flatten)]
        queue: Queue,
        #[command(flatten)]
        hold: Hold,
    },
    /// Lists templates, the newest first, or as `--sort` says.
    List(TemplateFilter),
    /// Shows a template.
    Show(TemplateId),
    /// Changes fields of a template. Its state decides which ones can be changed.
    Edit {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        /// A file with the fields to change, TOML or JSON (docs/api.md says which, in which state); `-` for standard input.
        /// Not needed if a flag below changes one.
        #[arg(required_unless_present_any = ["percent_off", "amount_off", "at_most", "from", "currency", "claim_mode", "accept_after", "hold_ms", "lapses_allowed", "returned_stock"])]
        file: Option<PathBuf>,
        /// The version that you have seen (`template show`); another version is not changed. Or set `version` in the
        /// file.
        #[arg(long, value_name = "VERSION")]
        if_version: Option<i64>,
        #[command(flatten)]
        discount: Discount,
        #[command(flatten)]
        queue: Queue,
        #[command(flatten)]
        hold: Hold,
    },
    /// Shows how far issued coupons have followed a change of the validity.
    ValidityMove(TemplateId),
    /// Opens a draft for claims, within its window.
    Publish(TemplateId),
    /// Refuses claims until `resume`. Claims that were accepted before land.
    Pause {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        #[command(flatten)]
        accepted: Accepted,
    },
    /// Ends a pause.
    Resume(TemplateId),
    /// Ends a template permanently. Asks for its name. Claims that were accepted before land.
    End {
        #[command(flatten)]
        asked: Confirmed,
        #[command(flatten)]
        accepted: Accepted,
    },
    /// Makes a draft with the terms of a template.
    Clone(CopyOf),
    /// Deletes a draft. Asks for its name.
    Delete(Confirmed),
    /// Lists the movements of the stock, the first one first.
    Movements(Movements),
    /// Lists everything that changed the stock, the newest first: claims, changes of the total, returns, lifts.
    Ledger(Ledger),
    /// Lists the claims, by user.
    Claims(Claims),
    /// Lists the coupons, by user.
    Coupons(Coupons),
    /// Shows whether the next sale can begin, as a checklist of the template and of the platform. Exit code 4 if something is
    /// not ready, or not known.
    Readiness(TemplateId),
    /// Shows what shoppers would see of a template that is not created yet. Changes nothing.
    Preview {
        /// The file, as for `create`; `-` for standard input.
        file: PathBuf,
        #[command(flatten)]
        discount: Discount,
        #[command(flatten)]
        queue: Queue,
        #[command(flatten)]
        hold: Hold,
    },
    /// Lists users who are refused because they let too many holds lapse, by user.
    Bans {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        #[command(flatten)]
        page: Page,
    },
    /// Writes all coupons, claims or movements to a file, as CSV or as one JSON object in each line.
    Export(Export),
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
    /// Reports a sale: requests, peak, refusals, use, money.
    Report {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        #[command(flatten)]
        span: Span,
    },
    /// Shows what claims were answered, step by step.
    Timeseries {
        /// The template's id.
        #[command(flatten)]
        id: TemplateId,
        #[command(flatten)]
        span: Span,
        /// Seconds of a step, for at most 1,500 steps. Default: the smallest usual one with at most 300.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
        step: Option<u32>,
    },
    /// Loads the gate again from MySQL, under a new epoch. Safe while users claim.
    RebuildGate(TemplateId),
    /// Loads a lost gate without waiting for its queue. What is still queued is lost, and its users are told so. Asks for
    /// the template's name. For keys of the scopes `admin` and `emergency`.
    EndDrain(Confirmed),
}

#[derive(Subcommand)]
pub(crate) enum StockCommand {
    /// Shows the stock: total = gate stock + in flight + landed.
    Show(TemplateId),
    /// Adds coupons to the stock.
    Add(Movement),
    /// Removes coupons from the stock that nobody has claimed. Asks for the template's name.
    Cut {
        #[command(flatten)]
        movement: Movement,
        /// Does not ask.
        #[arg(long)]
        yes: bool,
    },
}

/// Which templates a list shows.
#[derive(Args)]
pub(crate) struct TemplateFilter {
    /// Shows only those in this state.
    #[arg(long, value_parser = ["draft", "published", "paused", "ended"])]
    pub(crate) state: Option<String>,
    /// Shows only those whose name contains this.
    #[arg(long)]
    pub(crate) q: Option<String>,
    /// Shows those of another merchant, or of `all`. For the platform's own key and keys of
    /// the scope `emergency`.
    #[arg(long = "merchant", value_name = "ID")]
    pub(crate) merchant: Option<String>,
    /// Shows how many coupons there are, have landed, are left, and are used.
    #[arg(long)]
    pub(crate) stock: bool,
    /// Order: the newest first, or by the claim window, the earliest first.
    #[arg(long, value_parser = ["newest", "starts_at", "ends_at"])]
    pub(crate) sort: Option<String>,
    #[command(flatten)]
    pub(crate) page: Page,
}

/// How a template's claims are answered.
#[derive(Args)]
pub(crate) struct Queue {
    /// Claims are answered once they are durable (`direct`), at once and land behind a queue (`queued`), or by the queue
    /// only while the database does not keep up (`spill`). It may change during a sale.
    #[arg(long, value_parser = ["direct", "queued", "spill"])]
    pub(crate) claim_mode: Option<String>,
    /// What has a claim before a queue answers for it: the gate's Redis, its replicas too, or the topic, which no loss of
    /// Redis harms.
    #[arg(long, value_parser = ["gate", "replica", "topic"])]
    pub(crate) accept_after: Option<String>,
}

/// What becomes of queued claims that were accepted before.
#[derive(Args)]
pub(crate) struct Accepted {
    /// Whether claims that were accepted and have not landed yet still land. Default: land.
    #[arg(long, value_parser = ["land", "reject"])]
    pub(crate) accepted: Option<String>,
}

/// A template, for a command that cannot be taken back.
#[derive(Args)]
pub(crate) struct Confirmed {
    #[command(flatten)]
    pub(crate) id: TemplateId,
    /// Does not ask.
    #[arg(long)]
    pub(crate) yes: bool,
}

/// A copy of a template.
#[derive(Args)]
pub(crate) struct CopyOf {
    #[command(flatten)]
    pub(crate) id: TemplateId,
    /// Name of the copy. Default: the template's, and "(copy)".
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Number of coupons to give out. Default: the template's total.
    #[arg(long, value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) total_stock: Option<i64>,
    /// When claims open, e.g. `2027-01-01T08:00:00Z`. Default: as the template's.
    #[arg(long, value_name = "TIME")]
    pub(crate) claim_starts_at: Option<String>,
    /// When claims close. Default: as the template's.
    #[arg(long, value_name = "TIME")]
    pub(crate) claim_ends_at: Option<String>,
}

#[derive(Args)]
pub(crate) struct Movements {
    #[command(flatten)]
    pub(crate) id: TemplateId,
    #[command(flatten)]
    pub(crate) period: Period,
    #[command(flatten)]
    pub(crate) page: Page,
}

#[derive(Args)]
pub(crate) struct Claims {
    #[command(flatten)]
    pub(crate) id: TemplateId,
    /// Shows only those that landed, were rejected behind a queue, or were given up.
    #[arg(long, value_parser = ["landed", "rejected", "given_up"])]
    pub(crate) state: Option<String>,
    /// Shows only those of this user.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) user: Option<i64>,
    #[command(flatten)]
    pub(crate) period: Period,
    #[command(flatten)]
    pub(crate) page: Page,
}

#[derive(Args)]
pub(crate) struct Coupons {
    #[command(flatten)]
    pub(crate) id: TemplateId,
    /// Shows only those of this status, e.g. `used`.
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Shows only those of this user.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) user: Option<i64>,
    #[command(flatten)]
    pub(crate) period: Period,
    #[command(flatten)]
    pub(crate) page: Page,
}

/// A period, for lists.
#[derive(Args)]
pub(crate) struct Period {
    /// Shows only those made then or later, e.g. `2027-01-01T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Shows only those made before.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
}

#[derive(Args)]
pub(crate) struct TemplateId {
    /// The template's id.
    #[arg(value_parser = id)]
    pub(crate) id: i64,
}

/// A span of the statistics of claims, which are kept for 30 days.
#[derive(Args)]
pub(crate) struct Span {
    /// Its begin, e.g. `2026-11-27T08:00:00Z`. Default: an hour before the claim window.
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Its end. Default: now, or an hour after the claim window.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
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
