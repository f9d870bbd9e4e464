//! [`counted`]: counters of the processes that run in this one.

use std::sync::LazyLock;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

static METRICS: LazyLock<PrometheusHandle> =
    LazyLock::new(|| PrometheusBuilder::new().install_recorder().unwrap());

/// Begins to record counters. Call it before the first process starts; later calls change nothing.
pub fn record_metrics() {
    LazyLock::force(&METRICS);
}

/// Sum of a counter over all its labels that contain `label`.
pub fn counted(name: &str, label: &str) -> u64 {
    let text = METRICS.render();
    let is_ours = |line: &&str| {
        let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']));
        rest.is_some_and(|rest| rest.contains(label))
    };
    let values = text.lines().filter(is_ours).filter_map(|line| line.rsplit(' ').next());
    values.filter_map(|value| value.parse::<u64>().ok()).sum()
}
