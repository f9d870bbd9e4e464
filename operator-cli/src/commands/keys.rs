//! Merchants and keys, as calls of the api.

use serde_json::json;

use crate::{
    api::call::Call,
    arguments::{KeyCommand, MerchantCommand, OfMerchant},
    commands::{AsText, paged},
    text,
};

const MERCHANTS: [&str; 3] = ["id", "created_at", "name"];
const KEYS: [&str; 7] =
    ["id", "scopes", "created_at", "expires_at", "revoked_at", "last_used_at", "name"];

/// Advice if it is unknown whether a merchant was created.
const MERCHANT_LISTED: &str = "Look with `coupon merchant list` before you create it again.";

/// Advice if it is unknown whether a key was created. A key that was never shown is useless.
const KEY_LISTED: &str =
    "Look with `coupon key list`, and revoke what was made, before you try again.";

pub(crate) fn merchant(command: MerchantCommand) -> (Call, AsText) {
    match command {
        MerchantCommand::Create { name } => {
            let call = Call::post("/v1/merchants").with_body(json!({ "name": name }));
            (call.once(MERCHANT_LISTED), text::object)
        }
        MerchantCommand::List(page) => {
            (paged("/v1/merchants", page), |answer| text::page(answer, &MERCHANTS))
        }
    }
}

pub(crate) fn key(command: KeyCommand) -> (Call, AsText) {
    match command {
        KeyCommand::Create { name, scopes, expires_at, of } => {
            let mut body = json!({ "name": name, "scopes": scopes });
            if let Some(expires_at) = expires_at {
                body["expires_at"] = expires_at.into();
            }
            if let Some(merchant) = of.merchant {
                body["merchant_id"] = merchant.to_string().into();
            }
            (Call::post("/v1/api-keys").with_body(body).once(KEY_LISTED), text::object)
        }
        KeyCommand::List(of) => {
            (of_merchant(Call::get("/v1/api-keys"), &of), |answer| text::page(answer, &KEYS))
        }
        KeyCommand::Rotate { id, overlap_seconds } => {
            let body = match overlap_seconds {
                Some(seconds) => json!({ "overlap_seconds": seconds }),
                None => json!({}),
            };
            let call = Call::post(format!("/v1/api-keys/{id}/rotate")).with_body(body);
            (call.once(KEY_LISTED), text::object)
        }
        KeyCommand::Revoke { id } => (Call::delete(format!("/v1/api-keys/{id}")), text::object),
    }
}

pub(crate) fn of_merchant(call: Call, of: &OfMerchant) -> Call {
    of.merchant.into_iter().fold(call, |call, id| call.with_query("merchant_id", id))
}
