//! Turns each command into one call of the api.

pub(crate) mod audit;
pub(crate) mod claim;
pub(crate) mod confirm;
pub(crate) mod desk;
pub(crate) mod discount;
pub(crate) mod export;
pub(crate) mod finding;
pub(crate) mod health;
pub(crate) mod hold;
pub(crate) mod keys;
pub(crate) mod money;
pub(crate) mod redemption;
pub(crate) mod sale;
pub(crate) mod stock;
pub(crate) mod template_file;
pub(crate) mod templates;

use std::time::Duration;

use clap::CommandFactory as _;
use serde_json::Value;

use crate::{
    api::{Api, call::Call},
    arguments::{Arguments, Command, DeadLetterCommand, Page, Settings, UserCommand},
    commands::sale::{live, rehearse},
    failure::Failure,
    output::Output,
    text,
    topics::{
        dead_letter::{self, Kafka},
        replay,
    },
};

/// Columns of a user's coupons.
const COUPONS: [&str; 7] =
    ["id", "status", "template_id", "claim_id", "claimed_at", "valid_until", "order_ref"];

/// Columns of what a text names.
const FOUND: [&str; 5] = ["kind", "id", "name", "user_id", "path"];

/// Formats an answer as text.
pub(crate) type AsText = fn(&Value) -> String;

/// Runs one command.
///
/// # Errors
/// See [`Failure`].
pub(crate) async fn run(
    command: Command,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let (call, as_text): (Call, AsText) = match command {
        Command::Template(command) => return templates::run(command, settings, output).await,
        Command::Stock(command) => (stock::call(command, settings).await?, text::object),
        Command::Claim(command) => claim::call(&command),
        Command::User(command) => user(command),
        Command::Coupons(command) => desk::coupons(command),
        Command::Find { text: named } => {
            (Call::get("/v1/search").with_query("q", named), |found| text::page(found, &FOUND))
        }
        Command::Grants(arguments) => return desk::grants(arguments, settings, output).await,
        Command::Jobs(command) => return desk::jobs(command, settings, output).await,
        Command::LatePayments(command) => hold::late_payments(command),
        Command::Redeem(arguments) => (redemption::redeem(arguments)?, money::object),
        Command::Redemption(command) => (redemption::redemption(&command), money::object),
        Command::Rollback(arguments) => (redemption::roll_back(arguments), money::object),
        Command::Validate(arguments) => (redemption::validate(arguments)?, money::object),
        Command::Lock(arguments) => (redemption::lock(arguments), text::object),
        Command::Use(arguments) => (redemption::single("use", &arguments), text::object),
        Command::Unuse(arguments) => (redemption::single("unuse", &arguments), text::object),
        Command::Finding(command) => finding::call(command),
        Command::Expiry => (Call::get("/v1/expiry"), text::object),
        Command::Health => return health::run(settings, output).await,
        Command::Live { at_most } => {
            let at_most = at_most.map(Duration::from_secs);
            return live::live(at_most, settings, output).await;
        }
        Command::Rehearse(arguments) => {
            return rehearse::rehearse(&arguments, settings, output).await;
        }
        Command::Whoami => (Call::get("/v1/whoami"), text::object),
        Command::DeadLetters(command) => return dead_letters(&command, settings, output).await,
        Command::Merchant(command) => keys::merchant(command),
        Command::Key(command) => keys::key(command),
        Command::Audit(arguments) => audit::audit(arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "coupon", &mut script);
            return output.script(&String::from_utf8_lossy(&script));
        }
    };
    ask(&call, as_text, settings, output).await
}

pub(crate) async fn ask(
    call: &Call,
    as_text: AsText,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    tell(&Api::new(settings)?, call, as_text, output).await
}

/// Sends a call, and prints its answer; before it, without `--json`, what a person must know of it: warnings, and rows of a
/// list that cannot be read.
pub(crate) async fn tell(
    api: &Api,
    call: &Call,
    as_text: AsText,
    output: &Output,
) -> Result<(), Failure> {
    let answer = api.send(call).await?;
    let warnings = answer["warnings"].as_array().into_iter().flatten();
    for warning in warnings.filter_map(Value::as_str) {
        output.note(&format!("coupon: warning: {warning}"));
    }
    if let Some(unreadable) = text::unreadable(&call.path, &answer) {
        output.note(&format!("coupon: warning: {unreadable}"));
    }
    output.answer(&answer, as_text)
}

fn user(command: UserCommand) -> (Call, AsText) {
    match command {
        UserCommand::Show { user, page } => {
            let path = format!("/v1/users/{}/coupons", user.user_id);
            (paged(&path, page), |answer| text::page(answer, &COUPONS))
        }
        UserCommand::RebuildView(user) => {
            (Call::post(format!("/v1/users/{}/view-rebuild", user.user_id)), text::object)
        }
        UserCommand::Lapses(asked) => hold::lapses(&asked),
        UserCommand::Lift(asked) => hold::lift(&asked),
    }
}

async fn dead_letters(
    command: &DeadLetterCommand,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let kafka = Kafka::new(settings)?;
    match command {
        DeadLetterCommand::List => {
            output.answer(&dead_letter::list(&kafka).await?, dead_letter::list_text)
        }
        DeadLetterCommand::Replay { dry_run: true } => {
            output.answer(&replay::plan(&kafka).await?, replay::as_text)
        }
        // Needs the api, which records it.
        DeadLetterCommand::Replay { dry_run: false } => {
            replay::replay(&kafka, &Api::new(settings)?, output).await
        }
    }
}

pub(crate) fn paged(path: &str, page: Page) -> Call {
    let call = Call::get(path).with_query("limit", page.limit);
    page.cursor.into_iter().fold(call, |call, cursor| call.with_query("cursor", cursor))
}
