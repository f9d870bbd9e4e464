//! Turns each command into one call of the api.

pub(crate) mod keys;
pub(crate) mod record;
pub(crate) mod template_file;

use std::time::Duration;

use clap::CommandFactory as _;
use serde_json::{Value, json};

use crate::{
    api::{
        Api,
        call::{Call, new_name},
    },
    arguments::{
        Arguments, ClaimCommand, Command, DeadLetterCommand, Movement, Page, Settings,
        StockCommand, TemplateCommand, TemplateId, UserCommand,
    },
    failure::Failure,
    output::Output,
    text,
    topics::{
        dead_letter::{self, Kafka},
        replay,
        watch::{self, Watch},
    },
};

/// Columns of a list of templates.
const TEMPLATES: [&str; 6] = ["id", "state", "version", "claim_starts_at", "claim_ends_at", "name"];

/// Columns of a user's coupons.
const COUPONS: [&str; 7] =
    ["id", "status", "template_id", "claim_id", "claimed_at", "valid_until", "order_ref"];

/// Advice if it is unknown whether a template was created.
const IS_IT_LISTED: &str = "Look with `coupon template list` before you create it again.";

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
        Command::Template(command) => return template(command, settings, output).await,
        Command::Stock(command) => (stock(command), text::object),
        Command::Claim(ClaimCommand::Show { id, template }) => {
            let call = Call::get(format!("/v1/claim-states/{id}"));
            let call = template.iter().fold(call, |call, id| call.with_query("template", id));
            (call, text::object)
        }
        Command::User(command) => user(command),
        Command::Expiry => (Call::get("/v1/expiry"), text::object),
        Command::DeadLetters(command) => return dead_letters(&command, settings, output).await,
        Command::Merchant(command) => keys::merchant(command),
        Command::Key(command) => keys::key(command),
        Command::Audit(arguments) => record::audit(arguments),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "coupon", &mut script);
            return output.script(&String::from_utf8_lossy(&script));
        }
    };
    ask(&call, as_text, settings, output).await
}

async fn ask(
    call: &Call,
    as_text: AsText,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let answer = Api::new(settings)?.send(call).await?;
    output.answer(&answer, as_text)
}

async fn template(
    command: TemplateCommand,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let of = |it: TemplateId, verb: &str| {
        (Call::post(format!("/v1/templates/{}/{verb}", it.id)), text::object as AsText)
    };
    let (call, as_text) = match command {
        TemplateCommand::Create { example: true, .. } => {
            return output.script(template_file::EXAMPLE);
        }
        TemplateCommand::Create { file, .. } => {
            let body = template_file::read(&file.unwrap_or_else(|| "-".into()))?;
            let call = Call::post("/v1/templates").with_body(body).once(IS_IT_LISTED);
            (call, text::object as AsText)
        }
        TemplateCommand::List(page) => {
            let list: AsText = |answer| text::page(answer, &TEMPLATES);
            (paged("/v1/templates", page), list)
        }
        TemplateCommand::Show(it) => {
            (Call::get(format!("/v1/templates/{}", it.id)), text::object as AsText)
        }
        TemplateCommand::Edit { id, file, if_version } => {
            let mut body = template_file::read(&file)?;
            if let Some(version) = if_version {
                body["version"] = version.into();
            }
            let call = Call::patch(format!("/v1/templates/{}", id.id)).with_body(body);
            (call, text::object as AsText)
        }
        TemplateCommand::ValidityMove(it) => {
            (Call::get(format!("/v1/templates/{}/validity-move", it.id)), text::object as AsText)
        }
        TemplateCommand::Publish(it) => of(it, "publish"),
        TemplateCommand::Pause(it) => of(it, "pause"),
        TemplateCommand::Resume(it) => of(it, "resume"),
        TemplateCommand::End(it) => of(it, "end"),
        TemplateCommand::RebuildGate(it) => of(it, "gate-rebuild"),
        TemplateCommand::Watch { id, at_most, every } => {
            let (at_most, every) = (at_most.map(Duration::from_secs), Duration::from_secs(every));
            let watch = Watch { template: id.id, at_most, every };
            return watch::watch(&Api::new(settings)?, &watch, output).await;
        }
    };
    ask(&call, as_text, settings, output).await
}

fn stock(command: StockCommand) -> Call {
    let (movement, sign) = match command {
        StockCommand::Show(it) => return Call::get(format!("/v1/templates/{}/stock", it.id)),
        StockCommand::Add(movement) => (movement, 1),
        StockCommand::Cut(movement) => (movement, -1),
    };
    let Movement { id, count, reason, request_id } = movement;
    // A unique name: the same command typed again is another movement.
    let request_id = request_id.unwrap_or_else(new_name);
    let body = json!({ "delta": sign * count, "reason": reason });
    Call::post(format!("/v1/templates/{id}/stock-movements")).with_body(body).named(request_id)
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
