//! The first sentence as the API has it.

use serde::Serialize;
use utoipa::ToSchema;

use super::first_sentence::FirstSentence;
use crate::http::{instant::instant, schemas::Instant};

/// What users notice, why, and what to do. An ability is `works`, `late` (later than usual, or not for everybody),
/// `stopped` or `unknown`.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Impact)]
pub(crate) struct ImpactJson {
    /// `down`: it does not sell. `degraded`: something else is late or stopped, or will be. `unknown`: not everything is
    /// known.
    #[schema(pattern = "^(well|degraded|down|unknown)$")]
    state: &'static str,
    /// All of it, for people.
    sentence: String,
    /// Claims that are answered once they have landed.
    #[schema(pattern = "^(works|late|stopped|unknown)$")]
    claims: &'static str,
    /// Claims of templates that queue. `late`: they are taken, and land later. `unknown`: also if the platform runs no
    /// queue.
    #[schema(pattern = "^(works|late|stopped|unknown)$")]
    queued_claims: &'static str,
    /// Confirmations of holds. `late`: those by HTTP work, those sent as messages wait.
    #[schema(pattern = "^(works|late|stopped|unknown)$")]
    payments: &'static str,
    /// Users' lists of coupons. `late`: they lack what is new, or some are not served.
    #[schema(pattern = "^(works|late|stopped|unknown)$")]
    lists: &'static str,
    /// Marking coupons as expired, and returning holds that lapsed. No coupon can be used late.
    #[schema(pattern = "^(works|late|stopped|unknown)$")]
    expiry: &'static str,
    /// What explains most of it. Null: all is well.
    #[schema(required = true)]
    cause: Option<String>,
    /// What to do about the cause. Null: nothing.
    #[schema(required = true)]
    action: Option<String>,
    /// Since when the cause lasts. Null: unknown, or all is well.
    #[schema(value_type = Option<Instant>, required = true)]
    since: Option<String>,
    /// The other causes.
    also: Vec<String>,
}

impl ImpactJson {
    pub(crate) fn of(said: FirstSentence) -> Self {
        Self {
            state: said.condition.word(),
            sentence: said.sentence,
            claims: said.abilities.claims.word(),
            queued_claims: said.abilities.queued_claims.word(),
            payments: said.abilities.payments.word(),
            lists: said.abilities.lists.word(),
            expiry: said.abilities.expiry.word(),
            cause: said.cause,
            action: said.action,
            since: said.since.map(instant),
            also: said.also,
        }
    }

    /// Returns what a merchant may know of it: what works for its users, and since when the rest does not. Cause and
    /// remedy name servers of the platform, and are for those on call.
    pub(crate) fn for_merchants(said: FirstSentence) -> Self {
        let sentence = said.effect.clone();
        let told = Self::of(said);
        Self { sentence, cause: None, action: None, also: Vec::new(), ..told }
    }
}
