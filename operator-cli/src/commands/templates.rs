//! Templates, as calls of the api.

use std::{path::Path, time::Duration};

use serde_json::{Map, Value, json};

use crate::{
    api::{Api, call::Call},
    arguments::{
        Accepted, Claims, Confirmed, CopyOf, Coupons, Movements, Page, Period, Queue, Settings,
        TemplateCommand, TemplateFilter, TemplateId,
    },
    commands::{
        AsText, ask,
        confirm::confirmed,
        discount::discounted,
        export,
        hold::{held, ledger},
        money, paged,
        sale::{readiness, report},
        stock::ANY_VERSION,
        template_file,
    },
    failure::Failure,
    output::Output,
    text,
    topics::watch::{self, Watch},
};

/// Columns of a list of templates.
const TEMPLATES: [&str; 6] = ["id", "state", "version", "claim_starts_at", "claim_ends_at", "name"];

/// Columns of a list with the stock.
const WITH_STOCK: [&str; 9] = [
    "id",
    "state",
    "stock.total",
    "stock.landed",
    "stock.left",
    "stock.used",
    "claim_starts_at",
    "claim_ends_at",
    "name",
];

/// Columns of a template's movements.
const MOVEMENTS: [&str; 9] =
    ["seq", "created_at", "kind", "delta", "delta_stock", "total", "stock", "actor", "reason"];

/// Columns of its claims.
const CLAIMS: [&str; 6] = ["id", "state", "user_id", "quantity", "claimed_at", "valid_until"];

/// Columns of its coupons.
const COUPONS: [&str; 8] =
    ["id", "status", "user_id", "number", "claim_id", "claimed_at", "valid_until", "order_ref"];

/// Columns of its users who are refused.
const BANS: [&str; 3] = ["user_id", "lapses", "lapses_allowed"];

/// Advice if it is unknown whether a template was created.
const IS_IT_LISTED: &str = "Look with `coupon template list` before you create it again.";

/// Runs one command.
///
/// # Errors
/// See [`Failure`].
pub(crate) async fn run(
    command: TemplateCommand,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let (call, as_text): (Call, AsText) = match command {
        TemplateCommand::Create { example: true, .. } => {
            return output.script(template_file::EXAMPLE);
        }
        TemplateCommand::Create { file, discount, queue, hold, .. } => {
            let file = file.unwrap_or_else(|| "-".into());
            let body = discounted(template_file::new(&file)?, &discount)?;
            let body = held(queued(body, queue), hold);
            let call = Call::post("/v1/templates").with_body(body);
            return by_file(&call.once(IS_IT_LISTED), &file, settings, output).await;
        }
        TemplateCommand::Preview { file, discount, queue, hold } => {
            let body = discounted(template_file::new(&file)?, &discount)?;
            let call = Call::post("/v1/templates/preview");
            let call = call.with_body(held(queued(body, queue), hold));
            return by_file(&call, &file, settings, output).await;
        }
        TemplateCommand::Readiness(it) => return readiness::run(it.id, settings, output).await,
        TemplateCommand::List(filter) => list(filter),
        TemplateCommand::Edit { id, file, if_version, discount, queue, hold } => {
            let read = file.as_deref().map(template_file::read).transpose()?;
            let body = discounted(read.unwrap_or_else(|| Map::new().into()), &discount)?;
            let mut body = held(queued(body, queue), hold);
            if let Some(version) = if_version {
                body["version"] = version.into();
            }
            let call = Call::patch(path(&id)).with_body(body);
            if let Some(file) = file {
                return by_file(&call, &file, settings, output).await;
            }
            (call, money::object)
        }
        TemplateCommand::End { asked, accepted } => {
            let call = of_accepted(post(&asked.id, "end"), accepted);
            (meant(call, &asked, "end it for good", settings).await?, money::object)
        }
        TemplateCommand::Delete(asked) => {
            let call = Call::delete(path(&asked.id));
            (meant(call, &asked, "delete it", settings).await?, text::object)
        }
        TemplateCommand::EndDrain(asked) => {
            let call = post(&asked.id, "drain-end");
            let what = "give up the claims that its lost gate had queued";
            (meant(call, &asked, what, settings).await?, text::object)
        }
        TemplateCommand::Export(arguments) => {
            return export::export(&arguments, &Api::new(settings)?).await;
        }
        TemplateCommand::Watch { id, at_most, every } => {
            let at_most = at_most.map(Duration::from_secs);
            let every = Duration::from_secs(every);
            let watch = Watch { template: id.id, at_most, every };
            return watch::watch(&Api::new(settings)?, &watch, output).await;
        }
        TemplateCommand::Clone(copy) => clone(copy),
        TemplateCommand::Movements(rows) => movements(rows),
        TemplateCommand::Ledger(rows) => ledger(rows),
        TemplateCommand::Claims(rows) => claims(rows),
        TemplateCommand::Coupons(rows) => coupons(rows),
        TemplateCommand::Bans { id, page } => bans(&id, page),
        TemplateCommand::Show(it) => (Call::get(path(&it)), money::object),
        TemplateCommand::ValidityMove(it) => (validity_move(&it), text::object),
        TemplateCommand::Publish(it) => (post(&it, "publish"), money::object),
        TemplateCommand::Pause { id, accepted } => {
            (of_accepted(post(&id, "pause"), accepted), money::object)
        }
        TemplateCommand::Resume(it) => (post(&it, "resume"), money::object),
        TemplateCommand::RebuildGate(it) => (post(&it, "gate-rebuild"), text::object),
        TemplateCommand::Report { id, span } => {
            (report::of_span(format!("{}/report", path(&id)), span), report::report)
        }
        TemplateCommand::Timeseries { id, span, step } => {
            let call = report::of_span(format!("{}/timeseries", path(&id)), span);
            (with(call, "step", step.as_ref()), report::timeseries)
        }
    };
    ask(&call, as_text, settings, output).await
}

fn validity_move(it: &TemplateId) -> Call {
    Call::get(format!("{}/validity-move", path(it)))
}

/// Sends a call whose body was read from a file. A refusal of one of its fields names the line.
async fn by_file(
    call: &Call,
    file: &Path,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let asked = ask(call, money::object, settings, output).await;
    asked.map_err(|failure| failure.in_file(|field| template_file::place(file, field)))
}

/// Sets the fields that flags name in a template's body.
fn queued(mut body: Value, queue: Queue) -> Value {
    let fields = [("claim_mode", queue.claim_mode), ("accept_after", queue.accept_after)];
    for (field, word) in fields {
        if let Some(word) = word {
            body[field] = word.into();
        }
    }
    body
}

/// Says what becomes of queued claims, if a flag does.
fn of_accepted(call: Call, accepted: Accepted) -> Call {
    match accepted.accepted {
        Some(word) => call.with_body(json!({ "accepted": word })),
        None => call,
    }
}

fn clone(copy: CopyOf) -> (Call, AsText) {
    let CopyOf { id, name, total_stock, claim_starts_at, claim_ends_at } = copy;
    let mut body = Map::new();
    let texts =
        [("name", name), ("claim_starts_at", claim_starts_at), ("claim_ends_at", claim_ends_at)];
    for (field, text) in texts {
        body.extend(text.map(|text| (field.to_owned(), Value::from(text))));
    }
    body.extend(total_stock.map(|total| ("total_stock".to_owned(), Value::from(total))));
    (post(&id, "clone").with_body(Value::Object(body)).once(IS_IT_LISTED), money::object)
}

fn movements(rows: Movements) -> (Call, AsText) {
    let call = paged(&format!("{}/movements", path(&rows.id)), rows.page);
    (within(call, &rows.period), |answer| text::page(answer, &MOVEMENTS))
}

fn claims(rows: Claims) -> (Call, AsText) {
    let call = paged(&format!("{}/claims", path(&rows.id)), rows.page);
    let call = with(with(call, "state", rows.state.as_ref()), "user_id", rows.user.as_ref());
    (within(call, &rows.period), |answer| text::page(answer, &CLAIMS))
}

fn coupons(rows: Coupons) -> (Call, AsText) {
    let call = paged(&format!("{}/coupons", path(&rows.id)), rows.page);
    let call = with(with(call, "status", rows.status.as_ref()), "user_id", rows.user.as_ref());
    (within(call, &rows.period), |answer| text::page(answer, &COUPONS))
}

fn bans(template: &TemplateId, page: Page) -> (Call, AsText) {
    (paged(&format!("{}/bans", path(template)), page), |answer| text::page(answer, &BANS))
}

fn list(filter: TemplateFilter) -> (Call, AsText) {
    let TemplateFilter { state, q, merchant, stock, sort, page } = filter;
    let call = paged("/v1/templates", page);
    let call = with(with(call, "state", state.as_ref()), "q", q.as_ref());
    let call = with(with(call, "merchant_id", merchant.as_ref()), "sort", sort.as_ref());
    if stock {
        let call = call.with_query("include", "stock");
        return (call, |answer| text::page(answer, &WITH_STOCK));
    }
    (call, |answer| text::page(answer, &TEMPLATES))
}

/// Asks before a command that cannot be undone, unless `--yes` was given.
async fn meant(
    call: Call,
    asked: &Confirmed,
    what: &str,
    settings: &Settings,
) -> Result<Call, Failure> {
    if asked.yes {
        return Ok(call.if_match(ANY_VERSION));
    }
    confirmed(call, asked.id.id, what, &Api::new(settings)?).await
}

fn post(template: &TemplateId, what: &str) -> Call {
    Call::post(format!("{}/{what}", path(template)))
}

fn path(template: &TemplateId) -> String {
    format!("/v1/templates/{}", template.id)
}

/// Adds a parameter, if there is a value for it.
pub(crate) fn with(call: Call, name: &'static str, value: Option<&impl ToString>) -> Call {
    match value {
        Some(value) => call.with_query(name, value.to_string()),
        None => call,
    }
}

pub(crate) fn within(call: Call, period: &Period) -> Call {
    with(with(call, "from", period.from.as_ref()), "to", period.to.as_ref())
}
