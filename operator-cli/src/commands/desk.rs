//! The support desk: coupons, grants and jobs, as calls of the api. `grants` and `jobs wait` poll a job to its end, with a
//! bar on a terminal.

use std::{
    fs,
    io::{self, IsTerminal as _, Read as _, Write as _},
    path::Path,
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    api::{
        Api,
        call::{Call, new_name},
    },
    arguments::{CouponsCommand, GrantsArguments, JobsCommand, Settings},
    commands::{AsText, money, paged, tell, templates::with},
    failure::{Failure, Kind},
    output::Output,
    text,
};

/// Columns of coupons.
const COUPONS: [&str; 7] =
    ["id", "status", "user_id", "template_id", "claimed_at", "valid_until", "order_ref"];

/// Columns of a job's rows.
const ROWS: [&str; 5] = ["row", "user_id", "outcome", "claim_id", "given"];

/// Columns of jobs.
const JOBS: [&str; 7] = ["id", "state", "template_id", "rows", "created_at", "ended_at", "reason"];

/// Polling interval of a job.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Width of the bar in characters.
const BAR: usize = 32;

/// States in which a job has ended.
const OVER: [&str; 2] = ["finished", "cancelled"];

pub(crate) fn coupons(command: CouponsCommand) -> (Call, AsText) {
    let change = |id: i64, verb: &str, body: Value| {
        let call = Call::post(format!("/v1/coupons/{id}/{verb}")).with_body(body);
        (call, text::object as AsText)
    };
    match command {
        CouponsCommand::Show(it) => {
            (Call::get(format!("/v1/coupons/{}", it.coupon_id)), money::object)
        }
        CouponsCommand::Find { order_ref, user, template, status, page } => {
            let filters = [
                ("order_ref", order_ref),
                ("user_id", user.map(|id| id.to_string())),
                ("template_id", template.map(|id| id.to_string())),
                ("status", status),
            ];
            let call =
                filters.into_iter().fold(paged("/v1/coupons", page), |call, (name, value)| {
                    value.into_iter().fold(call, |call, value| call.with_query(name, value))
                });
            (call, |answer| text::page(answer, &COUPONS))
        }
        CouponsCommand::Revoke { coupon, why } => {
            change(coupon.coupon_id, "revoke", json!({ "reason": why.reason }))
        }
        CouponsCommand::Extend { coupon, valid_until, why } => {
            let body = json!({ "valid_until": valid_until, "reason": why.reason });
            change(coupon.coupon_id, "extend", body)
        }
        CouponsCommand::Replace { coupon, why } => {
            change(coupon.coupon_id, "replace", json!({ "reason": why.reason }))
        }
    }
}

pub(crate) async fn grants(
    arguments: GrantsArguments,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let GrantsArguments {
        template,
        file,
        quantity,
        why,
        add_stock,
        confirmed,
        request_id,
        no_wait,
    } = arguments;
    let file = read(&file)?;
    let users: Vec<&str> = file.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut body = json!({
        "user_ids": users, "quantity": quantity, "reason": why.reason, "from_stock": !add_stock,
    });
    // An api of an earlier version does not know the field.
    if confirmed {
        body["confirmed"] = json!(true);
    }
    let call = Call::post(format!("/v1/templates/{template}/grants")).with_body(body);
    let api = Api::new(settings)?;
    // A unique name: the same command typed again is another job.
    let name = request_id.unwrap_or_else(new_name);
    let job = api.send(&call.named(name.clone())).await?;
    if no_wait {
        return output.answer(&job, text::object);
    }
    let id = text::cell(job.get("id"));
    // A user who ends this command before the job needs both.
    output.note(&format!("Job {id} has begun, under `--request-id {name}`."));
    wait(&api, &id, output).await.map_err(|failure| unseen(failure, &id, &name))
}

/// Says what to do if the end of a job that this command has begun was not seen. The job goes on, and the same command
/// again would begin another.
fn unseen(failure: Failure, id: &str, name: &str) -> Failure {
    Failure { kind: Kind::Unknown, ..failure }.advise(format!(
        "Job {id} has begun and goes on: `coupon jobs wait {id}` shows its end. Give this command again only with \
         `--request-id {name}`, which is the same job: without it the users are granted twice."
    ))
}

pub(crate) async fn jobs(
    command: JobsCommand,
    settings: &Settings,
    output: &Output,
) -> Result<(), Failure> {
    let api = Api::new(settings)?;
    let (call, as_text): (Call, AsText) = match command {
        JobsCommand::Wait(it) => return wait(&api, &it.job_id.to_string(), output).await,
        JobsCommand::List { state, page } => {
            let call = with(paged("/v1/jobs", page), "state", state.as_ref());
            (call, |answer| text::page(answer, &JOBS))
        }
        JobsCommand::Show(it) => (Call::get(format!("/v1/jobs/{}", it.job_id)), text::object),
        JobsCommand::Rows { job, outcome, page } => {
            let call = paged(&format!("/v1/jobs/{}/rows", job.job_id), page);
            let call =
                outcome.into_iter().fold(call, |call, word| call.with_query("outcome", word));
            (call, |answer| text::page(answer, &ROWS))
        }
        JobsCommand::Cancel { job, why } => {
            let call = Call::post(format!("/v1/jobs/{}/cancel", job.job_id));
            (call.with_body(json!({ "reason": why.reason })), text::object)
        }
    };
    tell(&api, &call, as_text, output).await
}

/// Polls a job to its end and prints it. On a terminal a bar is drawn on standard error meanwhile.
async fn wait(api: &Api, id: &str, output: &Output) -> Result<(), Failure> {
    let live = !output.json && io::stderr().is_terminal();
    let call = Call::get(format!("/v1/jobs/{id}"));
    loop {
        let job = api.send(&call).await?;
        let is_over = job["state"].as_str().is_none_or(|state| OVER.contains(&state));
        if live {
            let end = if is_over { "\n" } else { "" };
            // If it cannot be drawn, the job still continues.
            let _unread = write!(io::stderr(), "\r\x1b[2K{}{end}", bar(&job));
        }
        if is_over {
            return output.answer(&job, text::object);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Returns a bar of the rows that have their outcome.
fn bar(job: &Value) -> String {
    let number = |name: &str| job[name].as_u64().unwrap_or(0);
    let rows = number("rows");
    let pending = number("pending");
    let done = rows.saturating_sub(pending);
    let width = u64::try_from(BAR).unwrap_or(u64::MAX);
    let filled = usize::try_from((done * width).checked_div(rows).unwrap_or(width)).unwrap_or(BAR);
    let bar = format!("{}{}", "#".repeat(filled), "-".repeat(BAR.saturating_sub(filled)));
    let granted = job["outcomes"]["granted"].as_u64().unwrap_or(0);
    let waits = job["waits_for"].as_str().map(|code| format!("  waits: {}", text::clean(code)));
    let waits = waits.unwrap_or_default();
    format!(
        "[{bar}]  {done}/{rows} rows  {granted} granted  {}{waits}",
        text::cell(job.get("state"))
    )
}

fn read(file: &Path) -> Result<String, Failure> {
    let text = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(file)
    };
    // Spreadsheets begin a file with a byte order mark, which is not part of the first id.
    let text = text.map(|text| text.trim_start_matches('\u{feff}').to_owned());
    text.map_err(|error| Failure::usage(format!("{} cannot be read: {error}.", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_whose_end_was_not_seen_is_unknown_whatever_the_reason_and_named() {
        for kind in [Kind::Unavailable, Kind::Refused, Kind::Usage, Kind::Unknown] {
            let failure = Failure { code: Some("C".to_owned()), ..Failure::new(kind, "Why.") };
            let seen = unseen(failure.advise("Nothing happened."), "7", "k-1");
            assert_eq!((seen.kind, seen.code.as_deref()), (Kind::Unknown, Some("C")));
            let advice = seen.advice.unwrap();
            assert!(advice.contains("`coupon jobs wait 7`"), "{advice}");
            assert!(advice.contains("`--request-id k-1`"), "{advice}");
        }
    }

    #[test]
    fn a_bar_shows_the_rows_that_are_done_and_what_the_others_wait_for() {
        let job = json!({ "rows": 64, "pending": 16, "state": "running", "outcomes": { "granted": 40 },
            "waits_for": "PAUSED" });
        let bar_of = "#".repeat(24) + &"-".repeat(8);
        assert_eq!(
            bar(&job),
            format!("[{bar_of}]  48/64 rows  40 granted  running  waits: PAUSED")
        );
        let over = json!({ "rows": 2, "pending": 0, "state": "finished", "outcomes": {} });
        assert!(bar(&over).starts_with(&format!("[{}]", "#".repeat(BAR))));
    }
}
