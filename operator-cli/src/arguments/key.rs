//! Arguments about merchants, keys, and the record of what was done with them.

use clap::{Args, Subcommand};

use super::{Page, id};

#[derive(Subcommand)]
pub(crate) enum MerchantCommand {
    /// Creates a merchant.
    Create {
        /// Name of the merchant.
        name: String,
    },
    /// Lists merchants, the newest first.
    List(Page),
}

#[derive(Subcommand)]
pub(crate) enum KeyCommand {
    /// Creates a key and prints it. It is shown only once.
    Create {
        /// Name of the person or system that uses the key.
        name: String,
        /// What the key may do: read, operate, admin (each includes those before it), redeem, for a checkout, or
        /// emergency, to see and pause every merchant's templates.
        #[arg(long = "scope", required = true, value_delimiter = ',', value_parser = ["read", "operate", "admin", "redeem", "emergency"])]
        scopes: Vec<String>,
        /// When the key expires, e.g. `2027-01-01T00:00:00Z`. Default: never.
        #[arg(long)]
        expires_at: Option<String>,
        #[command(flatten)]
        of: OfMerchant,
    },
    /// Lists keys, without their secrets.
    List(OfMerchant),
    /// Replaces a key by a new one. The old key is still accepted for a while.
    Rotate {
        /// The key to replace.
        #[arg(value_parser = id)]
        id: i64,
        /// How long the old key is still accepted, in seconds. Default: one day.
        #[arg(long)]
        overlap_seconds: Option<u32>,
    },
    /// Revokes a key.
    Revoke {
        /// The key to revoke.
        #[arg(value_parser = id)]
        id: i64,
    },
}

/// The merchant, if it is not that of the caller's own key.
#[derive(Args)]
pub(crate) struct OfMerchant {
    /// Acts for another merchant. Only for the platform's own key.
    #[arg(long = "merchant", value_name = "ID", value_parser = id)]
    pub(crate) merchant: Option<i64>,
}

#[derive(Args)]
pub(crate) struct AuditArguments {
    /// Shows only what was done to this object, e.g. `templates/123`.
    #[arg(long)]
    pub(crate) target: Option<String>,
    /// Shows only what this key did: its id, or `platform` for the platform's own key.
    #[arg(long, value_name = "ID")]
    pub(crate) key: Option<String>,
    /// Shows only what was done then or later, e.g. `2026-11-27T08:00:00Z`.
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Shows only what was done before this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    #[command(flatten)]
    pub(crate) of: OfMerchant,
    #[command(flatten)]
    pub(crate) page: Page,
}
