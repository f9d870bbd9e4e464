//! Formats JSON for people at a terminal: names and values, tables.

use serde_json::{Map, Value};

/// Fields that are shown first: names before other fields, and the sum of an account before its parts.
const FIRST: [&str; 10] = [
    "id",
    "template_id",
    "user_id",
    "name",
    "state",
    "total",
    "landed",
    "stock",
    "in_flight",
    "gate_stock",
];

/// Formats an object as one line for each value. Inner objects get names with dots, and lists of objects become tables.
pub(crate) fn object(value: &Value) -> String {
    if value.is_null() {
        return "done".to_owned();
    }
    let mut lines = Vec::new();
    let mut tables = Vec::new();
    collect("", value, &mut lines, &mut tables);
    lines.sort_by_key(|(name, _)| {
        FIRST.iter().position(|first| first == name).unwrap_or(FIRST.len())
    });
    let width = lines.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = lines.iter().map(|(name, value)| format!("{}  {value}\n", padded(name, width)));
    let text: String = lines.collect();
    tables.iter().fold(text, |text, (name, rows)| format!("{text}\n{name}\n{rows}"))
}

/// Formats rows below their columns, in this order. A column is the name of its value in a row.
pub(crate) fn table(rows: &[Value], columns: &[&str]) -> String {
    let heads = columns.iter().map(|column| clean(&column.to_uppercase())).collect();
    let cells = |row: &Value| columns.iter().map(|column| cell(at(row, column))).collect();
    let lines: Vec<Vec<String>> = std::iter::once(heads).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|column| width(column).unwrap_or(0)).collect();
    let row = |line: &Vec<String>| {
        let cells = line.iter().zip(&widths).map(|(cell, width)| padded(cell, *width));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(row).collect()
}

/// Formats a page of a list: its rows, and how to continue.
pub(crate) fn page(page: &Value, columns: &[&str]) -> String {
    // Lists that are always short come as `items`, without pages.
    let rows = ["data", "items"].iter().find_map(|name| page.get(name)?.as_array());
    let table = table(rows.map_or(&[], Vec::as_slice), columns);
    match page.get("next_cursor").and_then(Value::as_str) {
        Some(cursor) => format!("{table}\nmore: --cursor {}\n", clean(cursor)),
        None => table,
    }
}

/// Says which rows of a list, asked for at `path`, cannot be read, in a sentence; `None`: all can. The api names them, and
/// its database keeps them: a column has a value that this version does not know.
pub(crate) fn unreadable(path: &str, page: &Value) -> Option<String> {
    let names =
        page.get("unreadable").and_then(Value::as_array).filter(|names| !names.is_empty())?;
    let kind = row_of(path);
    let row = |name: &Value| {
        let name = cell(Some(name));
        // Rows of a ledger come with their kind.
        if name.contains(' ') { name } else { format!("{kind} {name}") }
    };
    let rows: Vec<String> = names.iter().map(row).collect();
    let rows = rows.join(", ");
    Some(match names.len() {
        1 => format!("1 row cannot be read: {rows}."),
        count => format!("{count} rows cannot be read: {rows}."),
    })
}

/// Returns what a row of the list at a path is, e.g. `late payment` of `/v1/late-payments`.
fn row_of(path: &str) -> String {
    match path.rsplit('/').next().unwrap_or_default() {
        "audit" => "line".to_owned(),
        list => list.strip_suffix('s').unwrap_or(list).replace('-', " "),
    }
}

/// Formats one value for a line. Control characters are replaced, so that others' text cannot control the terminal.
pub(crate) fn cell(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => clean(text),
        Some(Value::Array(values)) => {
            values.iter().map(|value| cell(Some(value))).collect::<Vec<_>>().join(",")
        }
        Some(other) => clean(&other.to_string()),
    }
}

/// Pads with spaces to a width in characters. `{:<width$}` goes no further than 65,535.
fn padded(text: &str, width: usize) -> String {
    let spaces = width.saturating_sub(text.chars().count());
    format!("{text}{}", " ".repeat(spaces))
}

/// Returns the value under a name with dots.
fn at<'a>(row: &'a Value, name: &str) -> Option<&'a Value> {
    name.split('.').try_fold(row, |value, part| value.get(part))
}

/// Replaces control characters in others' text.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|one| if one.is_control() { char::REPLACEMENT_CHARACTER } else { one })
        .collect()
}

fn collect(
    name: &str,
    value: &Value,
    lines: &mut Vec<(String, String)>,
    tables: &mut Vec<(String, String)>,
) {
    match value {
        Value::Object(inner) => {
            for (own, value) in inner {
                let own = clean(own);
                let name = if name.is_empty() { own } else { format!("{name}.{own}") };
                collect(&name, value, lines, tables);
            }
        }
        Value::Array(rows) if rows.first().is_some_and(Value::is_object) => {
            let columns: Vec<&str> =
                rows[0].as_object().into_iter().flat_map(Map::keys).map(String::as_str).collect();
            tables.push((name.to_owned(), table(rows, &columns)));
        }
        value => lines.push((name.to_owned(), cell(Some(value)))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_lines_by_dotted_names_and_tables_below() {
        let value = json!({"id": "7", "discount": {"cap": null, "value": 5},
            "coupons": [{"id": "8", "number": 1}, {"id": "900", "number": 2}]});
        let wanted = "id              7\ndiscount.cap    -\ndiscount.value  5\n\ncoupons\nID   NUMBER\n8    1\n900  2\n";
        assert_eq!(object(&value), wanted);
    }

    #[test]
    fn a_page_shows_its_columns_and_how_to_go_on() {
        let value = json!({"data": [{"id": "1", "in": {"a": [1, 2]}}], "next_cursor": "c"});
        assert_eq!(
            page(&value, &["id", "in.a", "none"]),
            "ID  IN.A  NONE\n1   1,2   -\n\nmore: --cursor c\n"
        );
        assert_eq!(page(&json!({"items": []}), &["id"]), "ID\n");
    }

    #[test]
    fn rows_that_cannot_be_read_are_named_by_their_kind() {
        let said = |path: &str, names: Value| unreadable(path, &json!({ "unreadable": names }));
        for (path, name, row) in [
            ("/v1/findings", "106", "finding 106"),
            ("/v1/late-payments", "7.pay-1", "late payment 7.pay-1"),
            ("/v1/jobs", "7", "job 7"),
            ("/v1/jobs/7/rows", "3", "row 3"),
            ("/v1/templates", "7", "template 7"),
            ("/v1/api-keys", "7", "api key 7"),
            ("/v1/audit", "7", "line 7"),
            ("/v1/templates/7/ledger", "claim 8", "claim 8"),
            ("/v1/coupons", "\u{1b}", "coupon \u{fffd}"),
        ] {
            let wanted = format!("1 row cannot be read: {row}.");
            assert_eq!(said(path, json!([name])), Some(wanted), "{path}");
        }
        let two = said("/v1/findings", json!(["106", "107"])).unwrap();
        assert_eq!(two, "2 rows cannot be read: finding 106, finding 107.");
        assert_eq!(said("/v1/findings", json!([])), None);
        assert_eq!(unreadable("/v1/findings", &json!({ "data": [] })), None);
        assert_eq!(unreadable("/v1/findings", &Value::Null), None);
    }

    #[test]
    fn foreign_text_steers_no_terminal() {
        assert_eq!(cell(Some(&json!("a\u{1b}[2Jb\nc"))), "a\u{fffd}[2Jb\u{fffd}c");
        let name = json!({"a\rb": "c", "list": [{"d\u{1b}": 1}]});
        assert_eq!(object(&name), "a\u{fffd}b  c\n\nlist\nD\u{fffd}\n1\n");
    }

    #[test]
    fn however_long_a_value_is_it_is_shown() {
        let long = "x".repeat(70_000);
        assert!(object(&json!({ long.as_str(): 1 })).len() > 70_000);
        assert!(table(&[json!({"a": long}), json!({"a": "b"})], &["a", "a"]).len() > 140_000);
    }
}
