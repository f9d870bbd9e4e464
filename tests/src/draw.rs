//! [`Draw`]: what a round of the kill campaign does, drawn from its seed and number.

use std::{fmt, time::Duration};

use fastrand::Rng;

use crate::claim_faults::{self, ClaimFault};

/// Longest time from the round's first admission to the fault.
const OFFSET_MAX_MS: u64 = 600;

/// Longest time a victim is stopped or dead: above the 5 s after which MySQL frees a stopped api's locks.
const DOWN_MAX_MS: u64 = 6_500;

/// A trouble replaces the process fault once in so many rounds.
const TROUBLE_EVERY: u64 = 2;

/// The modes of claims, each with what its 202 waits for.
pub const MODES: [Mode; 7] = [
    ("direct", "topic"),
    ("queued", "topic"),
    ("queued", "replica"),
    ("queued", "gate"),
    ("spill", "topic"),
    ("spill", "replica"),
    ("spill", "gate"),
];

/// A mode, and what its 202 waits for.
pub type Mode = (&'static str, &'static str);

/// The process that is hit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Victim {
    Api(usize),
    Relay,
    Lander,
    Gate,
    /// The gate's only replica.
    Replica,
    Broker,
    Database,
}

/// How many victims take turns.
const VICTIMS: u64 = 8;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// kill -9, and a start after a while.
    Kill,
    /// SIGSTOP, and SIGCONT after a while.
    Stop,
}

/// The plan of a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw {
    pub(crate) victim: Victim,
    pub(crate) fault: Fault,
    pub(crate) offset: Duration,
    pub(crate) down: Duration,
    /// Replaces the fault.
    pub(crate) trouble: Option<ClaimFault>,
    /// The modes of the round's templates, in their order.
    pub(crate) modes: [Mode; 4],
}

impl Draw {
    pub(crate) fn of(seed: u64, number: u64) -> Self {
        let mut random = Rng::with_seed(seed ^ (number << 32));
        // Each victim in turn, so that few rounds cover all.
        let victim = match seed.wrapping_add(number / TROUBLE_EVERY) % VICTIMS {
            0 => Victim::Gate,
            1 => Victim::Database,
            2 => Victim::Api(0),
            3 => Victim::Relay,
            4 => Victim::Lander,
            5 => Victim::Api(1),
            6 => Victim::Replica,
            _ => Victim::Broker,
        };
        let fault = if random.bool() { Fault::Kill } else { Fault::Stop };
        let offset = Duration::from_millis(random.u64(0..OFFSET_MAX_MS));
        // Mostly short: up to a second of downtime is the rule, six the exception.
        let longest = if random.u8(0..4) == 0 { DOWN_MAX_MS } else { 1_000 };
        let down = Duration::from_millis(random.u64(0..longest));
        let trouble = number.is_multiple_of(TROUBLE_EVERY).then(|| {
            claim_faults::ALL[(number / TROUBLE_EVERY) as usize % claim_faults::ALL.len()]
        });
        let modes = [(); 4].map(|()| MODES[random.usize(..MODES.len())]);
        Self { victim, fault, offset, down, trouble, modes }
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let victim = match self.victim {
            Victim::Api(number) => format!("api {}", number + 1),
            Victim::Relay => "relay".to_owned(),
            Victim::Lander => "lander".to_owned(),
            Victim::Gate => "gate".to_owned(),
            Victim::Replica => "gate's replica".to_owned(),
            Victim::Broker => "broker".to_owned(),
            Victim::Database => "MySQL".to_owned(),
        };
        let fault = match self.fault {
            Fault::Kill => "killed",
            Fault::Stop => "stopped",
        };
        let [offset, down] = [self.offset, self.down].map(|time| time.as_millis());
        match self.trouble {
            Some(trouble) => write!(f, "{trouble:?}")?,
            None => write!(f, "{victim} {fault}")?,
        }
        let modes = self.modes.map(|(mode, after)| format!("{mode}/{after}")).join(", ");
        write!(f, " after {offset} ms for {down} ms; {modes}")
    }
}
