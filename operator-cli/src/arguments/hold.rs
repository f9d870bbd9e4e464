//! Arguments about holds: terms of a template, payments and cancellations of claims, bans, and the ledger.

use clap::{Args, Subcommand};

use super::{OneClaim, Page, UserId, desk::Why, id, template::TemplateId};

/// How a template holds its coupons. Only a draft's can be changed.
#[derive(Args)]
pub(crate) struct Hold {
    /// Milliseconds within which a claim must be confirmed; 0: claims are confirmed at once.
    #[arg(long, value_name = "MILLISECONDS", value_parser = clap::value_parser!(i64).range(0..))]
    pub(crate) hold_ms: Option<i64>,
    /// Lapsed coupons after which a user is refused, three of a claim of three; 0: never.
    #[arg(long, value_name = "N")]
    pub(crate) lapses_allowed: Option<u32>,
    /// Whether what lapses or is cancelled can be claimed again, or lowers the total.
    #[arg(long, value_parser = ["resell", "retire"])]
    pub(crate) returned_stock: Option<String>,
}

#[derive(Args)]
pub(crate) struct Confirm {
    #[command(flatten)]
    pub(crate) claim: OneClaim,
    /// Coupons that were paid for. Default: all of the claim.
    #[arg(value_name = "COUPON", value_parser = id)]
    pub(crate) coupons: Vec<i64>,
    /// The shop's name of the payment. The same again is the same answer.
    #[arg(long, value_name = "REF")]
    pub(crate) payment_ref: String,
}

#[derive(Args)]
pub(crate) struct Cancel {
    #[command(flatten)]
    pub(crate) claim: OneClaim,
    /// Coupons to cancel. Default: all of the claim.
    #[arg(value_name = "COUPON", value_parser = id)]
    pub(crate) coupons: Vec<i64>,
    #[command(flatten)]
    pub(crate) why: Why,
}

/// A user's lapses of one template.
#[derive(Args)]
pub(crate) struct Lapses {
    #[command(flatten)]
    pub(crate) user: UserId,
    /// The template.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) template: i64,
}

#[derive(Args)]
pub(crate) struct Lift {
    #[command(flatten)]
    pub(crate) lapses: Lapses,
    #[command(flatten)]
    pub(crate) why: Why,
}

#[derive(Subcommand)]
pub(crate) enum LatePaymentsCommand {
    /// Lists payments of held coupons that were refused for good and are not refunded yet.
    List {
        /// Shows only those for coupons of this template.
        #[arg(long, value_name = "ID", value_parser = id)]
        template: Option<i64>,
        /// Shows those that were refunded instead.
        #[arg(long)]
        refunded: bool,
        #[command(flatten)]
        page: Page,
    },
    /// Marks one as refunded, once the shop has given the money back.
    Refunded {
        /// The claim that it was for.
        #[arg(value_name = "CLAIM", value_parser = id)]
        claim: i64,
        /// The shop's name of the payment.
        payment_ref: String,
        #[command(flatten)]
        why: Why,
    },
}

#[derive(Args)]
pub(crate) struct Ledger {
    #[command(flatten)]
    pub(crate) id: TemplateId,
    /// Shows only lines of this kind.
    #[arg(long, value_parser = ["claim", "total", "return", "lift"])]
    pub(crate) kind: Option<String>,
    #[command(flatten)]
    pub(crate) page: Page,
}
