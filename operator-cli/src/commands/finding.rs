//! What the reconciler found, as calls of the api.

use serde_json::json;

use crate::{
    api::call::Call,
    arguments::FindingCommand,
    commands::{AsText, paged},
    text,
};

/// Columns of findings.
const FINDINGS: [&str; 6] = ["id", "kind", "state", "last_seen", "coupons", "line"];

pub(crate) fn call(command: FindingCommand) -> (Call, AsText) {
    match command {
        FindingCommand::List { kind, state, template, merchant, page } => {
            let filters = [
                ("kind", kind),
                ("state", state),
                ("template_id", template.map(|id| id.to_string())),
                ("merchant_id", merchant),
            ];
            let given = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let call = paged("/v1/findings", page);
            let call = given.fold(call, |call, (name, value)| call.with_query(name, value));
            (call, |answer| text::page(answer, &FINDINGS))
        }
        FindingCommand::Show(it) => {
            (Call::get(format!("/v1/findings/{}", it.finding_id)), text::object)
        }
        FindingCommand::Accept { finding, why } => {
            let call = Call::post(format!("/v1/findings/{}/accept", finding.finding_id));
            (call.with_body(json!({ "reason": why.reason })), text::object)
        }
    }
}
