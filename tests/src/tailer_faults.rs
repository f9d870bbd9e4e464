//! Kills or stops tailers in the middle of a load.

use std::{fmt, time::Duration};

use devstack::Process;
use fastrand::Rng;
use tokio::time::{sleep, timeout};

/// Most strikes of a round.
const STRIKES_MAX: usize = 3;

/// Longest downtime in most cases; below the one second after which another tailer takes the lead.
const DOWN_MAX_MS: u64 = 300;

/// Longest downtime in the other cases: another tailer leads by then, and the one that wakes must notice.
const LONG_DOWN_MAX_MS: u64 = 2_500;

/// Longest wait for a tailer's answer whether it leads; a stopped one never answers.
const ANSWER_MAX: Duration = Duration::from_millis(200);

/// The tailer that is hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Victim {
    Leader,
    Standby,
    Both,
}

/// One fault.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailerFault {
    victim: Victim,
    /// true: kill -9 and a later start; false: SIGSTOP and a later SIGCONT.
    pub(crate) kills: bool,
    wait: Duration,
    down: Duration,
}

impl TailerFault {
    /// Returns the faults of a round. Each comes within `wait_max_ms` of the load's start, or of the previous
    /// victim's return.
    pub(crate) fn of_round(seed: u64, round: u64, wait_max_ms: u64) -> Vec<Self> {
        let mut random = Rng::with_seed(seed ^ (round << 32));
        let count = random.usize(1..=STRIKES_MAX);
        (0..count).map(|_| Self::any(&mut random, wait_max_ms)).collect()
    }

    fn any(random: &mut Rng, wait_max_ms: u64) -> Self {
        let victim = match random.u8(0..8) {
            0 => Victim::Standby,
            1 => Victim::Both,
            _ => Victim::Leader,
        };
        let longest = if random.u8(0..4) == 0 { LONG_DOWN_MAX_MS } else { DOWN_MAX_MS };
        let mut time = |longest| Duration::from_millis(random.u64(0..longest));
        let wait = time(wait_max_ms);
        let down = time(longest);
        Self { victim, kills: random.u8(0..3) > 0, wait, down }
    }

    /// Hits one of two tailers, or both, and brings them back.
    pub(crate) async fn hit(self, first: &mut Process, second: &mut Process) {
        sleep(self.wait).await;
        let [first_leads, second_leads] = [leads(first).await, leads(second).await];
        // If none leads, the first counts as the leader.
        let is_hit = match self.victim {
            Victim::Leader => [first_leads || !second_leads, second_leads && !first_leads],
            Victim::Standby => [!first_leads, first_leads],
            Victim::Both => [true, true],
        };
        let both = [first, second].into_iter().zip(is_hit);
        let mut victims: Vec<_> = both.filter_map(|(one, is_hit)| is_hit.then_some(one)).collect();
        for victim in &mut victims {
            if self.kills { victim.kill().unwrap() } else { victim.pause().unwrap() }
        }
        sleep(self.down).await;
        for victim in victims {
            if self.kills { victim.spawn().unwrap() } else { victim.resume().unwrap() }
        }
    }
}

impl fmt::Display for TailerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.kills { "killed" } else { "stopped" };
        let [wait, down] = [self.wait, self.down].map(|time| time.as_millis());
        let victim = format!("{:?}", self.victim).to_lowercase();
        write!(f, "{victim} {how} after {wait} ms for {down} ms")
    }
}

/// Whether a tailer reports that it leads.
pub(crate) async fn leads(tailer: &Process) -> bool {
    let leads = timeout(ANSWER_MAX, tailer.metric("cdc_tailer_leads")).await;
    leads.ok().flatten() == Some(1.0)
}
