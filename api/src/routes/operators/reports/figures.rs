//! Figures of answers that time series and report share.

use std::collections::BTreeMap;

use chrono::DateTime;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    http::{instant::instant, schemas::Instant},
    stats::{
        buckets::{ACCEPTED, Answers, LANDED, REPLAYED},
        history::Known,
    },
};

/// Answers to claims. Durations are upper bounds of buckets (1, 2, 5, 10, 20, 50 … 15,000 ms).
#[derive(Serialize, ToSchema)]
#[schema(as = AnswerCounts)]
pub(crate) struct FiguresJson {
    /// All answers.
    requests: u64,
    /// Claims that landed, without repeated answers.
    landed: u64,
    /// Repeated answers of landed claims.
    replayed: u64,
    /// Queued claims that were answered 202, with repeated answers. They land, or are rejected, later.
    accepted: u64,
    /// Refusals by code (docs/errors.md).
    refused: BTreeMap<String, u64>,
    /// Answers that decided nothing (503), by code: the claim may have landed, and the same key finds out.
    unknown: BTreeMap<String, u64>,
    /// Half of all answers took at most this long. Null: there are none.
    #[schema(required = true)]
    p50_ms: Option<u32>,
    /// 99 of 100 answers took at most this long.
    #[schema(required = true)]
    p99_ms: Option<u32>,
    /// As `p99_ms`, of the claims that landed.
    #[schema(required = true)]
    landed_p99_ms: Option<u32>,
}

/// What is known of a span.
#[derive(Serialize, ToSchema)]
#[schema(as = KnownSpan)]
pub(crate) struct KnownJson {
    /// Whether all of the span's statistics were read. Otherwise counts are too low: the span is older than 30 days, the
    /// time for reading was over, or the statistics cannot be read.
    pub(crate) complete: bool,
    /// Begin of what was read. Null: nothing could be read.
    #[schema(value_type = Option<Instant>, required = true)]
    known_from: Option<String>,
    /// End of what was read. The newest two seconds may still be missing.
    #[schema(value_type = Option<Instant>, required = true)]
    known_to: Option<String>,
}

impl From<&Answers> for FiguresJson {
    fn from(answers: &Answers) -> Self {
        let all = answers.all();
        let landed = answers.of(LANDED);
        Self {
            requests: all.total(),
            landed: landed.total(),
            replayed: answers.of(REPLAYED).total(),
            accepted: answers.of(ACCEPTED).total(),
            refused: answers.refused(),
            unknown: answers.unknown(),
            p50_ms: all.quantile_ms(50),
            p99_ms: all.quantile_ms(99),
            landed_p99_ms: landed.quantile_ms(99),
        }
    }
}

impl KnownJson {
    pub(crate) fn of(known: Option<&Known>) -> Self {
        Self {
            complete: known.is_some_and(Known::is_complete),
            known_from: known.map(|known| time(known.from)),
            known_to: known.map(|known| time(known.to)),
        }
    }
}

/// Formats a time in seconds since 1970.
pub(crate) fn time(second: i64) -> String {
    instant(DateTime::from_timestamp(second, 0).unwrap_or_default())
}
