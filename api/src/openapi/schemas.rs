//! Schemas of what has no struct of its own on the wire: ids, times, words, keys.

use std::borrow::Cow;

use coupon::limit;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, SchemaFormat, Type},
    },
};

/// A schema that others refer to by its name.
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
    /// A time.
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
    /// Where the next page begins.
    Cursor,
    text("The `next_cursor` of the page before, of the same collection and filter. Opaque.")
        .min_length(Some(1))
);

named!(
    /// An `If-None-Match`.
    IfNoneMatch,
    text("Entity tags, or `*` (RFC 9110, 13.1.2).").examples(["W/\"2.Open.873\""])
);

named!(
    /// An `If-Match`.
    IfMatch,
    text("Entity tags, or `*` (RFC 9110, 13.1.1). Weak ones match nothing.")
        .pattern(Some(r#"^(\*|(W/)?"[!#-~]*"( *, *(W/)?"[!#-~]*")*)$"#))
        .examples(["\"2\""])
);

named!(
    /// Where a template stands.
    TemplateState,
    words(&{
        use coupon::TemplateState::{Draft, Ended, Paused, Published};
        [Draft, Published, Paused, Ended].map(coupon::TemplateState::word)
    })
);

named!(
    /// What a template can be told to do.
    TemplateVerb,
    words(&["publish", "pause", "resume", "end"])
);

named!(
    /// A right of a key; the later ones include the earlier ones.
    Scope,
    words(&coupon::Scope::ALL.map(coupon::Scope::word))
);

named!(
    /// What kind of discount.
    DiscountKind,
    words(&{
        use coupon::DiscountKind::{AmountOff, FreeShipping, PercentOff};
        [AmountOff, PercentOff, FreeShipping].map(coupon::DiscountKind::word)
    })
);

named!(
    /// What became of a coupon.
    CouponStatus,
    words(&{
        use coupon::CouponStatus::{Expired, Unused, Used};
        [Unused, Used, Expired].map(coupon::CouponStatus::word)
    })
);

named!(
    /// How far issued coupons have followed.
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
