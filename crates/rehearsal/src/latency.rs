//! Latency histograms.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Longest distinguishable latency, in microseconds: one minute.
const LONGEST_US: u64 = 60_000_000;

/// Precision: significant digits.
const DIGITS: u8 = 3;

/// A histogram of latencies.
#[derive(Debug, Clone)]
pub struct Latency {
    microseconds: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Self {
        let microseconds =
            Histogram::new_with_max(LONGEST_US, DIGITS).expect("the constants are a valid range");
        Self { microseconds }
    }
}

impl Latency {
    /// Adds a latency.
    pub fn record(&mut self, latency: Duration) {
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(LONGEST_US);
        self.microseconds.saturating_record(microseconds);
    }

    /// Adds all latencies of another histogram.
    pub fn add(&mut self, other: &Self) {
        self.microseconds.add(&other.microseconds).expect("all have the same range");
    }

    /// The number of latencies.
    pub fn count(&self) -> u64 {
        self.microseconds.len()
    }

    /// The latency in milliseconds that `quantile` (0 to 1) of the latencies do not exceed; 0 if there are none.
    pub fn ms(&self, quantile: f64) -> f64 {
        let microseconds = Duration::from_micros(self.microseconds.value_at_quantile(quantile));
        microseconds.as_secs_f64() * 1000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_in_milliseconds() {
        let mut latency = Latency::default();
        assert!(latency.ms(0.5) < f64::EPSILON);
        (1..=100).for_each(|ms| latency.record(Duration::from_millis(ms)));
        assert!((latency.ms(0.5) - 50.0).abs() < 0.1, "{}", latency.ms(0.5));
        assert!((latency.ms(1.0) - 100.0).abs() < 0.1, "{}", latency.ms(1.0));
    }
}
