//! Definitions of metrics. A process lists its metrics in tables. It describes them from there for `/metrics`, and a
//! test writes docs/metrics.md from the same tables.

use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};

/// A metric that a process exports.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Ends with its unit, if that is a base unit; a counter's ends with `_total`.
    pub name: &'static str,
    pub kind: Kind,
    /// A base unit, or what is counted.
    pub unit: &'static str,
    pub labels: &'static [Label],
    /// What the value says, in Markdown. A single label's values are explained here, each in backticks.
    pub meaning: &'static str,
    /// What an operator should worry about, in Markdown. `None`: nothing.
    pub worry: Option<&'static str>,
}

/// Metrics that every process exports, whatever it does.
pub const OF_EVERY_PROCESS: [Metric; 3] = [BUILD_INFO, READY, UP_TO];

const BUILD_INFO: Metric = Metric {
    name: "process_build_info",
    kind: Kind::Gauge,
    unit: "1",
    labels: &[Label { name: "version", values: &[] }, Label { name: "commit", values: &[] }],
    meaning: "1; the labels name the build",
    worry: None,
};

pub(crate) const READY: Metric = Metric {
    name: "process_ready",
    kind: Kind::Gauge,
    unit: "0 or 1",
    labels: &[],
    meaning: "1: `/readyz` answers 200",
    worry: Some("0 for a minute"),
};

pub(crate) const UP_TO: Metric = Metric {
    name: "process_up_to",
    kind: Kind::Gauge,
    unit: "0 or 1",
    labels: &[Label { name: "server", values: &[] }, Label { name: "address", values: &[] }],
    meaning: "1: the server answers this process; `/readyz` says more",
    worry: Some("0 for 10 s"),
};

/// Reports the build in a gauge.
pub(crate) fn show_build() {
    let labels = [("version", crate::VERSION), ("commit", crate::COMMIT)];
    gauge!(BUILD_INFO.name, &labels).set(1.0);
}

/// How Prometheus reads a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// Prometheus' word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A label of a metric's series.
#[derive(Debug, Clone, Copy)]
pub struct Label {
    pub name: &'static str,
    /// All its values; empty if they are not a closed set.
    pub values: &'static [&'static str],
}

/// Describes metrics for `/metrics`. Registers counters at 0 and histograms empty, with every label: a counter that
/// first appears with its first increment shows no increase. A gauge appears when it is first set.
pub fn describe(table: &[Metric]) {
    for metric in table {
        match metric.kind {
            Kind::Counter => {
                describe_counter!(metric.name, metric.meaning);
                for labels in series(metric.labels) {
                    counter!(metric.name, labels).absolute(0);
                }
            }
            Kind::Gauge => describe_gauge!(metric.name, metric.meaning),
            Kind::Histogram => {
                describe_histogram!(metric.name, metric.meaning);
                for labels in series(metric.labels) {
                    drop(histogram!(metric.name, labels));
                }
            }
        }
    }
}

/// Returns the labels of each series that is known in advance: every combination of values, or none if the values of a
/// label are not a closed set.
fn series(labels: &[Label]) -> Vec<Vec<metrics::Label>> {
    let mut known: Vec<Vec<metrics::Label>> = vec![Vec::new()];
    for label in labels {
        let mut longer = Vec::new();
        for before in known {
            for &value in label.values {
                let mut with = before.clone();
                with.push(metrics::Label::new(label.name, value));
                longer.push(with);
            }
        }
        known = longer;
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_known_beforehand_for_each_combination_of_closed_values() {
        let state = Label { name: "state", values: &["busy", "free"] };
        let kind = Label { name: "kind", values: &["read"] };
        let open = Label { name: "route", values: &[] };
        let texts = |labels: &[Label]| -> Vec<String> {
            let text = |label: &metrics::Label| format!("{}={}", label.key(), label.value());
            let known = series(labels).into_iter();
            known.map(|labels| labels.iter().map(text).collect::<Vec<_>>().join(",")).collect()
        };
        assert_eq!(texts(&[]), [""]);
        assert_eq!(texts(&[state, kind]), ["state=busy,kind=read", "state=free,kind=read"]);
        assert_eq!(texts(&[state, open]), Vec::<String>::new());
    }
}
