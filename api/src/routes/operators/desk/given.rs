//! The rows of a job of grants, as an operator gives them: ids in JSON, or a file with one in each line. An invalid or
//! repeated id is an outcome of its row, not an error of the request.

use std::collections::HashSet;

use coupon::{RowOutcome, Template, UserId, limit};
use mysql_store::job_row::NewRow;
use serde_json::Value;

use crate::{code::Code, problem::Problem};

/// Reads rows: ids in quotes or without.
pub(crate) fn rows<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<NewRow> {
    let mut seen = HashSet::new();
    texts.into_iter().map(|text| row(text, &mut seen)).collect()
}

/// Returns the texts of a file's lines. Empty lines are left out. A line is an id, an id in quotes, or an object with a
/// `user_id`, as in NDJSON.
pub(crate) fn lines(file: &str) -> Vec<String> {
    let file = file.strip_prefix('\u{feff}').unwrap_or(file);
    file.lines().map(str::trim).filter(|line| !line.is_empty()).map(of_line).collect()
}

fn of_line(line: &str) -> String {
    let value: Option<Value> = serde_json::from_str(line).ok();
    let id = match &value {
        Some(Value::Object(fields)) => fields.get("user_id"),
        Some(Value::String(_) | Value::Number(_)) => value.as_ref(),
        _ => None,
    };
    match id {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => line.to_owned(),
    }
}

/// Refuses a job of a template that holds its coupons unless the job is to confirm them: its users would be promised coupons
/// that lapse before anybody pays.
pub(crate) fn held_ones_confirmed(
    template: &Template,
    confirmed: Option<bool>,
) -> Result<(), Problem> {
    let Some(hold) = template.hold.hold.filter(|_| confirmed != Some(true)) else { return Ok(()) };
    let ms = hold.num_milliseconds();
    let detail = format!(
        "confirmed: the template holds its coupons, and those that nobody pays for within {ms} ms lapse. Send `true`: then \
         the job confirms what it grants."
    );
    let problem = Problem::new(Code::InvalidGrants, detail).with("field", "confirmed");
    Err(problem.with("hold_ms", ms))
}

fn row(text: &str, seen: &mut HashSet<UserId>) -> NewRow {
    match text.parse::<UserId>() {
        Ok(user) => {
            let is_first = seen.insert(user);
            let outcome = if is_first { RowOutcome::Pending } else { RowOutcome::Duplicate };
            NewRow { user: Some(user), given: None, outcome }
        }
        Err(_) => {
            let given: String = text.chars().take(limit::JOB_ROW_CHARS_MAX).collect();
            NewRow { user: None, given: Some(given), outcome: RowOutcome::InvalidUserId }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Vec<(Option<i64>, RowOutcome)> {
        let lines = lines(file);
        let rows = rows(lines.iter().map(String::as_str));
        rows.into_iter().map(|row| (row.user.map(|user| user.0), row.outcome)).collect()
    }

    #[test]
    fn a_line_is_an_id_in_any_form_and_garbage_or_a_second_one_has_its_outcome() {
        let file = "\u{feff}7\r\n\n \"8\" \n9\n{\"user_id\": \"10\"}\n{\"user_id\": 11}\n7\nx\n-1\n{}\n[12]\n";
        let pending = RowOutcome::Pending;
        let wrong = RowOutcome::InvalidUserId;
        let mut expected: Vec<_> = (7..=11).map(|user| (Some(user), pending)).collect();
        expected.push((Some(7), RowOutcome::Duplicate));
        expected.extend([(None, wrong); 4]);
        assert_eq!(read(file), expected);
        assert_eq!(read(""), []);
    }

    #[test]
    fn what_is_no_id_is_kept_as_far_as_its_column_goes() {
        let long = "é".repeat(100);
        let row = rows([long.as_str()]).remove(0);
        assert_eq!(row.given.map(|given| given.chars().count()), Some(limit::JOB_ROW_CHARS_MAX));
    }
}
