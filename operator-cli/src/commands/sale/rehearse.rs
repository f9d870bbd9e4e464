//! `rehearse`: a sale with made-up users on a running platform.
//!
//! The template is made from a file, marked by its name, and ended whatever happens. Its window follows the platform's clock,
//! which its readiness tells: the clock of this machine may be wrong.

use std::{path::Path, time::Duration};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use coupon::{TemplateId, UserId, limit};
use rehearsal::{Course, Rehearsal, SaleFigures, Sold, TokenSigner};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    api::{Api, call::Call},
    arguments::{RehearseArguments, Settings},
    commands::{sale::stop::Stop, template_file},
    failure::{Failure, Kind, chain},
    output::Output,
};

/// Begins the name of each template that is a rehearsal.
const MARK: &str = "Rehearsal: ";

/// How long its coupons are valid: nobody needs them afterwards.
const VALID_FOR_MS: i64 = 60 * 60 * 1_000;

/// The window opens this long before the platform's present time: clocks of servers differ a little.
const BEFORE: TimeDelta = TimeDelta::seconds(5);

/// The window stays open for this long beyond the time in which the users come: those who are not served wait.
const BEYOND: TimeDelta = TimeDelta::minutes(10);

/// How long tokens are valid beyond the window.
const TOKEN_SPARE: TimeDelta = TimeDelta::hours(1);

/// Made-up users have the ids from here on: those of a shop's users, which are counted or random by its own rule, are hardly
/// so large. A rehearsal begins anywhere below `USERS_FROM + USERS_SPREAD`, so the limit of an earlier one does not meet it.
const USERS_FROM: i64 = 9_000_000_000_000_000_000;
const USERS_SPREAD: i64 = 100_000_000_000_000_000;

/// How long what is in flight at the end may take to land.
const REST_MAX: Duration = Duration::from_secs(60);

/// Interval between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Advice if nobody signs tokens.
const SIGN: &str =
    "Set JWT_SECRET, or give `--token-command`: a command that reads ids and prints tokens.";

/// Advice if it is unknown whether the template was made.
const IS_IT_LISTED: &str =
    "`coupon template list` shows whether its draft is there: `coupon template delete ID`.";

/// A template that was made for a rehearsal.
struct Stage<'a> {
    api: &'a Api,
    id: TemplateId,
    name: String,
    holds: bool,
}

/// Rehearses once, or again and again until a signal comes.
///
/// # Errors
/// The template is refused, nobody signs tokens, the api cannot be reached, or a promise broke ([`Kind::NotWell`]).
pub(crate) async fn rehearse(
    arguments: &RehearseArguments,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let api = Api::new(settings)?;
    let signer = signer(arguments)?;
    let file = &arguments.file;
    let template = marked(template_file::new(file)?);
    let template =
        template.map_err(|wrong| wrong.in_file(|field| template_file::place(file, field)))?;
    // From here on, because the file may be standard input: whoever is asked for it may stop the program at once.
    let mut stop = Stop::listen()?;
    let Some(every) = arguments.every else {
        let figures = once(arguments, &template, &signer, &api, &mut stop, output).await?;
        shown(&figures, output)?;
        return verdict(&figures);
    };
    loop {
        // An api that restarts is back for the next one.
        match once(arguments, &template, &signer, &api, &mut stop, output).await {
            Ok(figures) => shown(&figures, output)?,
            Err(failure) if failure.kind == Kind::Usage || stop.has_come() => return Err(failure),
            Err(failure) => output.fail(&failure),
        }
        tokio::select! {
            () = sleep(Duration::from_secs(every)) => {}
            () = stop.wait() => return Ok(()),
        }
    }
}

fn signer(arguments: &RehearseArguments) -> Result<TokenSigner, Failure> {
    if let Some(command) = &arguments.token_command {
        return Ok(TokenSigner::Command(command.clone()));
    }
    let secret = arguments.jwt_secret.clone().filter(|secret| !secret.is_empty());
    let secret =
        secret.ok_or_else(|| Failure::usage("Nobody signs the users' tokens.").advise(SIGN))?;
    Ok(TokenSigner::Secret(secret))
}

async fn once(
    arguments: &RehearseArguments,
    template: &Value,
    signer: &TokenSigner,
    api: &Api,
    stop: &mut Stop,
    output: &Output,
) -> Result<SaleFigures, Failure> {
    let RehearseArguments { users, rate, .. } = *arguments;
    let stage = Stage::create(template, &arguments.file, api).await?;
    let told =
        format!("coupon: {:?}, template {}: {users} users, {rate} a second.", stage.name, stage.id);
    output.note(&told);
    let running = stage.run(arguments, signer);
    let ran = tokio::select! {
        ran = running => ran,
        () = stop.wait() => Err(Failure::new(Kind::Refused, "The rehearsal was stopped.")),
    };
    let ended = stage.end().await;
    let (course, sold) = match (ran, ended) {
        (Ok(ran), Ok(())) => ran,
        (Err(failure), Ok(())) | (Ok(_), Err(failure)) => return Err(failure),
        (Err(failure), Err(open)) => return Err(both(failure, &open)),
    };
    Ok(SaleFigures::of(&stage.name, rate, users.into(), &course, sold))
}

/// Says why a rehearsal failed, and that its template is open all the same.
fn both(failure: Failure, open: &Failure) -> Failure {
    let advice = [&open.advice, &failure.advice].into_iter().flatten();
    let advice: Vec<&str> = advice.map(String::as_str).collect();
    let advice = advice.join(" ");
    let sentence =
        format!("{} The rehearsal's template is not ended: {}", failure.sentence, open.sentence);
    Failure { sentence, advice: Some(advice), ..failure }
}

/// Says how to end a template that could not be ended.
fn open(id: TemplateId, refused: Failure) -> Failure {
    refused.advise(format!(
        "End it: `coupon template end {id}`, or, if it was never published, `coupon template delete {id}`."
    ))
}

fn shown(figures: &SaleFigures, output: &Output) -> Result<(), Failure> {
    output.answer(&json!(figures), |_| figures.to_string())
}

fn verdict(figures: &SaleFigures) -> Result<(), Failure> {
    if figures.is_kept() {
        return Ok(());
    }
    let broken = figures.oversold > 0 || figures.lost.unwrap_or(0) > 0;
    let unserved = || figures.refusal().unwrap_or_else(|| "Not everybody was served.".to_owned());
    let sentence = if broken { "A promise was broken.".to_owned() } else { unserved() };
    Err(Failure::new(Kind::NotWell, sentence))
}

impl<'a> Stage<'a> {
    /// Makes a draft of the file's template.
    async fn create(template: &Value, file: &Path, api: &'a Api) -> Result<Self, Failure> {
        let name = template["name"].as_str().unwrap_or_default().to_owned();
        let holds = template["hold_ms"].as_i64().unwrap_or(0) > 0;
        let call = Call::post("/v1/templates").with_body(template.clone());
        let made = api.send(&call.once(IS_IT_LISTED)).await;
        let made =
            made.map_err(|refused| refused.in_file(|field| template_file::place(file, field)))?;
        Ok(Self { api, id: id_of(&made)?, name, holds })
    }

    /// Opens the window, publishes, and lets the users come.
    async fn run(
        &self,
        arguments: &RehearseArguments,
        signer: &TokenSigner,
    ) -> Result<(Course, Sold), Failure> {
        let path = self.path();
        let until = self.open(arguments).await?;
        let first = USERS_FROM + fastrand::i64(0..USERS_SPREAD);
        let users: Vec<UserId> = (first..).take(arguments.users as usize).map(UserId).collect();
        let tokens = signer.sign(&users, until + TOKEN_SPARE).await;
        let tokens =
            tokens.map_err(|error| Failure::usage(format!("{}.", chain(&error))).advise(SIGN))?;
        self.api.send(&Call::post(format!("{path}/publish"))).await?;
        let api_url = self.api.base_url().to_owned();
        let rehearsal = Rehearsal { api_url, template: self.id, tokens, rate: arguments.rate };
        let course = rehearsal.run().await.map_err(|error| Failure::usage(chain(&error)))?;
        Ok((course, self.at_rest().await?))
    }

    /// Moves the draft's window to the platform's present, and returns when it closes.
    async fn open(&self, arguments: &RehearseArguments) -> Result<DateTime<Utc>, Failure> {
        let path = self.path();
        let readiness = self.api.send(&Call::get(format!("{path}/readiness"))).await?;
        let now = readiness["now"].as_str().and_then(|now| now.parse::<DateTime<Utc>>().ok());
        let now = now.ok_or_else(|| strange("no time"))?;
        let coming = TimeDelta::seconds(i64::from(arguments.users / arguments.rate) + 1);
        let until = now + coming + BEYOND;
        let at = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Millis, true);
        let edit = json!({
            "version": 1, "claim_starts_at": at(now - BEFORE), "claim_ends_at": at(until),
        });
        self.api.send(&Call::patch(path).with_body(edit)).await?;
        Ok(until)
    }

    /// Waits until nothing is in flight, and returns what MySQL has.
    async fn at_rest(&self) -> Result<Sold, Failure> {
        let call = Call::get(format!("{}/stock", self.path()));
        let began = Instant::now();
        loop {
            let stock = self.api.send(&call).await?;
            let number = |name: &str| stock[name].as_i64();
            // A queue that is long, or a gate that is lost: what has landed so far is said.
            if number("in_flight") == Some(0) || began.elapsed() >= REST_MAX {
                let sold = number("total").zip(number("landed"));
                let (total, landed) = sold.ok_or_else(|| strange("no stock"))?;
                return Ok(Sold { total, landed, holds: self.holds });
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Ends the template; one that was never published is deleted. A publication that was under way when the rehearsal was
    /// stopped may come between the two: then it is ended after all.
    async fn end(&self) -> Result<(), Failure> {
        let path = self.path();
        let end = Call::post(format!("{path}/end")).with_body(json!({ "confirm": self.name }));
        let Err(refused) = self.api.send(&end).await else { return Ok(()) };
        if !is_of_state(&refused) {
            return Err(open(self.id, refused));
        }
        let Err(refused) = self.api.send(&Call::delete(path)).await else { return Ok(()) };
        if !is_of_state(&refused) {
            return Err(open(self.id, refused));
        }
        let ended = self.api.send(&end).await;
        ended.map(drop).map_err(|refused| open(self.id, refused))
    }

    fn path(&self) -> String {
        format!("/v1/templates/{}", self.id)
    }
}

/// Whether a call was refused because the template is in another state than it is for.
fn is_of_state(refused: &Failure) -> bool {
    matches!(refused.code.as_deref(), Some("INVALID_TRANSITION" | "CHANGED_MEANWHILE"))
}

/// Marks a template as a rehearsal. Its window is replaced once it exists, its validity here.
///
/// # Errors
/// It has no name, or nothing to sell: all would be refused, and the figures would tell of nothing.
fn marked(mut template: Value) -> Result<Value, Failure> {
    let no_name = || Failure::usage("The file has no `name`.");
    let name = template["name"].as_str().ok_or_else(no_name)?;
    let name: String = format!("{MARK}{name}").chars().take(limit::NAME_CHARS_MAX).collect();
    if template["total_stock"].as_i64() == Some(0) {
        let nothing = Failure::usage("A sale of 0 coupons cannot be rehearsed.")
            .advise("Give it a `total_stock` of at least 1.");
        return Err(Failure { field: Some("total_stock".into()), ..nothing });
    }
    let fields = template.as_object_mut().ok_or_else(no_name)?;
    for former in ["valid_from", "valid_until"] {
        fields.remove(former);
    }
    fields.insert("name".to_owned(), json!(name));
    fields.insert("valid_for_ms".to_owned(), json!(VALID_FOR_MS));
    Ok(template)
}

fn id_of(template: &Value) -> Result<TemplateId, Failure> {
    let id = template["id"].as_str().and_then(|id| id.parse().ok());
    id.ok_or_else(|| strange("no id"))
}

/// The answer is another one than the call has.
fn strange(what: &str) -> Failure {
    Failure::new(Kind::Unknown, format!("The api's answer has {what}."))
        .advise("`coupon template list` shows whether the rehearsal is still open.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rehearsal_is_named_so_and_its_coupons_are_soon_over() {
        let file = json!({
            "name": "x".repeat(200), "valid_from": "a", "valid_until": "b", "total_stock": 5, "hold_ms": 1,
        });
        let marked = marked(file).unwrap();
        let name = marked["name"].as_str().unwrap();
        assert!(name.starts_with("Rehearsal: x") && name.chars().count() == 200, "{name}");
        let left =
            json!({ "name": name, "valid_for_ms": 3_600_000, "total_stock": 5, "hold_ms": 1 });
        assert_eq!(marked, left);
        assert!(super::marked(json!({ "total_stock": 5 })).is_err());
    }

    #[test]
    fn a_sale_of_nothing_is_not_rehearsed() {
        let nothing = marked(json!({ "name": "Sale", "total_stock": 0 })).unwrap_err();
        assert_eq!((nothing.kind, nothing.field.as_deref()), (Kind::Usage, Some("total_stock")));
        assert!(nothing.sentence.contains("0 coupons"), "{nothing}");
    }

    #[test]
    fn a_failure_says_too_that_the_template_is_open_and_how_to_end_it() {
        let away = || Failure::new(Kind::Unavailable, "Nobody answers.").advise("Does it run?");
        let open = open(TemplateId(7), away());
        let advice = open.advice.clone().unwrap();
        assert!(advice.contains("`coupon template end 7`"), "{advice}");
        let stopped = both(Failure::new(Kind::Refused, "It was stopped."), &open);
        assert_eq!((stopped.kind, stopped.advice.as_ref()), (Kind::Refused, Some(&advice)));
        let said = "It was stopped. The rehearsal's template is not ended: Nobody answers.";
        assert_eq!(stopped.sentence, said);
        let died = both(away(), &open).advice.unwrap();
        assert!(died.starts_with(&advice) && died.ends_with(" Does it run?"), "{died}");
    }

    #[test]
    fn a_template_in_another_state_is_ended_in_another_way() {
        let refused = |code: &str| Failure {
            code: Some(code.to_owned()),
            ..Failure::new(Kind::Refused, "No.")
        };
        assert!(is_of_state(&refused("INVALID_TRANSITION")));
        assert!(is_of_state(&refused("CHANGED_MEANWHILE")));
        assert!(!is_of_state(&refused("SCOPE_LACKING")));
        assert!(!is_of_state(&Failure::new(Kind::Unavailable, "Nobody answers.")));
    }
}
