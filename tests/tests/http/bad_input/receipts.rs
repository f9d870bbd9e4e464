//! Receipts of other users, texts that are no receipts, and events that are not ours.

use reqwest::Method;
use shopper::Shopper;

use super::{Case, NOTHING, Targets, case};

const INVALID: &str = "RECEIPT_INVALID";

/// Texts that are no receipts.
const NO_RECEIPTS: [&str; 9] = [
    "",
    "x",
    "AAAA",
    "%00",
    "..%2F..%2Fetc%2Fpasswd",
    "%27%20or%201=1",
    "=",
    "%F0%9F%8E%9F",
    "eyJhbGciOiJub25lIn0.e30.",
];

/// Texts that are the id of no event.
const NO_EVENTS: [&str; 8] =
    ["-1", "+1", "01", "1.0", "END", "18446744073709551616", "1 or 1=1", "../end"];

pub(super) fn cases(targets: &Targets) -> Vec<Case> {
    let mut cases = garbage(targets);
    cases.extend(misplaced(targets));
    cases.extend(odd_events(targets));
    cases
}

/// Texts that are no receipt.
fn garbage(targets: &Targets) -> Vec<Case> {
    let (place, receipt) = targets.location.split_once("&receipt=").unwrap();
    let mut texts: Vec<String> = NO_RECEIPTS.map(str::to_owned).into();
    texts.extend([
        "A".repeat(168),
        "A".repeat(3_000),
        receipt[1..].to_owned(),
        receipt[..receipt.len() - 1].to_owned(),
        format!("{receipt}A"),
        format!("{receipt}="),
        receipt.to_ascii_lowercase(),
        flipped(receipt),
    ]);
    let mut cases = Vec::new();
    for text in texts {
        for path in [format!("{place}&receipt={text}"), events(place, &text)] {
            let request = targets.waiter.request(Method::GET, &path);
            cases.push(case(&format!("receipt {path}"), request, 422, INVALID));
        }
    }
    cases
}

/// A receipt at a place, or from a user, that it is not for.
fn misplaced(targets: &Targets) -> Vec<Case> {
    let location = &targets.location;
    let claim = &targets.claim;
    let one = targets.one;
    let (place, receipt) = location.split_once("&receipt=").unwrap();
    let get = |shopper: &Shopper, path: &str| shopper.request(Method::GET, path);
    let own = |path: &str| get(&targets.waiter, path);
    let mut cases = Vec::new();
    let (_, query) = location.split_once('?').unwrap();
    for (name, request, status, code) in [
        ("another's receipt", get(&targets.attacker, location), 422, INVALID),
        ("another's events", get(&targets.attacker, &events(place, receipt)), 422, INVALID),
        ("a receipt of another claim", own(&format!("/v1/claims/{claim}?{query}")), 422, INVALID),
        (
            "a receipt of another template",
            own(&place_of(place, &format!("template={one}&receipt={receipt}"))),
            422,
            INVALID,
        ),
        ("a receipt of no claim", own(&format!("/v1/claims/{NOTHING}?{query}")), 422, INVALID),
        (
            "a receipt without its template",
            own(&place_of(place, &format!("receipt={receipt}"))),
            422,
            "TEMPLATE_NEEDED",
        ),
        ("two receipts", own(&format!("{location}&receipt={receipt}")), 400, "MALFORMED_QUERY"),
        ("events without a receipt", own(&events_of(place)), 422, INVALID),
        (
            "events of what is no id",
            own(&format!("/v1/claims/first/events?{query}")),
            404,
            "NOT_FOUND",
        ),
        (
            "events by a key",
            targets.api.operator(Method::GET, &events(place, receipt)),
            401,
            "UNAUTHENTICATED",
        ),
        (
            "events as a page",
            own(&events(place, receipt)).header("accept", "text/html"),
            406,
            "NOT_ACCEPTABLE",
        ),
        (
            "events elsewhere",
            own(location).header("accept", "text/event-stream"),
            406,
            "NOT_ACCEPTABLE",
        ),
    ] {
        cases.push(case(name, request, status, code));
    }
    cases
}

/// Streams that resume after something that is no event.
fn odd_events(targets: &Targets) -> Vec<Case> {
    let (place, receipt) = targets.location.split_once("&receipt=").unwrap();
    let own = |path: &str| targets.waiter.request(Method::GET, path);
    let mut cases = Vec::new();
    for id in NO_EVENTS {
        let request = own(&events(place, receipt)).header("last-event-id", id);
        cases.push(case(&format!("event {id}"), request, 400, "LAST_EVENT_ID_INVALID"));
    }
    let two =
        own(&events(place, receipt)).header("last-event-id", "1").header("last-event-id", "1");
    cases.push(case("two events", two, 400, "LAST_EVENT_ID_INVALID"));
    cases
}

/// Where the events of the claim at `place` are.
fn events_of(place: &str) -> String {
    place.replacen('?', "/events?", 1)
}

fn events(place: &str, receipt: &str) -> String {
    format!("{}&receipt={receipt}", events_of(place))
}

/// The same path with another query.
fn place_of(place: &str, query: &str) -> String {
    format!("{}?{query}", place.split_once('?').unwrap().0)
}

/// The receipt with another character in its middle.
fn flipped(receipt: &str) -> String {
    let (head, tail) = receipt.split_at(receipt.len() / 2);
    let other = if tail.starts_with('A') { 'B' } else { 'A' };
    format!("{head}{other}{}", &tail[1..])
}
