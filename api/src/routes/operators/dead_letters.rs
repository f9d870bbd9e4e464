//! Replays of dead letters. The operator's client performs them on the brokers, which do not identify the operator. The
//! api keeps their lines in the audit record: begun before the first letter is sent, ended after the last.

use std::num::TryFromIntError;

use axum::{Json, extract::State, http::StatusCode};
use coupon::AuditId;
use mysql_store::{StoreError, audit as audit_entry, connect, merchant::PLATFORM};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tracing::info;
use utoipa::ToSchema;

use crate::{
    auth::Operator,
    code::Code,
    http::{
        extract::{Body, PathId},
        schemas::{Id, RequestId},
    },
    problem::Problem,
    routes::audit::{
        self, Action,
        idempotency::{Answer, Begun, Known, Once},
    },
    state::App,
};

/// Name of a replay in the record.
const ACTION: &str = "dead_letter.replay";

/// Path of replays below `/v1`.
const TARGET: &str = "dead-letter-replays";

/// A Kafka offset or a number of messages: not negative, 63 bits.
#[derive(Clone, Copy, Deserialize, Serialize)]
#[serde(try_from = "i64")]
struct Offset(u64);

impl TryFrom<i64> for Offset {
    type Error = TryFromIntError;

    fn try_from(offset: i64) -> Result<Self, Self::Error> {
        offset.try_into().map(Self)
    }
}

/// Dead letters that are about to be put back: from `from_offset` of their topic on, before `to_offset`.
#[derive(Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "from_offset": 3, "to_offset": 7 })))]
pub(crate) struct NewReplay {
    #[schema(value_type = i64, minimum = 0)]
    from_offset: Offset,
    #[schema(value_type = i64, minimum = 0)]
    to_offset: Offset,
}

/// The result of a replay: how many letters were put back, and how many were passed over.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(examples(json!({ "replayed": 3, "passed_over": 1 })))]
pub(crate) struct ReplayEnd {
    #[schema(value_type = i64, minimum = 0)]
    replayed: Offset,
    #[schema(value_type = i64, minimum = 0)]
    passed_over: Offset,
}

/// The line of a replay in the audit record.
#[derive(Serialize, ToSchema)]
#[schema(as = Replay, examples(json!({ "id": "2123985067360387073" })))]
pub(crate) struct ReplayBody {
    #[schema(value_type = Id)]
    id: String,
}

/// `POST /v1/dead-letter-replays`
#[utoipa::path(
    post,
    path = "/v1/dead-letter-replays",
    operation_id = "begin_dead_letter_replay",
    tag = "Operations",
    summary = "Record that dead letters are about to be put back",
    description = "For the platform's merchant. `coupon dead-letters replay` does it.",
    security(("operator_key" = [])),
    params(("Idempotency-Key" = Option<RequestId>, Header, description = "With it the same request may be sent again.")),
    request_body = NewReplay,
    responses((status = 201, description = "Its line of the record, without an end. The same key again is the same answer.", body = ReplayBody)),
    extensions(("x-problems" = json!("PLATFORM_ONLY HOURLY_QUOTA_EXCEEDED IDEMPOTENCY_KEY_INVALID IDEMPOTENCY_KEY_REUSED OVERLOADED")))
)]
pub(crate) async fn begin(
    State(app): State<App>,
    operator: Operator,
    once: Once,
    Body(new): Body<NewReplay>,
) -> Result<Answer, Problem> {
    // Letters concern all merchants, so this is for the platform. Any key of the platform's merchant will do: then the
    // record names a person.
    let merchant_id = operator.merchant(Some(PLATFORM))?;
    let before = json!({ "from_offset": new.from_offset, "to_offset": new.to_offset });
    let action = Action {
        merchant_id,
        name: ACTION.to_owned(),
        target: TARGET.to_owned(),
        before: Some(before),
        after: None,
    };
    let once = once.asking(&new);
    let begin = || begin_once(&app, operator, &once, &action);
    connect::within(connect::retried(begin, Problem::is_contended)).await
}

async fn begin_once(
    app: &App,
    operator: Operator,
    once: &Once,
    action: &Action,
) -> Result<Answer, Problem> {
    let Begun { mut transaction, known } = once.begin(app, operator).await?;
    if let Known::Answer(answer) = known {
        return Ok(answer);
    }
    let id = audit::record(app, operator, &mut transaction, action.clone()).await?;
    let answer = Answer::new(StatusCode::CREATED, &ReplayBody { id: id.to_string() });
    once.end(operator, &mut transaction, &answer).await?;
    app.commit(transaction).await?;
    info!(audit.id = %id, "dead letters are about to be put back");
    Ok(answer)
}

/// `POST /v1/dead-letter-replays/{id}/end`: only the first end is recorded.
#[utoipa::path(
    post,
    path = "/v1/dead-letter-replays/{id}/end",
    operation_id = "end_dead_letter_replay",
    tag = "Operations",
    summary = "Record how a replay of dead letters ended",
    description = "For the key that began it. The first end is final.",
    security(("operator_key" = [])),
    params(("id" = Id, Path, description = "The replay.")),
    request_body = ReplayEnd,
    responses((status = 200, description = "Its line of the record. The same call again is the same answer.", body = ReplayBody))
)]
pub(crate) async fn end(
    State(app): State<App>,
    operator: Operator,
    PathId(id): PathId<AuditId>,
    Body(ended): Body<ReplayEnd>,
) -> Result<Json<ReplayBody>, Problem> {
    let after = json!({ "replayed": ended.replayed, "passed_over": ended.passed_over });
    let complete = || async {
        let mut connection = connect::acquire(&app.pool).await?;
        let entry = audit_entry::get(&mut connection, id).await?;
        let own = entry.is_some_and(|entry| {
            entry.action == ACTION
                && entry.key_id == operator.key_id
                && entry.merchant_id == operator.merchant_id
        });
        if own {
            audit_entry::complete(&mut connection, id, &after.to_string()).await?;
        }
        Ok::<_, StoreError>(own)
    };
    if !connect::within(connect::retried(complete, StoreError::is_conflict)).await? {
        let detail = "No replay of dead letters that this key began has this id.";
        return Err(Problem::new(Code::NotFound, detail));
    }
    info!(audit.id = %id, "dead letters were put back");
    Ok(Json(ReplayBody { id: id.to_string() }))
}
