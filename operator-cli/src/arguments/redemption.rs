//! Arguments of a checkout: redeeming, rolling back, validating, locking.

use clap::{Args, Subcommand};

use super::id;

#[derive(Subcommand)]
pub(crate) enum RedemptionCommand {
    /// Shows what an order has redeemed, and what of it stands.
    Show {
        /// The shop's name of the order.
        order_ref: String,
    },
}

/// What an order costs.
#[derive(Args)]
pub(crate) struct Spend {
    /// The order before any discount, in the currency's units with its decimals: 50.00 are fifty euros.
    #[arg(long)]
    pub(crate) amount: String,
    /// The currency: three capital letters.
    #[arg(long, default_value = "EUR")]
    pub(crate) currency: String,
}

/// The coupons' user.
#[derive(Args)]
pub(crate) struct OfUser {
    /// The coupons' user. Default: whoever has them.
    #[arg(long = "user", value_name = "ID", value_parser = id)]
    pub(crate) user: Option<i64>,
}

#[derive(Args)]
pub(crate) struct RedeemArguments {
    /// The shop's name of the order. The same order again is the same redemption.
    pub(crate) order_ref: String,
    /// The coupons, one or several.
    #[arg(required = true, value_parser = id)]
    pub(crate) coupons: Vec<i64>,
    #[command(flatten)]
    pub(crate) spend: Spend,
    #[command(flatten)]
    pub(crate) of: OfUser,
}

#[derive(Args)]
pub(crate) struct RollbackArguments {
    /// The shop's name of the order.
    pub(crate) order_ref: String,
    /// Some of its coupons. Default: all, and the order is cancelled.
    #[arg(value_parser = id)]
    pub(crate) coupons: Vec<i64>,
    /// The reason, for people who read the record.
    #[arg(long)]
    pub(crate) reason: String,
}

#[derive(Args)]
pub(crate) struct ValidateArguments {
    /// The coupon.
    #[arg(value_parser = id)]
    pub(crate) coupon: i64,
    /// The shop's name of the order, if it has one yet.
    #[arg(long)]
    pub(crate) order_ref: Option<String>,
    #[command(flatten)]
    pub(crate) spend: Spend,
    #[command(flatten)]
    pub(crate) of: OfUser,
}

/// One user's coupon, and an order without an amount.
#[derive(Args)]
pub(crate) struct SingleUse {
    /// The coupon.
    #[arg(value_parser = id)]
    pub(crate) coupon: i64,
    /// The shop's name of the order. The same order again is the same answer.
    pub(crate) order_ref: String,
    /// The coupon's user.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) user: i64,
}

#[derive(Args)]
pub(crate) struct LockArguments {
    /// The coupon.
    #[arg(value_parser = id)]
    pub(crate) coupon: i64,
    /// The shop's name of the order.
    pub(crate) order_ref: String,
    /// How long, in seconds: at most half an hour.
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(i64).range(1..=1800))]
    pub(crate) seconds: i64,
    #[command(flatten)]
    pub(crate) of: OfUser,
}
