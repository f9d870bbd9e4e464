//! Calls of a checkout.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{
    api::call::Call,
    arguments::{
        LockArguments, RedeemArguments, RedemptionCommand, RollbackArguments, SingleUse, Spend,
        ValidateArguments,
    },
    commands::money,
    failure::Failure,
};

pub(crate) fn redeem(arguments: RedeemArguments) -> Result<Call, Failure> {
    let RedeemArguments { order_ref, coupons, spend, of } = arguments;
    let mut body = json!({
        "order_ref": order_ref, "amount": amount(&spend)?, "currency": spend.currency,
        "coupons": ids(&coupons),
    });
    name_user(&mut body, of.user);
    Ok(Call::post("/v1/redemptions").with_body(body))
}

pub(crate) fn redemption(command: &RedemptionCommand) -> Call {
    let RedemptionCommand::Show { order_ref } = command;
    Call::get(path_of(order_ref))
}

pub(crate) fn roll_back(arguments: RollbackArguments) -> Call {
    let RollbackArguments { order_ref, coupons, reason } = arguments;
    let mut body = json!({ "reason": reason });
    if !coupons.is_empty() {
        body["coupons"] = json!(ids(&coupons));
    }
    Call::post(format!("{}/rollback", path_of(&order_ref))).with_body(body)
}

pub(crate) fn validate(arguments: ValidateArguments) -> Result<Call, Failure> {
    let ValidateArguments { coupon, order_ref, spend, of } = arguments;
    let mut body = json!({ "amount": amount(&spend)?, "currency": spend.currency });
    if let Some(order_ref) = order_ref {
        body["order_ref"] = json!(order_ref);
    }
    name_user(&mut body, of.user);
    Ok(Call::post(format!("/v1/coupons/{coupon}/validate")).with_body(body))
}

pub(crate) fn lock(arguments: LockArguments) -> Call {
    let LockArguments { coupon, order_ref, seconds, of } = arguments;
    let mut body = json!({ "order_ref": order_ref, "for_ms": seconds * 1_000 });
    name_user(&mut body, of.user);
    Call::post(format!("/v1/coupons/{coupon}/lock")).with_body(body)
}

/// A use of one coupon, or its return.
pub(crate) fn single(verb: &str, arguments: &SingleUse) -> Call {
    let SingleUse { coupon, order_ref, user } = arguments;
    let body = json!({ "user_id": user.to_string(), "order_ref": order_ref });
    Call::post(format!("/v1/coupons/{coupon}/{verb}")).with_body(body)
}

/// What the order costs, in minor units.
fn amount(spend: &Spend) -> Result<i64, Failure> {
    money::read_of_order("--amount", &spend.amount, &spend.currency)
}

fn name_user(body: &mut Value, user: Option<i64>) {
    if let Some(user) = user {
        body["user_id"] = json!(user.to_string());
    }
}

fn ids(ids: &[i64]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

/// Path of an order. Whatever may mean something else in a path is percent-encoded.
fn path_of(order_ref: &str) -> String {
    order_ref.bytes().fold("/v1/redemptions/".to_owned(), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) {
            path.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _written = write!(path, "%{byte:02X}");
        }
        path
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_any_name_is_one_segment_of_a_path() {
        assert_eq!(path_of("A-1"), "/v1/redemptions/A-1");
        assert_eq!(path_of("a/b ?ö."), "/v1/redemptions/a%2Fb%20%3F%C3%B6%2E");
    }
}
