//! The metric of the statistics.

use runtime::metric::{Kind, Label, Metric};

pub(crate) const CLAIM_STATS: Metric = Metric {
    name: "api_claim_stats_answers_total",
    kind: Kind::Counter,
    unit: "answers",
    labels: &[Label { name: "fate", values: &["published", "others", "lost"] }],
    meaning: "to claims, counted for reports: `published` under their template; `others`, without \
              one that is known, or beyond 256 templates a second; `lost`: Kafka did not take them \
              in ten minutes, 16,384 newer messages waited, or the api ended",
    worry: Some("any `lost`; many `others`"),
};
