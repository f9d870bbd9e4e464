//! How long hops usually take: the p99 figures of docs/performance.md, rounded up to milliseconds. They were measured on
//! two cores, so a hop above its figure is worth a look and no proof of a fault. The wait in a queue has a goal instead. A
//! hop without a figure is never late.

/// A hop's usual p99, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usual {
    pub(crate) p99_ms: u32,
    /// What was measured, as docs/performance.md calls it.
    pub(crate) of: &'static str,
}

/// Of a claim that is answered 201: from its request to its answer. Admission and landing are parts of it.
pub(super) const ANSWER: Usual =
    Usual { p99_ms: 119, of: "measured: a claim's answer, 512 connections" };

/// From the admission until the topic has the claim. The whole answer may take as long.
pub(super) const ACCEPTED: Usual =
    Usual { p99_ms: 31, of: "measured: a 202 after the topic, half load" };

/// From the topic until a lander takes the claim. A queue is there to be waited in, and how long depends on the sale, so
/// this is no measurement: it is about as long as a shopper looks at a page that says "wait".
pub(super) const WAITED: Usual = Usual { p99_ms: 10_000, of: "goal: a wait that a shopper bears" };

/// From the commit until the change is on its topic.
pub(super) const PUBLISHED: Usual =
    Usual { p99_ms: 6, of: "measured: tailer idle, commit to consumer" };

/// From the 201 until the coupon is on its user's list.
pub(super) const VISIBLE: Usual =
    Usual { p99_ms: 63, of: "measured: visible after 201, half load" };

/// From the end of a coupon's validity until it is flipped.
pub(super) const EXPIRED: Usual =
    Usual { p99_ms: 38, of: "measured: a lone deadline, until its flip is sent" };

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn the_figures_are_those_of_the_page_rounded_up() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/performance.md");
        let page = fs::read_to_string(page).unwrap();
        let rows = page.split("## All goals").nth(1).unwrap();
        for (usual, row, figure, ms) in [
            (ANSWER, "| a claim's answer, 512 connections |", "p99 118.7 ms |", 118.7),
            (
                ACCEPTED,
                "| a 202 at half of that rate, p99: after the gate; after the topic |",
                "; 30.7 ms |",
                30.7,
            ),
            (PUBLISHED, "| tailer idle, commit to consumer |", "p99 5.72 ms |", 5.72),
            (VISIBLE, "| the same, p99 | 50 ms |", "| 62.9 ms |", 62.9),
            (EXPIRED, "| a lone deadline, until its flip is sent |", "p99 38.0 ms |", 38.0),
        ] {
            let found = rows.lines().find(|line| line.contains(row)).unwrap_or_default();
            assert!(found.contains(figure), "{row}: {found}");
            assert_eq!(f64::from(usual.p99_ms), f64::ceil(ms), "{}", usual.of);
        }
    }
}
