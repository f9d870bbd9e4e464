//! Every error code: its status, title and advice. The OpenAPI responses and the table of `docs/errors.md` are made
//! from this list.

macro_rules! codes {
    ($($name:ident $word:literal $status:literal $title:literal $advice:literal,)*) => {
        /// A stable code, which clients program against.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub(crate) enum Code {
            $($name,)*
        }

        impl Code {
            /// Every code, in the order of `docs/errors.md`.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            pub(crate) fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            pub(crate) fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status,)*
                }
            }

            /// The kind of problem, for people.
            pub(crate) fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }

            /// What the client should do; Markdown.
            pub(crate) fn advice(self) -> &'static str {
                match self {
                    $(Self::$name => $advice,)*
                }
            }
        }
    };
}

codes! {
    Unauthenticated "UNAUTHENTICATED" 401 "Authentication is required"
        "send one valid token (`Authorization: Bearer …`) or key (`X-Api-Key`); the detail says what is \
         wrong",
    ScopeLacking "SCOPE_LACKING" 403 "Not allowed"
        "the key lacks `scope`: use or create a key that has it",
    SelfRedeemForbidden "SELF_REDEEM_FORBIDDEN" 403 "Not allowed"
        "only the shop redeems this coupon and gives it back: its checkout calls `POST \
         /v1/coupons/{id}/use` or `unuse` with a key of the scope `redeem`",
    PlatformOnly "PLATFORM_ONLY" 403 "Not allowed"
        "only the platform's own key may do this: ask the platform's operator",
    CrossSite "CROSS_SITE" 403 "Not allowed"
        "a session of the console serves its own page only: send `X-Csrf-Token` with each change, from a page of \
         this server; a script sends a key in `X-Api-Key`",
    MalformedBody "MALFORMED_BODY" 400 "The request cannot be understood"
        "correct what the detail names",
    MalformedQuery "MALFORMED_QUERY" 400 "The request cannot be understood"
        "correct what the detail names",
    NotJson "NOT_JSON" 415 "The body is not JSON"
        "send `Content-Type: application/json`",
    BodyEncoded "BODY_ENCODED" 415 "The body is encoded"
        "send the body without a `Content-Encoding`",
    BodyTooLarge "BODY_TOO_LARGE" 413 "The body is too large"
        "send a body of at most 64 KiB; grants: of at most 1 MiB",
    BodyUnreadable "BODY_UNREADABLE" 400 "The body cannot be read"
        "send a valid HTTP body, e.g. with chunks of their stated length",
    BodyIncomplete "BODY_INCOMPLETE" 408 "The body is not complete"
        "the body broke off, or did not arrive in 15 s: retryable, nothing was done",
    HeadersTooLarge "HEADERS_TOO_LARGE" 431 "The headers are too large"
        "send headers of at most 16 KiB in total, e.g. a token with fewer claims",
    HostInvalid "HOST_INVALID" 400 "The request cannot be understood"
        "send one `Host` header with the name or address of this server, as HTTP/1.1 requires",
    UriMalformed "URI_MALFORMED" 400 "The address cannot be understood"
        "encode a `%` that stands for itself as `%25`: behind each other one are two hexadecimal digits",
    UriTooLong "URI_TOO_LONG" 414 "The address is too long"
        "send a path and query of at most 4 KiB",
    NotAcceptable "NOT_ACCEPTABLE" 406 "Not available in this form"
        "accept `application/json`, or send no `Accept`",
    MethodNotAllowed "METHOD_NOT_ALLOWED" 405 "Method not allowed"
        "use a method that `Allow` names",
    RateLimited "RATE_LIMITED" 429 "Too many requests"
        "wait `Retry-After` seconds: the user claims or reads too often (`RateLimit`, `RateLimit-Policy`)",
    TooManyLookups "TOO_MANY_LOOKUPS" 429 "Too many requests"
        "wait `Retry-After` seconds: too many claims that nothing is known of were looked up, and nothing is known of \
         this one yet",
    TooManyAtOnce "TOO_MANY_AT_ONCE" 429 "Too many requests"
        "wait for answers before sending more: too many requests of one address, or streams of one user, are in \
         progress",
    IdempotencyKeyMissing "IDEMPOTENCY_KEY_MISSING" 400 "The request cannot be understood"
        "send a new `Idempotency-Key` with each claim (optional only where the limit is 1 and nothing is held), each \
         stock movement and each job of grants",
    IdempotencyKeyInvalid "IDEMPOTENCY_KEY_INVALID" 400 "The request cannot be understood"
        "send one header with 1 to 64 characters from 0x21 to 0x7E, not beginning with `~`, not only `*`",
    IdempotencyKeyReused "IDEMPOTENCY_KEY_REUSED" 422 "The request is not acceptable"
        "the key was used for another request of this route, e.g. another quantity or movement, or with \
         another operator's key: send a new key",
    InvalidQuantity "INVALID_QUANTITY" 422 "The request is not acceptable"
        "send a quantity from 1 to `max_per_claim`",
    InvalidTemplate "INVALID_TEMPLATE" 422 "The request is not acceptable"
        "correct `field`",
    InvalidKey "INVALID_KEY" 422 "The request is not acceptable"
        "correct `field`",
    InvalidMerchant "INVALID_MERCHANT" 422 "The request is not acceptable"
        "correct `field`",
    InvalidRedemption "INVALID_REDEMPTION" 422 "The request is not acceptable"
        "correct `field`",
    InvalidMovement "INVALID_MOVEMENT" 422 "The request is not acceptable"
        "correct `field`: a `delta` other than 0, a reason",
    InvalidChange "INVALID_CHANGE" 422 "The request is not acceptable"
        "correct `field`: a reason of 1 to 200 characters; a `valid_until` that is later than the coupon's and \
         within ten years; 1 to 100 `coupons`, each once, or none for all",
    InvalidPayment "INVALID_PAYMENT" 422 "The request is not acceptable"
        "correct `field`: a `payment_ref` of 1 to 64 characters, 1 to 100 `coupons`, each once, or none for all. \
         `hold_ms`: the template holds nothing, so nothing needs a payment",
    InvalidGrants "INVALID_GRANTS" 422 "The request is not acceptable"
        "correct `field`: 1 to 50,000 `user_ids`, a `quantity` from 1 to `max_per_claim`, a reason; `confirmed` where the \
         template holds its coupons (`hold_ms`)",
    InvalidSearch "INVALID_SEARCH" 422 "The request is not acceptable"
        "of coupons: name at least one of `order_ref`, `user_id` and `template_id`. Of everything: send a `q` of 1 to 200 \
         characters",
    InvalidStatus "INVALID_STATUS" 422 "The request is not acceptable"
        "the detail lists what is accepted",
    InvalidLimit "INVALID_LIMIT" 422 "The request is not acceptable"
        "the detail lists what is accepted",
    InvalidOrderRef "INVALID_ORDER_REF" 422 "The request is not acceptable"
        "the detail lists what is accepted",
    InvalidUserId "INVALID_USER_ID" 422 "The request is not acceptable"
        "the detail lists what is accepted",
    InvalidSpan "INVALID_SPAN" 422 "The request is not acceptable"
        "the detail lists what is accepted",
    InvalidCursor "INVALID_CURSOR" 400 "The request cannot be understood"
        "send a `next_cursor` of the same collection, or the id of a coupon",
    InvalidAfter "INVALID_AFTER" 400 "The request cannot be understood"
        "send a `next_cursor` of the same collection, or the id of a coupon",
    TemplateNeeded "TEMPLATE_NEEDED" 422 "The request is not acceptable"
        "name the claim's template in `?template=`, as `Location` and `poll` do",
    ReceiptInvalid "RECEIPT_INVALID" 422 "The request is not acceptable"
        "use the `Location` of the claim's 202 as it is, by its own user and within seven days; or send the \
         claim again with the same key",
    LastEventIdInvalid "LAST_EVENT_ID_INVALID" 400 "The request cannot be understood"
        "send the `id` of an event of this claim as `Last-Event-ID`, or none",
    NotFound "NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    TemplateNotFound "TEMPLATE_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    ClaimNotFound "CLAIM_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    CouponNotFound "COUPON_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    RedemptionNotFound "REDEMPTION_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    MoveNotFound "MOVE_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    KeyNotFound "KEY_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    JobNotFound "JOB_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    FindingNotFound "FINDING_NOT_FOUND" 404 "Not found"
        "it does not exist, or is not yours. A claim that is not found did not land and never will",
    NotOpen "NOT_OPEN" 409 "Not open yet"
        "come back at `opens_at`",
    Paused "PAUSED" 409 "Paused"
        "the operator has paused the template: retryable",
    Closed "CLOSED" 409 "Closed"
        "the claim window is over, or the operator ended the template",
    Ended "ENDED" 409 "Ended"
        "the claim window is over, or the operator ended the template",
    LimitReached "LIMIT_REACHED" 409 "The limit is reached"
        "the user holds `held` already",
    Banned "BANNED" 409 "Refused after lapses"
        "the user let `lapses` holds of the template lapse, as many as it allows: an operator may lift this",
    SoldOut "SOLD_OUT" 409 "Sold out"
        "no coupon is left",
    InsufficientStock "INSUFFICIENT_STOCK" 409 "Less is left"
        "`left` coupons are left; the same key may ask for fewer. For a movement: cut at most that many",
    Failed "FAILED" 409 "The claim failed"
        "this queued claim could not be landed and was given up: its key stays refused, send a new one",
    AdmissionLost "ADMISSION_LOST" 200 "The claim is lost"
        "of a queued claim that was lost with its gate, in the body of `GET /v1/claims/{id}` and in its \
         events: nothing landed or ever will; retryable with the same key",
    TotalTooLarge "TOTAL_TOO_LARGE" 409 "Too many"
        "keep the template's `total` at or below 1,000,000,000",
    RequestInProgress "REQUEST_IN_PROGRESS" 409 "The request is still being worked on"
        "a request with this key is in progress: retryable",
    CouponUsed "COUPON_USED" 409 "The coupon is used"
        "the coupon is used for another order; to revoke, extend or replace it, give it back first (`unuse`)",
    CouponExpired "COUPON_EXPIRED" 409 "The coupon has expired"
        "the coupon was valid until `valid_until`: it can be neither used nor given back. Of a payment: the template's coupons were valid until then, so its held coupon is not confirmed",
    CouponCancelled "COUPON_CANCELLED" 409 "The coupon is cancelled"
        "the coupon was revoked or cancelled, and that is final: another one must be claimed or granted, unless its \
         user has `replaced_by` instead: an order redeems that one. Of a claim's cancellation: revoke it, and cancel again",
    NotConfirmed "NOT_CONFIRMED" 409 "The coupon is held"
        "the coupon is held until `held_until`: confirm its claim with the payment, then use it; or cancel its claim, \
         to take it away",
    HoldLapsed "HOLD_LAPSED" 409 "The hold has lapsed"
        "the hold of `coupon_id` ended at `lapsed_at`, and that is final: refund the payment",
    AlreadyConfirmed "ALREADY_CONFIRMED" 409 "The coupon is confirmed"
        "another payment has confirmed `coupon_id`: refund this one. Its user cannot cancel it any more, only the \
         shop can",
    PaymentRefReused "PAYMENT_REF_REUSED" 409 "The payment was for something else"
        "this `payment_ref` has confirmed another claim or other coupons: send the payment's own reference",
    CouponNotYetValid "COUPON_NOT_YET_VALID" 409 "The coupon is not valid yet"
        "come back at `valid_from`",
    OrderCancelled "ORDER_CANCELLED" 409 "The order is cancelled"
        "this order gave the coupon back; another `order_ref` may use it",
    CouponLocked "COUPON_LOCKED" 409 "The coupon is locked"
        "another order's checkout keeps the coupon until `locked_until`: come back then",
    CurrencyMismatch "CURRENCY_MISMATCH" 409 "Another currency"
        "the coupon is for orders in `currency`",
    BelowMinimum "BELOW_MINIMUM" 409 "The order is too small"
        "the coupon needs an order of `minimum_spend_minor`, in minor units",
    NotStackable "NOT_STACKABLE" 409 "Not together with other coupons"
        "the coupon `coupon_id` excludes others: redeem it alone",
    OrderRedeemed "ORDER_REDEEMED" 409 "The order was redeemed otherwise"
        "this `order_ref` has redeemed other coupons, or for another amount or currency: read `GET \
         /v1/redemptions/{order_ref}`",
    InvalidTransition "INVALID_TRANSITION" 409 "Not in this state"
        "read the template, then decide again",
    ChangedMeanwhile "CHANGED_MEANWHILE" 409 "Changed meanwhile"
        "read the template, then decide again",
    FindingDecided "FINDING_DECIDED" 409 "The finding is not open"
        "`state` is what became of the finding: read it, then decide again",
    ValidityOver "VALIDITY_OVER" 409 "Its validity is over"
        "no coupon of the template could still be used, so it cannot be published: edit its validity first",
    FieldNotEditable "FIELD_NOT_EDITABLE" 409 "Not editable in this state"
        "`field` cannot be edited while the template is in this `state`; `editable_in` lists the states \
         in which it can",
    PreconditionFailed "PRECONDITION_FAILED" 412 "Changed meanwhile"
        "the template has another `version` than `If-Match` names: read it, then decide again",
    PreconditionRequired "PRECONDITION_REQUIRED" 428 "Which version is not said"
        "send `If-Match` with the template's `ETag`, or its `version` in the body",
    ConfirmationRequired "CONFIRMATION_REQUIRED" 428 "Confirm it"
        "an end, a cut and the end of a drain cannot be taken back: send `If-Match` with the template's \
         `ETag`, or its name as `confirm` in the body",
    IfMatchInvalid "IF_MATCH_INVALID" 400 "The request cannot be understood"
        "send `If-Match` as a list of quoted `ETag`s, or `*`",
    KeyNotLive "KEY_NOT_LIVE" 409 "The key has ended"
        "the key has expired or was revoked: create a new one",
    LifeTooLong "LIFE_TOO_LONG" 403 "Not allowed"
        "the key of this request expires at `latest` and cannot create one that lives longer: send an \
         `expires_at` no later than that",
    QuotaExceeded "QUOTA_EXCEEDED" 409 "The merchant has as many as it may"
        "the merchant has reached the `limit` of `quota`: `open_templates` (delete a draft, or end one \
         whose window is not over), `keys` (revoke one), `open_jobs` (wait for one of `jobs`, or cancel it); or ask the platform for more",
    HourlyQuotaExceeded "HOURLY_QUOTA_EXCEEDED" 429 "Too many in this hour"
        "the merchant's operators have reached the `limit` of `quota` for this hour: wait `Retry-After` \
         seconds, or ask the platform for more",
    MoveUnderWay "MOVE_UNDER_WAY" 409 "Coupons are being moved"
        "issued coupons are still moving to an earlier change's validity (`progress`): retryable, or let \
         them follow this change too",
    NoGate "NO_GATE" 409 "There is no gate"
        "the template gives out no coupons now, so there is no gate to rebuild: one is loaded shortly \
         before its window",
    NoDrain "NO_DRAIN" 409 "Nothing waits"
        "no gate of the template waits for its queue, so there is nothing to give up: read the \
         template's stock, then decide again",
    ClaimPending "CLAIM_PENDING" 503 "Not available at the moment"
        "the outcome is not known yet: retry, or read `poll`",
    HoldUnsure "HOLD_UNSURE" 503 "Not available at the moment"
        "whether the hold is over is not certain, because clocks differ: retry, and only then refund",
    ClaimGivenUp "CLAIM_GIVEN_UP" 503 "Not available at the moment"
        "it did not land: retry",
    GateLoading "GATE_LOADING" 503 "Not available at the moment"
        "retry. With `made`, the change is made, and only its gate is not loaded yet, which happens by itself",
    GateUnavailable "GATE_UNAVAILABLE" 503 "Not available at the moment"
        "retry",
    ViewUnavailable "VIEW_UNAVAILABLE" 503 "Not available at the moment"
        "retry",
    StoreUnavailable "STORE_UNAVAILABLE" 503 "Not available at the moment"
        "retry",
    StatsUnavailable "STATS_UNAVAILABLE" 503 "Not available at the moment"
        "retry",
    Overloaded "OVERLOADED" 503 "Not available at the moment"
        "retry",
    Timeout "TIMEOUT" 503 "Not available at the moment"
        "retry",
}

impl Code {
    /// Returns whether the code occurs only in successful answers, never in a problem.
    pub(crate) fn is_of_success(self) -> bool {
        self.status() < 400
    }

    /// Returns the code of that name.
    pub(crate) fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.word() == word)
    }

    /// Returns whether the same request may succeed later.
    pub(crate) fn is_retryable(self) -> bool {
        let is_passing = matches!(
            self,
            Self::BodyIncomplete
                | Self::Paused
                | Self::RequestInProgress
                | Self::MoveUnderWay
                | Self::AdmissionLost
        );
        is_passing || matches!(self.status(), 429 | 503)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        env, fs,
        path::{Path, PathBuf},
    };

    use super::*;

    /// The page for people, which holds the table.
    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/errors.md");
    const HEAD: &str = "| code | status | what to do |\n|---|---|---|\n";
    /// Variable that has the table written into the page.
    const ACCEPT: &str = "ACCEPT_GOLDEN";

    /// Returns the table, with neighbours of the same status and advice in one row.
    fn table() -> String {
        let mut rows: Vec<(Vec<Code>, u16, &str)> = Vec::new();
        for &code in Code::ALL {
            match rows.last_mut() {
                Some((codes, status, advice))
                    if (*status, *advice) == (code.status(), code.advice()) =>
                {
                    codes.push(code);
                }
                _ => rows.push((vec![code], code.status(), code.advice())),
            }
        }
        let row = |(codes, status, advice): (Vec<Code>, u16, &str)| {
            let words: Vec<_> = codes.iter().map(|code| format!("`{}`", code.word())).collect();
            format!("| {} | {status} | {advice} |\n", words.join(", "))
        };
        rows.into_iter().map(row).collect()
    }

    #[test]
    fn the_page_of_errors_shows_this_list() {
        let page = fs::read_to_string(PAGE).unwrap();
        let (before, rest) = page.split_once(HEAD).unwrap();
        let (shown, after) = rest.split_at(rest.find("\n\n").unwrap() + 1);
        if env::var_os(ACCEPT).is_some() {
            fs::write(PAGE, format!("{before}{HEAD}{}{after}", table())).unwrap();
        } else {
            assert_eq!(shown, table(), "ACCEPT_GOLDEN=1 writes it");
        }
    }

    #[test]
    fn every_code_is_answered_somewhere() {
        let mut text = String::new();
        let mut paths = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
        while let Some(path) = paths.pop() {
            if path.is_dir() {
                paths.extend(fs::read_dir(&path).unwrap().map(|file| file.unwrap().path()));
            } else if path.file_name() != Path::new(file!()).file_name() {
                let file = fs::read_to_string(&path).unwrap();
                text.push_str(file.split("#[cfg(test)]").next().unwrap());
            }
        }
        let after =
            |part: &str| part.chars().take_while(|c| c.is_alphanumeric()).collect::<String>();
        let used: BTreeSet<String> = text.split("Code::").skip(1).map(after).collect();
        let unused: Vec<_> =
            Code::ALL.iter().filter(|code| !used.contains(&format!("{code:?}"))).collect();
        assert!(unused.is_empty(), "nothing answers {unused:?}");
    }

    #[test]
    fn names_and_words_agree() {
        for code in Code::ALL {
            let name: String = code
                .word()
                .split('_')
                .map(|part| part[..1].to_owned() + &part[1..].to_lowercase())
                .collect();
            assert_eq!(format!("{code:?}"), name);
            assert_eq!(Code::from_word(code.word()), Some(*code));
            let says_so = matches!(code.status(), 429 | 503) || code.advice().contains("retryable");
            assert_eq!(code.is_retryable(), says_so, "{code:?}");
        }
        assert!(Code::Paused.is_retryable() && Code::RateLimited.is_retryable());
        assert!(!Code::SoldOut.is_retryable());
    }
}
