//! Advice about refusals, in terms of this command line. `docs/errors.md` has the advice for HTTP, and the refusal's
//! own sentence says what is wrong.

use crate::failure::Failure;

/// Advice about a change that is made, and whose consequences wait.
pub(super) const MADE: &str =
    "Nothing needs to be sent again. `coupon health` names a server that is away.";

/// Advice by code. For a code that is not here, the refusal's sentence says enough.
const WAYS: [(&str, &str); 28] = [
    (
        "UNAUTHENTICATED",
        "OPERATOR_KEY must be a key of this platform that has not ended. Whoever has one of the scope \
         `admin` sees them by `coupon key list` and makes them by `coupon key create`.",
    ),
    (
        "SCOPE_LACKING",
        "Use a key that has the scope; one of the scope `admin` makes it: `coupon key create NAME --scope …`.",
    ),
    (
        "PLATFORM_ONLY",
        "Ask whoever runs the platform: it is for the key in the api's own settings.",
    ),
    (
        "NOT_FOUND",
        "Either nothing has this id, or API_URL is not the address of an api of this version.",
    ),
    (
        "TEMPLATE_NOT_FOUND",
        "`coupon template list` shows those of your key's merchant; nobody else's is found.",
    ),
    ("TEMPLATE_NEEDED", "Name the claim's template: `coupon claim show ID --template TEMPLATE`."),
    (
        "CLAIM_NOT_FOUND",
        "It was refused, was given up, or is another merchant's. What a user has: `coupon user show USER`.",
    ),
    ("KEY_NOT_FOUND", "`coupon key list` shows your merchant's; another's with `--merchant ID`."),
    (
        "COUPON_USED",
        "Give it back first, with a key of the scope `redeem`: `coupon unuse COUPON ORDER --user USER`, with the `order_ref` \
         and `user_id` below. `coupon rollback ORDER` would give back the order's other coupons too.",
    ),
    (
        "COUPON_CANCELLED",
        "That is final. If it was paid for, refund the payment. If its user is to have another one: `coupon grants TEMPLATE \
         FILE`.",
    ),
    ("KEY_NOT_LIVE", "`coupon key create` makes one in its place."),
    (
        "QUOTA_EXCEEDED",
        "`coupon key list` and `coupon key revoke ID` make room; of templates `coupon template list` and `coupon template \
         delete ID` of a draft, or `coupon template end ID` of one whose window is not over; of jobs `coupon jobs cancel \
         ID` of one of the `jobs` below. The platform's settings say how many a merchant may have.",
    ),
    (
        "COUPON_LOCKED",
        "The lock lapses by itself; `coupon validate COUPON --amount 50.00` shows when it has.",
    ),
    ("ORDER_REDEEMED", "`coupon redemption show ORDER` shows what it has redeemed."),
    (
        "REDEMPTION_NOT_FOUND",
        "Is the order spelled as the shop named it? Upper and lower case count.",
    ),
    ("VALIDITY_OVER", "`coupon template edit ID FILE` gives it another validity."),
    ("LIFE_TOO_LONG", "Give `--expires-at` a time until then, or use a key that does not end."),
    ("INVALID_TRANSITION", "`coupon template show ID` says its state."),
    ("CHANGED_MEANWHILE", "`coupon template show ID` says what it is now, with its `version`."),
    (
        "PRECONDITION_REQUIRED",
        "Say which version you have seen, `--if-version N`: `coupon template show ID` has it.",
    ),
    ("CONFIRMATION_REQUIRED", "Type the template's name when you are asked, or give `--yes`."),
    ("MOVE_UNDER_WAY", "`coupon template validity-move ID` says how far it is."),
    ("NO_GATE", "`coupon template show ID` says its state and from when it can be claimed."),
    (
        "NO_DRAIN",
        "`coupon stock show ID`: while its gate waits, `queued_epoch` is below `epoch` and `gate_stock` is unknown.",
    ),
    ("INSUFFICIENT_STOCK", "`coupon stock show ID`: its `stock` is what can be cut."),
    (
        "IDEMPOTENCY_KEY_REUSED",
        "Another request has this `--request-id`. To find out what became of that one, send exactly what was sent under it; \
         without a `--request-id` this is a new request, and counts besides.",
    ),
    ("INVALID_CURSOR", "Take the `--cursor` that the page before ended with, for the same list."),
    (
        "INVALID_TEMPLATE",
        "`coupon template create --example` prints a file with every field explained.",
    ),
];

/// Adds the advice of the failure's code, unless the failure has advice already.
pub(crate) fn with_advice(failure: Failure) -> Failure {
    let code = failure.code.as_deref().filter(|_| failure.advice.is_none());
    let way = WAYS.iter().find(|(known, _)| Some(*known) == code).map(|(_, way)| *way);
    match way {
        Some(way) => failure.advise(way),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn each_way_out_is_of_a_code_that_there_is_and_stands_once() {
        let page = include_str!("../../../docs/errors.md");
        for (index, (code, _)) in WAYS.iter().enumerate() {
            assert!(page.contains(&format!("`{code}`")), "docs/errors.md lacks {code}");
            assert!(WAYS[index + 1..].iter().all(|(other, _)| other != code), "{code} twice");
        }
    }

    #[test]
    fn a_refusal_gets_advice_by_its_code_and_keeps_its_own() {
        let refused = |code: &str| Failure {
            code: Some(code.to_owned()),
            ..Failure::new(Kind::Refused, "No.")
        };
        assert!(with_advice(refused("NO_GATE")).advice.unwrap().contains("template show"));
        assert_eq!(
            with_advice(refused("NO_GATE").advise("Wait.")).advice.as_deref(),
            Some("Wait.")
        );
        assert_eq!(with_advice(refused("SOLD_OUT")).advice, None);
        assert_eq!(with_advice(Failure::new(Kind::Refused, "No.")).advice, None);
    }
}
