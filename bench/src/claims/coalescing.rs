//! How many claims share a transaction in MySQL, from the histogram that the api exports.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use devstack::Process;
use serde::Serialize;

/// The api's histogram of coupons per transaction: of claims too, where each is of one coupon.
const HISTOGRAM: &str = "coupon_landing_batch_size";

/// The histogram at a moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Batches {
    /// Transactions of at most this many claims, by that number.
    up_to: BTreeMap<u32, f64>,
    transactions: f64,
    claims: f64,
}

/// Claims per transaction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coalesced {
    pub transactions: f64,
    pub mean: f64,
    /// Upper bounds of the buckets of the median and 99th percentile.
    pub p50_up_to: u32,
    pub p99_up_to: u32,
    /// Transactions by the upper bound of their bucket.
    pub buckets: BTreeMap<u32, f64>,
}

impl Batches {
    /// Reads an api's histogram.
    ///
    /// # Errors
    /// The api does not answer, or has landed nothing yet.
    pub async fn read(api: &Process) -> Result<Self> {
        let text = api.answer("/metrics").await.context("the api shows no metrics")?;
        Self::parse(&text).with_context(|| format!("the api has no {HISTOGRAM}"))
    }

    fn parse(text: &str) -> Option<Self> {
        let of = |part: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix(HISTOGRAM));
            lines.filter_map(|line| line.strip_prefix(part)).collect::<Vec<_>>()
        };
        let bucket = |line: &str| {
            let (up_to, count) = line.split_once("\"} ")?;
            Some((up_to.parse().ok()?, count.parse().ok()?))
        };
        // The unbounded last bucket is not read: no batch exceeds the bound before it.
        let up_to = of("_bucket{le=\"").into_iter().filter_map(bucket).collect();
        let number = |part: &str| of(part).first()?.trim().parse().ok();
        Some(Self { up_to, transactions: number("_count ")?, claims: number("_sum ")? })
    }

    /// Claims per transaction since `before`; `None` if there was no transaction.
    pub fn since(&self, before: &Self) -> Option<Coalesced> {
        let transactions = self.transactions - before.transactions;
        if transactions <= 0.0 {
            return None;
        }
        let mut buckets = BTreeMap::new();
        let mut below = 0.0;
        for (&up_to, count) in &self.up_to {
            let within = count - before.up_to.get(&up_to).copied().unwrap_or_default();
            buckets.insert(up_to, within - below);
            below = within;
        }
        let quantile = |part: f64| {
            let mut seen = 0.0;
            let reached = buckets.iter().find(|(_, count)| {
                seen += **count;
                seen >= part * transactions
            });
            reached.or(buckets.last_key_value()).map(|(up_to, _)| *up_to)
        };
        Some(Coalesced {
            transactions,
            mean: (self.claims - before.claims) / transactions,
            p50_up_to: quantile(0.5)?,
            p99_up_to: quantile(0.99)?,
            buckets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(counts: [u32; 3], sum: u32) -> String {
        let [one, two, all] = counts;
        format!(
            "# TYPE {HISTOGRAM} histogram\n\
             {HISTOGRAM}_bucket{{le=\"1\"}} {one}\n{HISTOGRAM}_bucket{{le=\"2\"}} {two}\n\
             {HISTOGRAM}_bucket{{le=\"1000\"}} {all}\n{HISTOGRAM}_bucket{{le=\"+Inf\"}} {all}\n\
             {HISTOGRAM}_sum {sum}\n{HISTOGRAM}_count {all}\n"
        )
    }

    #[test]
    fn only_transactions_of_the_meantime_count() {
        let before = Batches::parse(&text([10, 10, 10], 10)).unwrap();
        let after = Batches::parse(&text([12, 15, 20], 910)).unwrap();
        let found = after.since(&before).unwrap();
        assert_eq!((found.transactions, found.mean), (10.0, 90.0));
        assert_eq!((found.p50_up_to, found.p99_up_to), (2, 1000));
        assert_eq!(found.buckets, BTreeMap::from([(1, 2.0), (2, 3.0), (1000, 5.0)]));
        assert_eq!(before.since(&before), None);
    }
}
