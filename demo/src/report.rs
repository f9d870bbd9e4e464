//! The figures, as a table and as JSON.

use std::fmt;

use rehearsal::{Pace, rounded, row};
use serde::Serialize;
use shopper::Tally;

use crate::{
    after::Aftermath,
    holds::Dropped,
    sale::{STOCK, Sale},
};

/// Suggested next commands.
pub(crate) const NEXT_STEPS: &str = "\
Next:
  ./dev up                 the same platform, left running, with its URLs
  ./dev token 42           a user's token for it
  ./dev bench smoke        figures beside a baseline, release build
  ./dev test               each feature once, in minutes; `--all`: every check
  docs/getting-started.md  the first steps, with curl
  ARCHITECTURE.md          a claim's walk through the code, one file a hop";

/// The figures of the demo; the JSON keys are part of its contract.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// Claims sent, including retries and duplicates.
    requests: u64,
    /// Coupons in MySQL.
    landed: i64,
    sold_out: u64,
    over_limit: u64,
    /// Answers that repeated an earlier one.
    replays: u64,
    /// Coupons beyond the stock.
    oversold: i64,
    /// Promised claims that MySQL does not have.
    lost: usize,
    verify_ok: bool,
    #[serde(flatten)]
    pace: Pace,
    /// Time from the client's 201 until the list shows the coupon.
    visible_p50_ms: f64,
    visible_p99_ms: f64,
    expired: i64,
    lateness_max_ms: i64,
    holds: Holds,
    #[serde(skip)]
    never_visible: usize,
    #[serde(skip)]
    given_up: usize,
    #[serde(skip)]
    used: i64,
    #[serde(skip)]
    watched: u64,
}

/// The figures of the second act.
#[derive(Debug, Serialize)]
struct Holds {
    /// Coupons that were claimed, whatever became of them.
    claimed: i64,
    /// Payments that were taken.
    paid: usize,
    lapsed: i64,
    /// Units that lapsed and were sold to others.
    sold_again: usize,
    /// Payments that were refused because the hold had lapsed.
    paid_too_late: usize,
    /// Payments that were taken for claims that MySQL does not have.
    lost: usize,
}

impl Figures {
    pub(crate) fn of(
        sale: &Sale,
        aftermath: &Aftermath,
        dropped: &Dropped,
        verify_ok: bool,
    ) -> Self {
        let run = &sale.run;
        let tally = Tally::of(&run.history);
        let counts = &aftermath.counts;
        Self {
            requests: tally.requests,
            landed: counts.all(),
            sold_out: tally.sold_out,
            over_limit: tally.over_limit,
            replays: tally.replays,
            oversold: (counts.all() - STOCK).max(0),
            lost: aftermath.lost,
            verify_ok,
            pace: Pace::of(&run.answered, run.elapsed),
            visible_p50_ms: rounded(run.visible.ms(0.5)),
            visible_p99_ms: rounded(run.visible.ms(0.99)),
            expired: counts.expired,
            lateness_max_ms: aftermath.lateness_max.num_milliseconds(),
            holds: Holds {
                claimed: dropped.claimed,
                paid: dropped.paid,
                lapsed: dropped.lapsed,
                sold_again: dropped.sold_again,
                paid_too_late: dropped.late,
                lost: dropped.lost,
            },
            never_visible: run.never_visible,
            given_up: run.given_up,
            used: counts.used,
            watched: run.visible.count(),
        }
    }

    /// Whether every promise was kept.
    pub(crate) fn is_kept(&self) -> bool {
        let all_were_served = self.never_visible == 0 && self.given_up == 0;
        let nothing_lost = self.lost == 0 && self.holds.lost == 0;
        self.verify_ok && self.oversold == 0 && nothing_lost && all_were_served
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        row(f, "requests", self.requests)?;
        row(f, "landed", self.landed)?;
        row(f, "sold out", self.sold_out)?;
        row(f, "over limit", self.over_limit)?;
        row(f, "replays", self.replays)?;
        row(f, "oversold", self.oversold)?;
        row(f, "lost", self.lost)?;
        self.pace.rows(f)?;
        let Self { visible_p50_ms, visible_p99_ms, watched, .. } = self;
        row(
            f,
            "201 to visible p50 / p99",
            format_args!("{visible_p50_ms:.1} / {visible_p99_ms:.1} ms ({watched} watched)"),
        )?;
        row(f, "used", self.used)?;
        let Self { expired, lateness_max_ms, .. } = self;
        row(f, "expired", format_args!("{expired}, at most {lateness_max_ms} ms late"))?;
        let Holds { claimed, paid, lapsed, sold_again, paid_too_late, lost } = &self.holds;
        row(f, "held", format_args!("{claimed}, of them paid for {paid}, lapsed {lapsed}"))?;
        row(f, "sold again", sold_again)?;
        write!(f, "  {:<26} {paid_too_late}; taken and lost: {lost}", "paid too late")
    }
}
