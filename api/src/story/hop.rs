//! One hop of a claim's way, as it is answered.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::usual::Usual;
use crate::http::{
    instant::instant,
    schemas::{Id, Instant},
};

/// One hop of a claim's way.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = ClaimHop)]
pub(crate) struct Hop {
    /// `received`, `admitted` by the gate, `relayed` to the topic of claims, `taken` by a lander from there, `landed` in
    /// MySQL, or `rejected`, `given_up` or `lost` instead; then `published` as a change event, `visible` on its user's list; and of
    /// each coupon `armed`, with its deadline, and `redeemed`, `expired` or `cancelled`.
    #[schema(
        pattern = "^(received|admitted|relayed|taken|landed|rejected|given_up|lost|published|visible|armed|redeemed|expired|cancelled)$"
    )]
    pub(crate) hop: &'static str,
    /// `done`; `pending`: it is still to come; `skipped`: this claim does not come there; `unknown`: see `why`.
    #[schema(pattern = "^(done|pending|skipped|unknown)$")]
    pub(crate) state: &'static str,
    /// When it was done, by the clock of the process that did it; of `landed`, when the tailer read the commit, or the end
    /// of the second that the binlog names, if that was before. Null: it is not done, or nothing keeps its time.
    #[schema(value_type = Option<Instant>, required = true)]
    pub(crate) at: Option<String>,
    /// Time since the last hop before it whose time is known; of the hop that is waited for, until now; of `expired`, since
    /// the coupon's deadline. Null: it cannot be said, or says nothing.
    #[schema(required = true)]
    pub(crate) took_ms: Option<i64>,
    /// What it takes at most in 99 of 100 cases (docs/performance.md); of a wait in a queue, what is still no trouble. Null:
    /// there is no figure.
    #[schema(required = true)]
    pub(crate) usual_p99_ms: Option<u32>,
    /// Whether it took longer. Null: it cannot be said.
    #[schema(required = true)]
    pub(crate) late: Option<bool>,
    /// What was measured for `usual_p99_ms`, or is the goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) usual_of: Option<&'static str>,
    /// Why it is pending, skipped or unknown, or its time is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) why: Option<String>,
    #[serde(flatten)]
    pub(crate) traces: Traces,
}

/// What a hop left behind.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
#[schema(as = ClaimHopTraces)]
pub(crate) struct Traces {
    /// Stock of the gate before the claim was admitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64)]
    pub(crate) stock_from: Option<i64>,
    /// Stock of the gate behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64)]
    pub(crate) stock_to: Option<i64>,
    /// Topic of its message.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) topic: Option<String>,
    /// The message's partition.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i32)]
    pub(crate) partition: Option<i32>,
    /// The message's offset.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = i64)]
    pub(crate) offset: Option<i64>,
    /// File of the binlog that has the landing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) binlog_file: Option<String>,
    /// End of the landing's rows in that file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64)]
    pub(crate) binlog_position: Option<u64>,
    /// GTID of the landing, as its server writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) gtid: Option<String>,
    /// The coupon that the hop is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Id)]
    pub(crate) coupon_id: Option<String>,
    /// The coupon's deadline: the end of its validity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Instant)]
    pub(crate) due: Option<String>,
    /// The order that redeemed the coupon.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) order_ref: Option<String>,
    /// Why the claim was rejected (docs/errors.md).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub(crate) code: Option<&'static str>,
}

impl Hop {
    /// A hop of which nothing is known but its state.
    pub(super) fn new(hop: &'static str, state: &'static str) -> Self {
        Self {
            hop,
            state,
            at: None,
            took_ms: None,
            usual_p99_ms: None,
            late: None,
            usual_of: None,
            why: None,
            traces: Traces::default(),
        }
    }

    pub(super) fn done(hop: &'static str, at: Option<DateTime<Utc>>) -> Self {
        Self { at: at.map(instant), ..Self::new(hop, "done") }
    }

    /// Sets how long it took, not below 0: the clocks of two processes may differ.
    pub(super) fn took(self, from: DateTime<Utc>, to: DateTime<Utc>) -> Self {
        Self { took_ms: Some((to - from).num_milliseconds().max(0)), ..self }
    }

    /// Compares with what is usual.
    pub(super) fn beside(self, usual: Option<Usual>) -> Self {
        let Some(usual) = usual else { return self };
        Self {
            usual_p99_ms: Some(usual.p99_ms),
            usual_of: Some(usual.of),
            late: self.took_ms.map(|took| took > i64::from(usual.p99_ms)),
            ..self
        }
    }

    pub(super) fn because(self, why: impl Into<String>) -> Self {
        Self { why: Some(why.into()), ..self }
    }

    pub(super) fn with(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }
}
