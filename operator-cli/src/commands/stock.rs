//! The stock of a template, as calls of the api.

use serde_json::json;

use crate::{
    api::{
        Api,
        call::{Call, new_name},
    },
    arguments::{Movement, Settings, StockCommand},
    commands::confirm::confirmed,
    failure::Failure,
};

/// Returns the call of a command; asks before a cut.
///
/// # Errors
/// The cut was not confirmed.
pub(crate) async fn call(command: StockCommand, settings: &Settings) -> Result<Call, Failure> {
    match command {
        StockCommand::Show(it) => Ok(Call::get(format!("/v1/templates/{}/stock", it.id))),
        StockCommand::Add(movement) => Ok(moved(movement, 1)),
        StockCommand::Cut { movement, yes } => {
            let template = movement.id;
            let what = format!("cut its stock by {}", movement.count);
            let call = moved(movement, -1);
            if yes {
                return Ok(call.if_match(ANY_VERSION));
            }
            confirmed(call, template, &what, &Api::new(settings)?).await
        }
    }
}

/// An `If-Match` that is no condition.
pub(crate) const ANY_VERSION: &str = "*";

fn moved(movement: Movement, sign: i64) -> Call {
    let Movement { id, count, reason, request_id } = movement;
    // A unique name: the same command typed again is another movement.
    let request_id = request_id.unwrap_or_else(new_name);
    let body = json!({ "delta": sign * count, "reason": reason });
    Call::post(format!("/v1/templates/{id}/stock-movements")).with_body(body).named(request_id)
}
