//! A sample of the live figures, as it is sent.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use chrono::{DateTime, Utc};
use coupon::{MerchantId, Template, TemplateState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    fleet::impact::ImpactJson,
    http::{
        instant::instant,
        schemas::{ClaimMode, Id, Instant},
    },
    live::{Frames, figures::Figures},
    stats::last_second::Rates,
};

/// The live figures of all sales that the caller may see, as of one moment.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveSample, examples(json!({
    "now": "2026-11-27T08:00:01.000Z",
    "impact": {
        "state": "well", "sentence": "All is well: claims, queued claims, payments, lists and expiry work.",
        "claims": "works", "queued_claims": "works", "payments": "works", "lists": "works", "expiry": "works",
        "cause": null, "action": null, "since": null, "also": []
    },
    "templates": [{
        "id": "2123985067360387072", "name": "Black Friday", "merchant_id": "2123985064051081216", "state": "open",
        "claim_starts_at": "2026-11-27T08:00:00.000Z", "claim_ends_at": "2026-11-27T20:00:00.000Z",
        "claim_mode": "queued", "gate_loaded": true, "total": 1000, "landed": 700, "confirmed": 660, "held": 40,
        "in_flight": 5, "queued": 2, "left": 295, "drift": null, "claims_in_flight": 5, "claims_queued": 2,
        "last_second": { "claims": 120, "landed": 90, "accepted": 0, "refused": { "LIMIT_REACHED": 30 }, "undecided": 0 }
    }],
    "left_out": 0
})))]
pub(crate) struct SampleJson {
    /// When it was made, by the clock of sales.
    #[schema(value_type = Instant)]
    now: String,
    /// What works for users, as `GET /v1/health` has it. For keys that may not read health without cause, remedy and other
    /// causes. Null: not known.
    #[schema(required = true)]
    impact: Option<ImpactJson>,
    /// What is open, is paused, or opens within `PRELOAD_SECONDS`, in this order. Null: not known.
    #[schema(required = true)]
    templates: Option<Vec<LiveTemplateJson>>,
    /// How many further ones are left out: a sample has at most 256 of all merchants. Null: not known.
    #[schema(required = true)]
    left_out: Option<u64>,
}

/// A template, live. Of its coupons: `confirmed + held + in_flight + left + drift = total`, where a null drift counts as
/// 0. Null: not known at the moment, never 0.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveTemplate)]
pub(crate) struct LiveTemplateJson {
    #[schema(value_type = Id)]
    id: String,
    name: String,
    #[schema(value_type = Id)]
    merchant_id: String,
    /// `paused`: in MySQL, or at its gate while MySQL is away.
    #[schema(pattern = "^(upcoming|open|paused)$")]
    state: &'static str,
    #[schema(value_type = Instant)]
    claim_starts_at: String,
    #[schema(value_type = Instant)]
    claim_ends_at: String,
    #[schema(value_type = ClaimMode)]
    claim_mode: &'static str,
    /// Whether the gate decides claims.
    #[schema(required = true)]
    gate_loaded: Option<bool>,
    /// Sum of all stock movements.
    #[schema(required = true)]
    total: Option<i64>,
    /// In MySQL, without those that came back: `confirmed` and `held`.
    #[schema(required = true)]
    landed: Option<i64>,
    #[schema(required = true)]
    confirmed: Option<i64>,
    /// Null also: more than 10,000, too many to count each second.
    #[schema(required = true)]
    held: Option<i64>,
    /// Between the gate and MySQL: admitted and not landed, or given back and not at the gate yet.
    #[schema(required = true)]
    in_flight: Option<i64>,
    /// Those of them that are queued.
    #[schema(required = true)]
    queued: Option<i64>,
    /// What the gate has left to give.
    #[schema(required = true)]
    left: Option<i64>,
    /// What no claim and no movement explains: 0 in a sound system. Null: it cannot be judged while claims run.
    #[schema(required = true)]
    drift: Option<i64>,
    /// Claims, not coupons, that are not known to the gate to have ended.
    #[schema(required = true)]
    claims_in_flight: Option<u64>,
    /// Those of them that are queued.
    #[schema(required = true)]
    claims_queued: Option<u64>,
    /// Answers to claims in the last whole second, of the api that sends this.
    #[schema(required = true)]
    last_second: Option<LastSecondJson>,
}

/// Answers of one api to the claims of a template in one second.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveSecond)]
struct LastSecondJson {
    /// All answers.
    claims: u64,
    /// Landed now: 201.
    landed: u64,
    /// In a queue: 202.
    accepted: u64,
    /// Refusals by code (docs/errors.md).
    #[schema(value_type = BTreeMap<String, u64>)]
    refused: BTreeMap<&'static str, u64>,
    /// Answers that decided nothing: 503.
    undecided: u64,
}

/// What a template's gate says. `None`: it is not loaded or not known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct AtGate {
    pub(super) is_loaded: Option<bool>,
    pub(super) is_halted: bool,
    pub(super) claims_in_flight: Option<u64>,
    pub(super) claims_queued: Option<u64>,
}

/// A sample, before it is written for each kind of viewer.
pub(super) struct Sample {
    pub(super) now: DateTime<Utc>,
    pub(super) for_on_call: Option<ImpactJson>,
    pub(super) for_merchants: Option<ImpactJson>,
    /// `None`: not known.
    pub(super) templates: Option<Shown>,
}

/// The templates of a sample.
pub(super) struct Shown {
    pub(super) templates: Vec<(MerchantId, LiveTemplateJson)>,
    /// How many of each merchant are left out.
    pub(super) left_out: HashMap<MerchantId, u64>,
}

impl LiveTemplateJson {
    pub(super) fn of(
        template: &Template,
        figures: Figures,
        gate: AtGate,
        rates: Option<Rates>,
        now: DateTime<Utc>,
    ) -> Self {
        let is_paused = template.state == TemplateState::Paused || gate.is_halted;
        let is_ahead = now < template.window.starts_at;
        let state = match (is_paused, is_ahead) {
            (true, _) => "paused",
            (false, true) => "upcoming",
            (false, false) => "open",
        };
        let Figures { total, landed, held, confirmed, in_flight, queued, left, drift } = figures;
        Self {
            id: template.id.to_string(),
            name: template.name.clone(),
            merchant_id: template.merchant_id.to_string(),
            state,
            claim_starts_at: instant(template.window.starts_at),
            claim_ends_at: instant(template.window.ends_at),
            claim_mode: template.claim_mode.word(),
            gate_loaded: gate.is_loaded,
            total,
            landed,
            confirmed,
            held,
            in_flight,
            queued,
            left,
            drift,
            claims_in_flight: gate.claims_in_flight,
            claims_queued: gate.claims_queued,
            last_second: rates.map(LastSecondJson::of),
        }
    }
}

impl LastSecondJson {
    fn of(rates: Rates) -> Self {
        let Rates { claims, landed, accepted, refused, undecided } = rates;
        Self { claims, landed, accepted, refused, undecided }
    }
}

impl Sample {
    /// Writes the sample once for each kind of viewer.
    pub(super) fn frames(self) -> Frames {
        let Self { now, for_on_call, for_merchants, templates } = self;
        let written = |impact: Option<&ImpactJson>, templates, left_out| -> Arc<str> {
            let impact = impact.cloned();
            let sample = SampleJson { now: instant(now), impact, templates, left_out };
            serde_json::to_string(&sample).unwrap_or_default().into()
        };
        let Some(Shown { templates, mut left_out }) = templates else {
            let all = written(for_on_call.as_ref(), None, None);
            let others = written(for_merchants.as_ref(), None, None);
            return Frames { all, by_merchant: HashMap::new(), others };
        };
        let merchants: Vec<MerchantId> = templates.iter().map(|(merchant, _)| *merchant).collect();
        let everything = templates.into_iter().map(|(_, template)| template).collect();
        let left_out_of_all: u64 = left_out.values().sum();
        // Written, and taken back for the merchants.
        let sample = SampleJson {
            now: instant(now),
            impact: for_on_call,
            templates: Some(everything),
            left_out: Some(left_out_of_all),
        };
        let all: Arc<str> = serde_json::to_string(&sample).unwrap_or_default().into();
        let mut own: HashMap<MerchantId, Vec<LiveTemplateJson>> = HashMap::new();
        for (merchant, template) in merchants.into_iter().zip(sample.templates.unwrap_or_default())
        {
            own.entry(merchant).or_default().push(template);
        }
        let impact = for_merchants.as_ref();
        let mut by_merchant: HashMap<MerchantId, Arc<str>> = HashMap::new();
        for (merchant, templates) in own {
            let more = left_out.remove(&merchant).unwrap_or(0);
            by_merchant.insert(merchant, written(impact, Some(templates), Some(more)));
        }
        // Of these merchants, all are left out.
        for (merchant, more) in left_out {
            by_merchant.insert(merchant, written(impact, Some(Vec::new()), Some(more)));
        }
        let others = written(impact, Some(Vec::new()), Some(0));
        Frames { all, by_merchant, others }
    }
}

#[cfg(test)]
mod tests {
    use coupon::TemplateId;
    use serde_json::Value;

    use super::*;

    fn shown(merchant: i64, id: i64) -> (MerchantId, LiveTemplateJson) {
        let now = DateTime::UNIX_EPOCH;
        let merchant_id = MerchantId(merchant);
        let template = Template { merchant_id, ..testkit::draft(TemplateId(id), now) };
        let json =
            LiveTemplateJson::of(&template, Figures::default(), AtGate::default(), None, now);
        (merchant_id, json)
    }

    fn sample(templates: Option<Shown>) -> Frames {
        let now = DateTime::UNIX_EPOCH;
        Sample { now, for_on_call: None, for_merchants: None, templates }.frames()
    }

    /// The templates of a text, and how many are left out.
    fn read(text: &str) -> (Vec<String>, Value) {
        let sample: Value = serde_json::from_str(text).unwrap();
        let templates = sample["templates"].as_array().into_iter().flatten();
        let ids = templates.map(|template| template["id"].as_str().unwrap().to_owned());
        (ids.collect(), sample["left_out"].clone())
    }

    #[test]
    fn a_merchant_reads_of_its_own_templates_and_of_those_left_out_alone() {
        let templates = vec![shown(1, 10), shown(2, 20), shown(1, 11)];
        let left_out = HashMap::from([(MerchantId(1), 3), (MerchantId(3), 5)]);
        let frames = sample(Some(Shown { templates, left_out }));
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(read(&frames.all), (ids(&["10", "20", "11"]), 8.into()));
        for (merchant, own, more) in
            [(1, &["10", "11"][..], 3), (2, &["20"][..], 0), (3, &[][..], 5), (4, &[][..], 0)]
        {
            let text = frames.of(Some(MerchantId(merchant)));
            assert_eq!(read(&text), (ids(own), more.into()), "merchant {merchant}");
        }
    }

    #[test]
    fn what_is_not_known_is_null() {
        let frames = sample(None);
        for text in [&frames.all, &frames.others] {
            let wanted = r#"{"now":"1970-01-01T00:00:00.000Z","impact":null,"templates":null,"left_out":null}"#;
            assert_eq!(&**text, wanted);
        }
        let (_, template) = shown(1, 10);
        let template = serde_json::to_value(&template).unwrap();
        for field in [
            "gate_loaded",
            "total",
            "landed",
            "confirmed",
            "held",
            "in_flight",
            "queued",
            "left",
            "drift",
            "claims_in_flight",
            "claims_queued",
            "last_second",
        ] {
            assert!(template[field].is_null(), "{field}: {template}");
        }
    }
}
