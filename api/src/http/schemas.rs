//! Schemas of values that have no struct of their own: ids, times, words, keys.

use std::borrow::Cow;

use coupon::limit;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, SchemaFormat, SchemaType, Type},
    },
};

/// Defines a schema that others refer to by its name.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let schema: ObjectBuilder = $schema;
                schema.into()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                stringify!($name).into()
            }
        }
    };
}

named!(
    /// An id in a string.
    Id,
    text("A decimal number from 0 to 9223372036854775807.")
        .pattern(Some("^[0-9]{1,19}$"))
        .examples(["468523071447257089"])
);

named!(
    Instant,
    text("RFC 3339. Answers are in UTC, to the millisecond; requests may have any offset.")
        .format(Some(SchemaFormat::Custom("date-time".to_owned())))
        .examples(["2026-11-27T08:00:00.000Z"])
);

named!(
    /// An `Idempotency-Key`.
    RequestId,
    text(
        "Names a request: the same key again is the same answer, never the same effect twice. \
         Characters 0x21 to 0x7E; not beginning with `~`, and not only `*`."
    )
    .min_length(Some(1))
    .max_length(Some(limit::REQUEST_ID_BYTES_MAX))
    .pattern(Some(r"^([!-)+-}][!-~]{0,63}|\*[!-~]{1,63})$"))
    .examples(["7f9c24e8-3b12-4fef-91e0-5a1c6d2b9b3f"])
);

named!(
    /// The position of a page in a list.
    Cursor,
    text("The `next_cursor` of the page before, of the same collection and filter. Opaque.")
        .min_length(Some(1))
);

named!(
    /// A key's id, or the platform's own key, which has none.
    KeyOrPlatform,
    text("A key's id, or `platform` for the platform's own key.")
        .pattern(Some("^([0-9]{1,19}|platform)$"))
);

named!(
    /// The value of an `If-None-Match` header.
    IfNoneMatch,
    text("Entity tags, or `*` (RFC 9110, 13.1.2).").examples(["W/\"2.Open.873\""])
);

named!(
    /// The value of an `If-Match` header.
    IfMatch,
    text("Entity tags, or `*` (RFC 9110, 13.1.1). Weak ones match nothing.")
        .pattern(Some(r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#))
        .examples(["\"2\""])
);

named!(
    TemplateState,
    words(&{
        use coupon::TemplateState::{Draft, Ended, Paused, Published};
        [Draft, Published, Paused, Ended].map(coupon::TemplateState::word)
    })
);

named!(
    /// A change of a template's state.
    TemplateVerb,
    words(&coupon::TemplateState::TRANSITIONS.map(|way| way.by))
);

named!(
    /// A right of a key. `operate` includes `read`, and `admin` both; `redeem` stands alone. `emergency` includes `read`, sees
    /// every merchant's templates, and pauses and resumes them.
    Scope,
    words(&coupon::Scope::ALL.map(coupon::Scope::word))
);

named!(
    DiscountKind,
    words(&{
        use coupon::DiscountKind::{AmountOff, FreeShipping, PercentOff};
        [AmountOff, PercentOff, FreeShipping].map(coupon::DiscountKind::word)
    })
);

named!(
    /// A percentage. Answers have a text; a request may also have a JSON number, which is nothing else.
    Percent,
    ObjectBuilder::new()
        .schema_type(SchemaType::from_iter([Type::String, Type::Number]))
        .description(Some(
            "A percentage with at most two decimals, as a text or a number: 20 is a fifth. Answers have the text.",
        ))
        .pattern(Some(r"^[0-9]+(\.[0-9]{1,2})?$"))
        .examples(["20", "12.5"])
);

named!(
    /// How claims are answered. `direct`: 201, when they have landed. `queued`: 202, and they land behind a queue. `spill`:
    /// 201 while MySQL keeps up, and 202 beyond.
    ClaimMode,
    words(&coupon::ClaimMode::ALL.map(coupon::ClaimMode::word))
);

named!(
    /// What must have a queued claim before it is answered 202: the `gate`, a `replica` of it, or the `topic`, so that no
    /// loss of Redis loses it.
    AcceptAfter,
    words(&coupon::AcceptAfter::ALL.map(coupon::AcceptAfter::word))
);

named!(
    /// What becomes of a coupon that lapsed or was cancelled while it was held or confirmed: `resell` puts it on sale again,
    /// `retire` takes it out of the total.
    ReturnedStock,
    words(&coupon::ReturnedStock::ALL.map(coupon::ReturnedStock::word))
);

named!(
    /// What becomes of claims that were accepted before a pause or an end and have not landed.
    AcceptedClaims,
    words(&coupon::AcceptedClaims::ALL.map(coupon::AcceptedClaims::word))
);

named!(
    /// What changed a stock: a `claim` landed, the `total` was changed, a `return` of lapsed or cancelled coupons, or the `lift`
    /// of a ban, which moves nothing.
    LedgerKind,
    words(&["claim", "total", "return", "lift"])
);

named!(
    /// What a movement of the stock is.
    MovementKind,
    words(&["total", "return", "lift"])
);

named!(LedgerFormat, words(&["csv"]));

named!(CouponStatus, words(&coupon::CouponStatus::ALL.map(coupon::CouponStatus::word)));

named!(
    /// The state of a job.
    JobState,
    words(&coupon::JobState::ALL.map(coupon::JobState::word))
);

named!(
    /// What became of a job's row.
    RowOutcome,
    words(&coupon::RowOutcome::ALL.map(coupon::RowOutcome::word))
);

named!(
    /// What a reconciler found wrong. `account`: a template's total or stock is not its ledger's sum, or its coupons are not
    /// what landed. `oversold`: it gave more than it has. `claim`: a claim and its coupons disagree. `limit`: a user has more
    /// than the limit. `number_leaked`, `number_missing`: the gate takes a number for held, or for free, that is not.
    /// `request`: a request at the gate is not what the database has, or nobody ends it. `gate_stock`: the gate offers another
    /// stock. `view`: a user's list is not what the database has. `late`: something is overdue, and nothing is wrong yet.
    FindingKind,
    words(&coupon::FindingKind::ALL.map(coupon::FindingKind::word))
);

named!(
    /// What became of a finding. `overtaken`: what it judged is gone, or a later look did not find it.
    FindingState,
    words(&coupon::FindingState::ALL.map(coupon::FindingState::word))
);

named!(
    /// The state of moving issued coupons to a new validity.
    MoveState,
    words(&{
        use coupon::MoveState::{Finished, Superseded, UnderWay};
        [UnderWay, Finished, Superseded].map(coupon::MoveState::word)
    })
);

fn text(description: &str) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).description(Some(description))
}

fn words(words: &[&str]) -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()))
}
