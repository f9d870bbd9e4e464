//! Arguments of a rehearsal.

use std::path::PathBuf;

use clap::Args;

/// Most users of a rehearsal: each has a task and a token, some kilobytes together.
const USERS_MAX: i64 = 200_000;

/// Most users in a second. One machine sends hardly more, and a mistyped digit should not stop a production.
const RATE_MAX: i64 = 10_000;

#[derive(Args)]
pub(crate) struct RehearseArguments {
    /// A template's file, TOML or JSON, as `template create` takes it. Its name, window and validity are replaced: the
    /// rehearsal is open as long as it takes, and its coupons are valid for an hour.
    #[arg(long = "template", value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Made-up users; each claims one coupon.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=USERS_MAX))]
    pub(crate) users: u32,
    /// Users who come in each second.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=RATE_MAX))]
    pub(crate) rate: u32,
    /// The shop's secret, which signs the users' tokens (HS256). Prefer the environment, where `ps` does not show it.
    #[arg(long, env = "JWT_SECRET", hide_env_values = true, value_name = "SECRET")]
    pub(crate) jwt_secret: Option<String>,
    /// A command that signs them instead, run by `sh`: it reads users' ids, one a line, and prints a token for each, one a
    /// line, in their order.
    #[arg(long, value_name = "COMMAND")]
    pub(crate) token_command: Option<String>,
    /// Holds the next rehearsal this many seconds after the end of each, until you stop it.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) every: Option<u64>,
}
