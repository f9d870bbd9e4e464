//! The command line of `coupon`, and its environment variables.

mod desk;
mod discount;
mod export;
mod finding;
mod hold;
mod key;
mod redemption;
mod rehearse;
mod template;

use std::{path::PathBuf, sync::LazyLock};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

pub(crate) use desk::{CouponsCommand, GrantsArguments, JobsCommand};
pub(crate) use discount::Discount;
pub(crate) use export::Export;
pub(crate) use finding::FindingCommand;
pub(crate) use hold::{Cancel, Confirm, Hold, Lapses, LatePaymentsCommand, Ledger, Lift};
pub(crate) use key::{AuditArguments, KeyCommand, MerchantCommand, OfMerchant};
pub(crate) use redemption::{
    LockArguments, RedeemArguments, RedemptionCommand, RollbackArguments, SingleUse, Spend,
    ValidateArguments,
};
pub(crate) use rehearse::RehearseArguments;
pub(crate) use template::{
    Accepted, Claims, Confirmed, CopyOf, Coupons, Movement, Movements, Period, Queue, Span,
    StockCommand, TemplateCommand, TemplateFilter, TemplateId,
};

/// Footer of every help text.
const EXIT_CODES: &str = "Exit codes: 0 done, 1 refused by the platform, 2 not a command that can be \
                          sent, 3 nobody answered or the outcome is unknown, 4 the platform is not \
                          well (`health`), a sale is not ready (`template readiness`), or a rehearsal \
                          broke a promise.";

/// Default time limit for one answer, in seconds. The api answers within 15.
const ANSWER_SECONDS: u64 = 20;

/// The commit that this program was built from, as in every process.
const COMMIT: &str = match option_env!("BUILD_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    _ => "unknown",
};

fn version() -> &'static str {
    static VERSION: LazyLock<String> =
        LazyLock::new(|| format!("{} ({COMMIT})", env!("CARGO_PKG_VERSION")));
    &VERSION
}

/// Operates a coupon platform from a terminal.
#[derive(Parser)]
#[command(name = "coupon", version = version(), about, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: Settings,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Connection and output.
#[derive(Args)]
#[command(next_help_heading = "Settings")]
pub(crate) struct Settings {
    /// Address of the api, e.g. `https://coupons.example`.
    #[arg(long, env = "API_URL", global = true)]
    pub(crate) api_url: Option<String>,

    /// The operator's key. Prefer the environment, where `ps` does not show it.
    #[arg(long, env = "OPERATOR_KEY", hide_env_values = true, global = true)]
    pub(crate) operator_key: Option<String>,

    /// A file that contains the operator's key, instead of `OPERATOR_KEY`.
    #[arg(long, env = "OPERATOR_KEY_FILE", value_name = "FILE", global = true)]
    pub(crate) operator_key_file: Option<PathBuf>,

    /// Kafka brokers, `host:port`, separated by commas; with TLS `ssl://host:port,host:port?ssl-ca=FILE`. Only for dead
    /// letters.
    #[arg(long, env = "KAFKA_BROKERS", global = true)]
    pub(crate) kafka_brokers: Option<String>,

    /// Prefix of every topic's name. Only for dead letters.
    #[arg(long, env = "TOPIC_PREFIX", default_value = "coupon", global = true)]
    pub(crate) topic_prefix: String,

    /// Prints JSON: one value, usually the api's answer; `watch` and `live` print one per line.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Seconds to wait for one answer.
    #[arg(long, default_value_t = ANSWER_SECONDS, global = true, value_parser = clap::value_parser!(u64).range(1..=300))]
    pub(crate) timeout_seconds: u64,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Templates, which are campaigns: create, list, show, edit, clone, publish, pause, resume, end, watch, report, export.
    #[command(subcommand, visible_alias = "templates")]
    Template(TemplateCommand),
    /// The stock of a template: show, add, cut.
    #[command(subcommand)]
    Stock(StockCommand),
    /// A claim: its state, its story, its payment and its cancellation.
    #[command(subcommand)]
    Claim(ClaimCommand),
    /// Users: their coupons of your templates, their lists, and bans.
    #[command(subcommand)]
    User(UserCommand),
    /// Single coupons: show, find, revoke, extend, replace.
    #[command(subcommand)]
    Coupons(CouponsCommand),
    /// Finds what a text names: a user, a coupon, a claim, an order, a template by its id or a part of its name.
    Find {
        /// An id, an order, or a part of a template's name.
        text: String,
    },
    /// Grants coupons to the users in a file, as a job, and waits for its end.
    Grants(GrantsArguments),
    /// Jobs of grants: list, show, rows, wait, cancel.
    #[command(subcommand)]
    Jobs(JobsCommand),
    /// Payments of held coupons that came too late: list, and mark as refunded.
    #[command(subcommand)]
    LatePayments(LatePaymentsCommand),
    /// Redeems coupons of one user for an order, all or none. For keys of the scope `redeem`, as the next six.
    Redeem(RedeemArguments),
    /// What an order has redeemed.
    #[command(subcommand)]
    Redemption(RedemptionCommand),
    /// Gives an order's coupons back, all or some of them.
    Rollback(RollbackArguments),
    /// Shows whether a coupon fits an order, and what it takes off. Changes nothing.
    Validate(ValidateArguments),
    /// Keeps a coupon for an order while its shopper pays.
    Lock(LockArguments),
    /// Uses one user's coupon for an order, without an amount: for shops that compute discounts themselves.
    Use(SingleUse),
    /// Gives one user's coupon back when its order is cancelled.
    Unuse(SingleUse),
    /// What the reconciler found wrong: list, show, accept.
    #[command(subcommand, visible_alias = "findings")]
    Finding(FindingCommand),
    /// Reports what is overdue, how late expiry was, and what ends in the next day. For the platform's own key.
    Expiry,
    /// Shows what works for users, and why the rest does not; then all processes, servers, lags, the leader, clocks and
    /// gates. Exit code 4 if the platform is not well, 3 if nobody says how it is. For the platform's own key and keys of
    /// the scope `emergency`.
    Health,
    /// Follows all sales that your key sees, a line a second: what is left, in flight, held and confirmed, claims a second, and
    /// the first sentence whenever it changes. Until you stop it.
    Live {
        /// Ends after this many seconds.
        #[arg(long = "for", value_name = "SECONDS")]
        at_most: Option<u64>,
    },
    /// Rehearses a sale: made-up users claim from a template of its own, at a rate, and the figures say what to expect of the
    /// real one. The template is called a rehearsal, is open to everybody while it runs, and ends afterwards. Exit code 4 if a
    /// promise broke or users were not served.
    Rehearse(RehearseArguments),
    /// Shows whose key you use, and what it may do.
    Whoami,
    /// Messages that could not be processed (needs `KAFKA_BROKERS`).
    #[command(subcommand)]
    DeadLetters(DeadLetterCommand),
    /// Merchants, which own templates and keys. For the platform's own key.
    #[command(subcommand)]
    Merchant(MerchantCommand),
    /// Operators' keys: create, list, rotate, revoke. For keys of the scope `admin`.
    #[command(subcommand)]
    Key(KeyCommand),
    /// Shows what operators did, newest first. `--json` also shows each object before and after.
    Audit(AuditArguments),
    /// Prints a completion script for a shell: `coupon completions bash > …`.
    Completions {
        /// The shell to print it for.
        shell: Shell,
    },
}

#[derive(Subcommand)]
pub(crate) enum ClaimCommand {
    /// Shows whether a claim of one of your templates has landed, is being processed, was rejected or was given up.
    Show(OneClaim),
    /// Tells a claim's way: when it was received, admitted, relayed, landed, published, visible, and redeemed or expired,
    /// and which hop took longer than is usual.
    Story(OneClaim),
    /// Confirms held coupons that were paid for: all of the claim, or some. For keys of the scope `redeem`.
    Confirm(Confirm),
    /// Takes coupons of a claim back that are held, or confirmed and not used. Their stock comes back. For keys of the
    /// scope `redeem`.
    Cancel(Cancel),
}

#[derive(Args)]
pub(crate) struct OneClaim {
    /// The claim's id.
    #[arg(value_parser = id)]
    pub(crate) id: i64,
    /// The claim's template. Without it a claim that is being processed is not found.
    #[arg(long, value_name = "ID", value_parser = id)]
    pub(crate) template: Option<i64>,
}

#[derive(Subcommand)]
pub(crate) enum UserCommand {
    /// Lists a user's coupons of your templates, newest first.
    Show {
        #[command(flatten)]
        user: UserId,
        #[command(flatten)]
        page: Page,
    },
    /// Rebuilds a user's list from MySQL.
    RebuildView(UserId),
    /// Shows how many holds of a template a user let lapse.
    Lapses(Lapses),
    /// Lets a user claim again who let too many holds lapse.
    Lift(Lift),
}

#[derive(Subcommand)]
pub(crate) enum DeadLetterCommand {
    /// Lists the dead letters that are kept, oldest first.
    List,
    /// Puts each letter that was not replayed yet back where it came from, and records that you did.
    Replay {
        /// Only shows what would be done.
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Args)]
pub(crate) struct UserId {
    /// The user's id, which is the `sub` of the token.
    #[arg(value_parser = id)]
    pub(crate) user_id: i64,
}

/// A page of a list.
#[derive(Args)]
pub(crate) struct Page {
    /// Number of entries, 1 to 100.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) limit: u32,
    /// Where to continue: the `next_cursor` of the page before.
    #[arg(long)]
    pub(crate) cursor: Option<String>,
}

/// Parses an id: a decimal number from 0 to 2^63 - 1.
pub(crate) fn id(text: &str) -> Result<i64, String> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| format!("an id is a decimal number from 0 to {}", i64::MAX))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_commands_are_well_formed_and_no_help_shows_the_key() {
        let command = Arguments::command();
        command.clone().debug_assert();
        let key = command.get_arguments().find(|one| one.get_id() == "operator_key").unwrap();
        assert!(key.is_hide_env_values_set());
    }

    #[test]
    fn ids_are_plain_decimal_numbers() {
        assert_eq!(id("42"), Ok(42));
        for text in ["", "-1", "+1", "1.0", "0x1", "9223372036854775808"] {
            assert!(id(text).is_err(), "{text:?}");
        }
    }
}
