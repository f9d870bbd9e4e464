//! The metric of the statistics.

use runtime::metric::{Kind, Label, Metric};

pub(crate) const CLAIM_STATS: Metric = Metric {
    name: "api_claim_stats_answers_total",
    kind: Kind::Counter,
    unit: "answers",
    labels: &[Label { name: "fate", values: &["published", "others", "lost"] }],
    meaning: "answers to claims in the statistics of reports: `published` under their template; \
              `others`, published without it, because nobody knows it or this api answered for \
              more than 256 templates in that second; `lost`, because Kafka did not take them in \
              ten minutes, 16,384 newer messages waited too, or the api ended",
    worry: Some("`lost` rises: reports lack these answers; `others` is a share of all"),
};
