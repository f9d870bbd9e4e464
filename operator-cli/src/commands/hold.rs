//! Holds, as calls of the api: payments, cancellations, bans, and the ledger of a template's stock.

use serde_json::{Value, json};

use crate::{
    api::call::Call,
    arguments::{Cancel, Confirm, Hold, Lapses, LatePaymentsCommand, Ledger, Lift, OneClaim},
    commands::{AsText, paged, templates::with},
    text,
};

/// Columns of a ledger.
const LEDGER: [&str; 9] =
    ["at", "kind", "quantity", "total_change", "claim_id", "seq", "user_id", "actor", "reason"];

/// Where late payments are.
const LATE_PAYMENTS: &str = "/v1/late-payments";

/// Columns of late payments.
const LATE: [&str; 7] =
    ["claim_id", "payment_ref", "code", "user_id", "template_id", "refused_at", "refunded_at"];

pub(crate) fn confirm(asked: &Confirm) -> (Call, AsText) {
    let body = json!({ "payment_ref": asked.payment_ref });
    (of_claim(&asked.claim, "confirm", listed(body, &asked.coupons)), text::object)
}

pub(crate) fn cancel(asked: &Cancel) -> (Call, AsText) {
    let body = json!({ "reason": asked.why.reason });
    (of_claim(&asked.claim, "cancel", listed(body, &asked.coupons)), text::object)
}

pub(crate) fn lapses(asked: &Lapses) -> (Call, AsText) {
    (Call::get(of_user(asked)), text::object)
}

pub(crate) fn lift(asked: &Lift) -> (Call, AsText) {
    let call = Call::post(format!("{}/ban/lift", of_user(&asked.lapses)));
    (call.with_body(json!({ "reason": asked.why.reason })), text::object)
}

pub(crate) fn ledger(asked: Ledger) -> (Call, AsText) {
    let call = paged(&format!("/v1/templates/{}/ledger", asked.id.id), asked.page);
    (with(call, "kind", asked.kind.as_ref()), |answer| text::page(answer, &LEDGER))
}

pub(crate) fn late_payments(command: LatePaymentsCommand) -> (Call, AsText) {
    match command {
        LatePaymentsCommand::List { template, refunded, page } => {
            let call = with(paged(LATE_PAYMENTS, page), "template_id", template.as_ref());
            let call = with(call, "refunded", refunded.then_some(true).as_ref());
            (call, |answer| text::page(answer, &LATE))
        }
        LatePaymentsCommand::Refunded { claim, payment_ref, why } => {
            let body = json!({
                "claim_id": claim.to_string(), "payment_ref": payment_ref, "reason": why.reason,
            });
            (Call::post(format!("{LATE_PAYMENTS}/refunded")).with_body(body), text::object)
        }
    }
}

/// Sets the terms of holds that flags name in a template's body.
pub(crate) fn held(mut body: Value, hold: Hold) -> Value {
    let fields = [
        ("hold_ms", hold.hold_ms.map(Value::from)),
        ("lapses_allowed", hold.lapses_allowed.map(Value::from)),
        ("returned_stock", hold.returned_stock.map(Value::from)),
    ];
    for (field, value) in fields {
        if let Some(value) = value {
            body[field] = value;
        }
    }
    body
}

fn of_claim(claim: &OneClaim, verb: &str, body: Value) -> Call {
    let call = Call::post(format!("/v1/claims/{}/{verb}", claim.id)).with_body(body);
    with(call, "template", claim.template.as_ref())
}

fn of_user(asked: &Lapses) -> String {
    format!("/v1/templates/{}/users/{}", asked.template, asked.user.user_id)
}

/// Adds the coupons to a body, if there are any. Ids are text there.
fn listed(mut body: Value, coupons: &[i64]) -> Value {
    if !coupons.is_empty() {
        body["coupons"] = coupons.iter().map(ToString::to_string).collect();
    }
    body
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::arguments::{Arguments, ClaimCommand, Command, UserCommand};

    fn call(words: &str) -> Call {
        let words = ["coupon"].into_iter().chain(words.split(' '));
        match Arguments::try_parse_from(words).unwrap().command {
            Command::Claim(ClaimCommand::Confirm(asked)) => confirm(&asked).0,
            Command::Claim(ClaimCommand::Cancel(asked)) => cancel(&asked).0,
            Command::User(UserCommand::Lift(asked)) => lift(&asked).0,
            Command::User(UserCommand::Lapses(asked)) => lapses(&asked).0,
            _ => panic!("no command of a hold"),
        }
    }

    #[test]
    fn a_payment_names_all_coupons_of_its_claim_or_some() {
        let all = call("claim confirm 7 --payment-ref p1 --template 3");
        assert_eq!(
            (all.path.as_str(), all.body),
            ("/v1/claims/7/confirm", Some(json!({ "payment_ref": "p1" })))
        );
        assert_eq!(all.query, [("template", "3".to_owned())]);
        let some = call("claim confirm 7 8 9 --payment-ref p1");
        assert_eq!(some.body, Some(json!({ "payment_ref": "p1", "coupons": ["8", "9"] })));
        let cancelled = call("claim cancel 7 8 --reason declined");
        let body = json!({ "reason": "declined", "coupons": ["8"] });
        assert_eq!((cancelled.path.as_str(), cancelled.body), ("/v1/claims/7/cancel", Some(body)));
    }

    #[test]
    fn a_ban_is_shown_and_lifted_at_its_template() {
        let shown = call("user lapses 42 --template 3");
        assert!(shown.reads() && shown.path == "/v1/templates/3/users/42", "{shown:?}");
        let lifted = call("user lift 42 --template 3 --reason sorry");
        assert_eq!(lifted.path, "/v1/templates/3/users/42/ban/lift");
        assert_eq!(lifted.body, Some(json!({ "reason": "sorry" })));
    }

    #[test]
    fn terms_that_no_flag_names_stay_as_the_file_says() {
        let none = Hold { hold_ms: None, lapses_allowed: None, returned_stock: None };
        assert_eq!(held(json!({ "hold_ms": 5 }), none), json!({ "hold_ms": 5 }));
        let some = Hold {
            hold_ms: Some(0),
            lapses_allowed: Some(2),
            returned_stock: Some("retire".into()),
        };
        let body = json!({ "hold_ms": 0, "lapses_allowed": 2, "returned_stock": "retire" });
        assert_eq!(held(json!({ "hold_ms": 5 }), some), body);
    }
}
