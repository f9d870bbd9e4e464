//! Merchants, keys, and the record of what was done with them.

use clap::{Args, Subcommand};

use super::{Page, id};

#[derive(Subcommand)]
pub(crate) enum MerchantCommand {
    /// Creates a merchant.
    Create {
        /// What people call it.
        name: String,
    },
    /// Lists merchants, the newest first.
    List(Page),
}

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Makes a key, and prints it: it is told once.
    Create {
        /// Who or what uses it.
        name: String,
        /// What it may do: read, operate, admin, each of which includes those before it; redeem, for a checkout.
        #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = ["read", "operate", "admin", "redeem"])]
        scopes: Vec<String>,
        /// When it ends, e.g. `2027-01-01T00:00:00Z`; absent: not by itself.
        #[arg(long)]
        expires_at: Option<String>,
        #[command(flatten)]
        of: OfMerchant,
    },
    /// Lists keys, without their secrets.
    List(OfMerchant),
    /// Makes a key in place of another, which is accepted for a while still.
    Rotate {
        /// The key that is replaced.
        #[arg(value_parser = id)]
        id: i64,
        /// For how long, in seconds; absent: a day.
        #[arg(long)]
        overlap_seconds: Option<u32>,
    },
    /// Withdraws a key.
    Revoke {
        /// The key.
        #[arg(value_parser = id)]
        id: i64,
    },
}

/// Of whom, where it is not the merchant of the caller's own key.
#[derive(Args)]
pub(crate) struct OfMerchant {
    /// Of another merchant; for the platform's own key.
    #[arg(long = "merchant", value_name = "ID", value_parser = id)]
    pub(crate) merchant: Option<i64>,
}

#[derive(Args)]
pub(crate) struct AuditArguments {
    /// Only what was done to this, e.g. `templates/123`.
    #[arg(long)]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfMerchant,
    #[command(flatten)]
    pub(crate) page: Page,
}
