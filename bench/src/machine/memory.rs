//! Resident memory of several processes over a while.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use anyhow::{Context as _, Result};
use serde::Serialize;
use tokio::time::{Instant, interval_at};

use crate::cdc::usage;

/// Interval between samples.
const EVERY: Duration = Duration::from_secs(10);
/// Samples of the first minute.
const FIRST: usize = 6;

/// A process's memory in MiB.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Memory {
    /// Average of the first minute's samples.
    pub first_minute_mib: f64,
    pub last_mib: f64,
    /// The largest sample.
    pub peak_mib: f64,
}

/// Samples of the processes that it knows.
#[derive(Debug)]
pub struct Samples {
    pids: Vec<(String, u32)>,
    taken: Vec<Vec<f64>>,
}

impl Samples {
    pub fn of(pids: Vec<(String, u32)>) -> Self {
        Self { pids, taken: Vec::new() }
    }

    /// Takes a sample every ten seconds, for ever.
    pub async fn take(&mut self) -> Result<Infallible> {
        let mut ticks = interval_at(Instant::now() + EVERY, EVERY);
        loop {
            ticks.tick().await;
            self.take_one()?;
        }
    }

    /// Takes the last sample, and returns what was found, by process.
    pub fn end(mut self) -> Result<BTreeMap<String, Memory>> {
        self.take_one()?;
        let of = |at: usize| self.taken.iter().map(|sample| sample[at]).collect::<Vec<f64>>();
        let found = self
            .pids
            .iter()
            .enumerate()
            .filter_map(|(at, (name, _))| Some((name.clone(), summary(&of(at))?)));
        Ok(found.collect())
    }

    fn take_one(&mut self) -> Result<()> {
        let sample = self.pids.iter().map(|(name, pid)| {
            usage::resident_mib(*pid).with_context(|| format!("the memory of {name}"))
        });
        self.taken.push(sample.collect::<Result<_>>()?);
        Ok(())
    }
}

fn summary(samples: &[f64]) -> Option<Memory> {
    let first = &samples[..samples.len().min(FIRST)];
    Some(Memory {
        first_minute_mib: first.iter().sum::<f64>() / first.len() as f64,
        last_mib: *samples.last()?,
        peak_mib: samples.iter().copied().fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_shows_between_the_first_minute_and_the_last_sample() {
        let samples = [10.0, 10.0, 10.0, 20.0, 20.0, 20.0, 90.0, 30.0];
        let found = summary(&samples).unwrap();
        assert_eq!(found, Memory { first_minute_mib: 15.0, last_mib: 30.0, peak_mib: 90.0 });
        assert_eq!(summary(&[]), None);
    }

    #[tokio::test]
    async fn a_process_that_ended_is_named() {
        let samples = Samples::of(vec![("gone".to_owned(), u32::MAX)]);
        let error = samples.end().unwrap_err();
        assert!(format!("{error:#}").starts_with("the memory of gone"), "{error:#}");
    }
}
