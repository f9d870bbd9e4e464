//! Log lines and the metrics recorder.

use std::io::IsTerminal;

use anyhow::Context as _;
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{EnvFilter, fmt};

use crate::{LogFormat, ProcessConfig};

/// Buckets of every histogram whose name ends in `_seconds`: 0.1 ms to 60 s.
const SECONDS_BUCKETS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0, 30.0, 60.0,
];

/// Buckets of every histogram whose name ends in `_size`: a batch holds at most 1,000 coupons.
const SIZE_BUCKETS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1000.0];

/// Starts logging to standard error.
pub(crate) fn start_logging(config: &ProcessConfig) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log_filter)
        .with_context(|| format!("RUST_LOG is not a filter: {:?}", config.log_filter))?;
    let lines = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    match config.log_format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    }
    .map_err(|error| anyhow::anyhow!("logging could not start: {error}"))
}

/// Installs the recorder behind the `metrics` macros; the handle renders `/metrics`.
pub(crate) fn start_metrics() -> anyhow::Result<PrometheusHandle> {
    PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS_BUCKETS)?
        .set_buckets_for_metric(Matcher::Suffix("_size".to_owned()), SIZE_BUCKETS)?
        .install_recorder()
        .context("the metrics recorder could not start")
}
