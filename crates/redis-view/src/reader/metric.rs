//! The metrics of readers and rebuilds.

use runtime::metric::{Kind, Label, Metric};

pub const REBUILDS: Metric = Metric {
    name: "coupon_view_rebuilds_total",
    kind: Kind::Counter,
    unit: "rebuilds",
    labels: &[Label { name: "result", values: &["whole", "overtaken", "failed"] }],
    meaning: "of views: `whole`; `overtaken`: the view was lost or dropped meanwhile; `failed`: \
              Redis or MySQL did not answer",
    worry: Some(
        "[ApiErrors](operate/runbook.md#apierrors), [ViewTooSmall](operate/runbook.md#viewtoosmall)",
    ),
};

pub const DROPPED_VIEWS: Metric = Metric {
    name: "coupon_dropped_views_total",
    kind: Kind::Counter,
    unit: "views",
    labels: &[Label { name: "reason", values: &["unreadable", "wrong_type"] }],
    meaning: "damaged lists that a reader dropped: `unreadable`, `wrong_type`; the log names the \
              user",
    worry: Some("any"),
};
