//! A run of `./dev bench claims`, as far as it is drawn.

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

/// Figures that older runs do not have are absent.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Run {
    pub(super) date: Option<String>,
    pub(super) loads: Vec<Load>,
    pub(super) landed_per_s: Option<f64>,
    pub(super) thin_per_s: Option<f64>,
    pub(super) refused_per_s: Option<f64>,
    pub(super) bare_per_s: Option<f64>,
    pub(super) gate: Gate,
    pub(super) spread: Spread,
}

/// The answers at a share of the capacity.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Load {
    pub(super) of_capacity: f64,
    pub(super) claims_per_s: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) p999_ms: f64,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Gate {
    pub(super) client_per_s: Option<f64>,
    pub(super) redis_benchmark_per_s: Option<f64>,
    pub(super) redis_benchmark_pipelined_per_s: Option<f64>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Spread {
    pub(super) one_per_s: Option<f64>,
    pub(super) uniform_per_s: Option<f64>,
    pub(super) zipf_per_s: Option<f64>,
}

impl Run {
    /// The newest run with answers in a results file, or the only one in a file that `--json` wrote.
    ///
    /// # Errors
    /// The text is not JSON, or has no such run.
    pub fn newest(json: &str) -> Result<Self> {
        let mut file: Value = serde_json::from_str(json)?;
        let runs = match file.get_mut("runs").map(Value::take) {
            Some(Value::Array(runs)) => runs,
            _ => vec![file],
        };
        let runs: Vec<Self> =
            runs.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
        let drawn = runs.into_iter().filter(|run| !run.loads.is_empty());
        // Of several runs of a day, the last.
        drawn
            .max_by_key(|run| run.date.clone())
            .context("no run has answers at shares of the capacity")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOADS: &str = r#""loads": [{"of_capacity": 0.5, "claims_per_s": 2, "p50_ms": 1, "p99_ms": 2, "p999_ms": 3}]"#;

    #[test]
    fn the_last_run_of_the_newest_day_that_has_answers_is_drawn() {
        let run = |date: &str, rate: u32, loads: &str| {
            format!(r#"{{"date": "{date}", "landed_per_s": {rate}, {loads}}}"#)
        };
        let runs = [
            run("2026-11-26", 1, LOADS),
            run("2026-11-27", 2, LOADS),
            run("2026-11-27", 3, LOADS),
            run("2026-11-25", 4, LOADS),
            run("2026-11-28", 5, r#""note": "cut short""#),
        ];
        let newest = Run::newest(&format!(r#"{{"runs": [{}]}}"#, runs.join(","))).unwrap();
        assert_eq!(newest.landed_per_s, Some(3.0));
        assert!(Run::newest(r#"{"runs": []}"#).is_err());
    }

    #[test]
    fn a_file_of_one_run_is_drawn_too() {
        let run = Run::newest(&format!(r#"{{{LOADS}, "gate": {{"client_per_s": 7.5}}}}"#)).unwrap();
        assert_eq!((run.gate.client_per_s, run.loads.len()), (Some(7.5), 1));
    }
}
