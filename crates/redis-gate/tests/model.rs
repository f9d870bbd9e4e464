//! Sends random commands to a gate on a real Redis and to the model's gate; answers and keys must be the same.
//! Therefore what is explored with the model also holds for the scripts.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use ::model::gate::{self as model, Numbers, Rules};
use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ClaimId, ClaimMode, Epoch, RequestId, TemplateState, UserId};
use proptest::prelude::*;
use redis_gate::{
    Entry, Halted, Moved, OpenFacts, Phase, QueueOptions, Refusal, RequestState, Run, Unloaded,
    Verdict,
};

use crate::harness::{EPOCH, TEMPLATE, TestGate, claim, facts, now};

/// Gates to try; each receives some dozens of commands.
const LIVES: u32 = 200;

/// How many requests an entry without a limit keeps; a constant of `settle.lua`.
const REQUESTS_KEPT: usize = 32;

/// The model's ids are below 64.
const CLAIMS_MAX: usize = 63;

/// Beyond 2^53, where Lua's numbers are no longer exact.
const FIRST_ID: i64 = (1 << 53) + 1;

/// The pause of all commands.
const HALT: &[u8] = b"a pause";

const RULES: Rules = Rules { requests_kept: REQUESTS_KEPT, bug: None };

/// Keys of requests by their digests.
static KEYS: LazyLock<HashMap<[u8; 16], u8>> = LazyLock::new(|| {
    let digest = |key| RequestId::from_client(&format!("key-{key}")).unwrap().digest();
    (0..=u8::MAX).map(|key| (digest(key), key)).collect()
});

type Model = model::Gate<3, { CLAIMS_MAX + 1 }>;

/// Any command of the gate, including those of late callers and those that damage it. Epochs are relative to the newest
/// one begun; claims are indexes into those sent so far, modulo their number.
#[derive(Debug, Clone)]
enum Command {
    Claim { user: u8, key: u8, quantity: u8, when: u8, epoch: i8 },
    ClaimAgain { nth: usize, epoch: i8 },
    Settle { nths: Vec<usize>, epoch: i8 },
    Release { nth: usize, epoch: i8 },
    Begin { epoch: i8 },
    Load { user: u8, numbers: Vec<u8>, epoch: i8 },
    Open { version: u8, state: TemplateState, stock: i16, movement: u8, epoch: i8 },
    ApplyMovement { seq: u8, delta: i16, epoch: i8 },
    SetState { version: u8, state: TemplateState, epoch: i8 },
    Halt,
    LiftHalt,
    Unload { when: u8, epoch: i8 },
    LoseAll,
    LoseUser { user: u8 },
    LoseUsers,
    ChangeRun,
}

fn epoch() -> impl Strategy<Value = i8> {
    prop_oneof![20 => Just(0), 1 => Just(-1), 1 => Just(1)]
}

/// Before, in or after the window.
fn when() -> impl Strategy<Value = u8> {
    prop_oneof![1 => Just(0), 20 => Just(1), 1 => Just(2)]
}

fn state() -> impl Strategy<Value = TemplateState> {
    prop_oneof![
        6 => Just(TemplateState::Published),
        1 => Just(TemplateState::Draft),
        1 => Just(TemplateState::Paused),
        1 => Just(TemplateState::Ended),
    ]
}

fn life_of_admissions(keys: u8) -> impl Strategy<Value = Command> {
    prop_oneof![
        6 => (0..3u8, 0..keys, 1..4u8, when(), epoch()).prop_map(|(user, key, quantity, when, epoch)| {
            Command::Claim { user, key, quantity, when, epoch }
        }),
        1 => (0..40usize, epoch()).prop_map(|(nth, epoch)| Command::ClaimAgain { nth, epoch }),
        3 => (prop::collection::vec(0..40usize, 1..4), epoch())
            .prop_map(|(nths, epoch)| Command::Settle { nths, epoch }),
        2 => (0..40usize, epoch()).prop_map(|(nth, epoch)| Command::Release { nth, epoch }),
    ]
}

fn any_command() -> impl Strategy<Value = Command> {
    let rebuild = prop_oneof![
        (-1..=1i8).prop_map(|epoch| Command::Begin { epoch }),
        (0..3u8, prop::collection::vec(1..=5u8, 0..4), epoch())
            .prop_map(|(user, numbers, epoch)| Command::Load { user, numbers, epoch }),
        (1..4u8, state(), 0..8i16, 0..3u8, epoch()).prop_map(
            |(version, state, stock, movement, epoch)| {
                Command::Open { version, state, stock, movement, epoch }
            }
        ),
    ];
    let operator = prop_oneof![
        (0..6u8, -3..4i16, epoch()).prop_map(|(seq, delta, epoch)| Command::ApplyMovement {
            seq,
            delta,
            epoch
        }),
        (1..6u8, state(), epoch()).prop_map(|(version, state, epoch)| Command::SetState {
            version,
            state,
            epoch
        }),
        Just(Command::Halt),
        Just(Command::LiftHalt),
    ];
    let loss = prop_oneof![
        (when(), epoch()).prop_map(|(when, epoch)| Command::Unload { when, epoch }),
        Just(Command::LoseAll),
        (0..3u8).prop_map(|user| Command::LoseUser { user }),
        Just(Command::LoseUsers),
        Just(Command::ChangeRun),
    ];
    prop_oneof![24 => life_of_admissions(4), 9 => rebuild, 6 => operator, 1 => loss]
}

/// A gate, its model, and the claims sent to both.
struct Pair {
    gate: TestGate,
    model: Model,
    limit: u8,
    newest: u8,
    sent: Vec<model::Claim>,
}

impl Pair {
    /// Opens both in the harness's epoch.
    async fn open(limit: u8, stock: i16) -> Self {
        let gate = TestGate::absent("model").await;
        let newest = u8::try_from(EPOCH.0).unwrap();
        let mut pair = Self { gate, model: Model::absent(0), limit, newest, sent: Vec::new() };
        pair.begin(newest).await;
        pair.open_with(newest, 1, TemplateState::Published, stock, 1).await;
        pair
    }

    fn epoch(&self, from_newest: i8) -> u8 {
        self.newest.saturating_add_signed(from_newest)
    }

    async fn send(&mut self, command: Command) {
        match command {
            Command::Claim { user, key, quantity, when, epoch } => {
                let Ok(id) = u8::try_from(self.sent.len()) else { return };
                if usize::from(id) < CLAIMS_MAX {
                    let claim = model::Claim { user, key, quantity, id };
                    self.sent.push(claim);
                    self.claim(claim, self.epoch(epoch), when).await;
                }
            }
            Command::ClaimAgain { nth, epoch } => {
                if let Some(claim) = self.nth(nth) {
                    self.claim(claim, self.epoch(epoch), 1).await;
                }
            }
            Command::Settle { nths, epoch } => self.settle(&nths, self.epoch(epoch)).await,
            Command::Release { nth, epoch } => {
                let Some(model::Claim { user, id, .. }) = self.nth(nth) else { return };
                let epoch = self.epoch(epoch);
                let real = self.gate.gate.release(TEMPLATE, real(epoch), of(user), real_id(id));
                assert_eq!(real.await.unwrap(), self.model.release(RULES, epoch, user, id));
            }
            Command::Begin { epoch } => {
                let epoch = self.epoch(epoch);
                self.newest = self.newest.max(epoch);
                self.begin(epoch).await;
            }
            Command::Load { user, numbers, epoch } => self.load(user, numbers, epoch).await,
            Command::Open { version, state, stock, movement, epoch } => {
                self.open_with(self.epoch(epoch), version, state, stock, movement).await;
            }
            Command::ApplyMovement { seq, delta, epoch } => {
                let epoch = self.epoch(epoch);
                let seq_there = i64::from(seq);
                let delta_there = i64::from(delta);
                let call = self.gate.gate.apply_movement(
                    TEMPLATE,
                    real(epoch),
                    seq_there,
                    delta_there,
                    &[],
                );
                let movement = model::Movement::of(delta);
                let moved = self.model.apply_movement(RULES, epoch, seq, &movement);
                assert_eq!(call.await.unwrap(), real_moved(moved));
            }
            Command::SetState { version, state, epoch } => {
                let epoch = self.epoch(epoch);
                let there = real(epoch);
                let mode = ClaimMode::Direct;
                let call = self.gate.gate.set_state(TEMPLATE, there, version.into(), state, mode);
                let set = self.model.set_state(RULES, epoch, version, state, mode);
                assert_eq!(call.await.unwrap(), set);
            }
            Command::Halt => {
                let halted = self.gate.gate.halt(TEMPLATE, HALT).await.unwrap();
                assert_eq!(halted == Halted::Now, self.model.halt(RULES));
            }
            Command::LiftHalt => {
                let was_there = self.model.meta.is_some_and(|meta| meta.halted);
                self.model.lift_halt();
                let lifted = self.gate.gate.lift_halt(TEMPLATE, HALT).await.unwrap();
                assert_eq!(lifted, was_there);
            }
            Command::Unload { when, epoch } => {
                let epoch = self.epoch(epoch);
                let call = self.gate.gate.unload(TEMPLATE, real(epoch), at(when));
                assert_eq!(
                    call.await.unwrap(),
                    real_unloaded(self.model.unload(RULES, epoch, when))
                );
            }
            Command::LoseAll
            | Command::LoseUser { .. }
            | Command::LoseUsers
            | Command::ChangeRun => {
                self.damage(&command).await;
            }
        }
    }

    /// Damages both as no script does.
    async fn damage(&mut self, command: &Command) {
        let Some(meta) = &mut self.model.meta else { return };
        let users = self.gate.users(real(meta.epoch));
        match command {
            Command::LoseUser { user } => {
                self.gate.send(&["HDEL", &users, &user.to_string()]).await;
                self.model.users[usize::from(*user)] = None;
            }
            Command::LoseUsers => {
                self.gate.send(&["DEL", &users]).await;
                self.model.users = [None; 3];
            }
            Command::ChangeRun => {
                self.gate.set_meta("run", "another/run").await;
                meta.run = u8::MAX;
            }
            _ => {
                let inflight = users.replace(":users:", ":inflight:");
                self.gate.send(&["DEL", &self.gate.meta(), &users, &inflight]).await;
                self.model = Model::absent(0);
            }
        }
    }

    fn nth(&self, nth: usize) -> Option<model::Claim> {
        self.sent.get(nth % self.sent.len().max(1)).copied()
    }

    async fn claim(&mut self, asked: model::Claim, epoch: u8, when: u8) {
        let model::Claim { user, key, quantity, id } = asked;
        let mut claim = claim(of(user), &format!("key-{key}"), quantity.into());
        claim.id = real_id(id);
        let asking = self.gate.gate.claim(&claim, real(epoch), at(when), QueueOptions::direct());
        let verdict = known_to_model(asking.await.unwrap());
        let run = self.gate.gate.run_of(TEMPLATE).await.unwrap();
        assert_eq!(verdict, real_verdict(self.model.claim(RULES, epoch, when, asked), run));
    }

    async fn settle(&mut self, nths: &[usize], epoch: u8) {
        let landed: Vec<model::Claim> = nths.iter().filter_map(|nth| self.nth(*nth)).collect();
        if landed.is_empty() {
            return;
        }
        let there: Vec<_> =
            landed.iter().map(|claim| (of(claim.user), real_id(claim.id))).collect();
        let here: Vec<_> = landed.iter().map(|claim| (claim.user, claim.id)).collect();
        let settled = self.gate.gate.settle(TEMPLATE, real(epoch), &there).await.unwrap();
        assert_eq!(settled, self.model.settle(RULES, epoch, &here).map(u32::from));
    }

    async fn begin(&mut self, epoch: u8) {
        let begun = self.gate.gate.begin(TEMPLATE, real(epoch)).await.unwrap();
        assert_eq!(begun, self.model.begin(epoch));
    }

    async fn load(&mut self, user: u8, mut numbers: Vec<u8>, epoch: i8) {
        numbers.retain(|number| *number <= self.limit);
        let epoch = self.epoch(epoch);
        let users = [(of(user), numbers.clone())];
        let loaded = self.gate.gate.load(TEMPLATE, real(epoch), &users).await.unwrap();
        let numbers = numbers.into_iter().collect();
        assert_eq!(loaded, self.model.load(RULES, epoch, user, numbers, 0));
    }

    async fn open_with(
        &mut self,
        epoch: u8,
        version: u8,
        state: TemplateState,
        stock: i16,
        movement: u8,
    ) {
        let limit = self.limit;
        let there = OpenFacts {
            version: version.into(),
            state,
            limit: limit.into(),
            stock: stock.into(),
            movement: movement.into(),
            lapses_allowed: 0,
            ..facts()
        };
        let here = model::OpenFacts {
            version,
            state,
            mode: ClaimMode::Direct,
            starts_at: 1,
            ends_at: 2,
            limit,
            lapses_allowed: 0,
            stock,
            movement,
        };
        let opened = self.gate.gate.open(TEMPLATE, real(epoch), &there).await.unwrap();
        assert_eq!(opened, self.model.open(RULES, epoch, here));
    }

    /// Compares everything that the gate remembers with the model.
    async fn compare(&self) {
        let there = self.gate.gate.meta(TEMPLATE).await.unwrap();
        let Some(here) = self.model.meta else { return assert_eq!(there, None) };
        let there = there.unwrap();
        let phase = match here.phase {
            model::Phase::Loading => Phase::Loading,
            model::Phase::Open => Phase::Open,
        };
        assert_eq!((there.phase, there.epoch), (phase, real(here.epoch)));
        assert_eq!((there.users, there.of_this_run), (here.users.into(), here.run == 0));
        assert_eq!(there.halt.as_deref(), here.halted.then_some(HALT));
        let model::OpenFacts { version, stock, movement, .. } = here.facts;
        let facts = (version.into(), stock.into(), movement.into());
        assert_eq!((there.version, there.stock, there.movement), facts);
        let in_flight = self
            .gate
            .gate
            .in_flight(TEMPLATE, there.epoch, at(2), 0, CLAIMS_MAX + 1)
            .await
            .unwrap();
        let mut in_flight: Vec<ClaimId> =
            in_flight.admissions.iter().map(|entry| entry.id).collect();
        in_flight.sort();
        assert_eq!(in_flight, self.model.inflight.iter().map(real_id).collect::<Vec<_>>());
        let there = self.gate.gate.entries(TEMPLATE, there.epoch).await.unwrap();
        let there: BTreeMap<UserId, _> =
            there.iter().map(|(user, entry)| (*user, remembered(entry))).collect();
        let here = (0..)
            .zip(&self.model.users)
            .filter_map(|(user, entry)| entry.as_ref().map(|entry| (of(user), *entry)));
        assert_eq!(there, here.collect());
    }
}

fn real(epoch: u8) -> Epoch {
    Epoch(epoch.into())
}

fn of(user: u8) -> UserId {
    UserId(user.into())
}

fn real_id(id: u8) -> ClaimId {
    ClaimId(FIRST_ID + i64::from(id))
}

fn at(when: u8) -> DateTime<Utc> {
    now() + TimeDelta::seconds(2 * (i64::from(when) - 1))
}

fn list(numbers: Numbers) -> Vec<u8> {
    numbers.iter().collect()
}

/// Leaves out what only a queued replay needs.
fn known_to_model(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Replay { id, state, numbers, run, .. } => {
            Verdict::Replay { id, state, numbers, look_in_mysql: false, admitted_at: None, run }
        }
        other => other,
    }
}

fn real_verdict(verdict: model::Verdict, run: Run) -> Verdict {
    match verdict {
        model::Verdict::Admitted { numbers, left } => {
            Verdict::Admitted { numbers: list(numbers), left: left.into() }
        }
        model::Verdict::Replay { id, state, numbers } => {
            let state = match state {
                model::RequestState::Pending => RequestState::Pending,
                model::RequestState::Queued => RequestState::Queued,
                model::RequestState::Landed => RequestState::Landed,
            };
            let id = real_id(id);
            let numbers = list(numbers);
            Verdict::Replay { id, state, numbers, look_in_mysql: false, admitted_at: None, run }
        }
        model::Verdict::KeyReused => Verdict::KeyReused,
        model::Verdict::NotLoaded => Verdict::NotLoaded,
        model::Verdict::OtherEpoch(epoch) => Verdict::OtherEpoch(real(epoch)),
        model::Verdict::TooOld => Verdict::TooOld,
        model::Verdict::Queued(_) | model::Verdict::LookFirst => panic!("queued by a direct gate"),
        model::Verdict::Refused { refusal, look_in_mysql } => {
            Verdict::Refused { refusal: real_refusal(refusal), look_in_mysql }
        }
    }
}

fn real_refusal(refusal: model::Refusal) -> Refusal {
    match refusal {
        model::Refusal::NotOpen => Refusal::NotOpen { starts_at: facts().starts_at },
        model::Refusal::Paused => Refusal::Paused,
        model::Refusal::Closed => Refusal::Closed,
        model::Refusal::Ended => Refusal::Ended,
        model::Refusal::Banned => panic!("banned by a gate without holds"),
        model::Refusal::Limit { taken } => Refusal::Limit { taken: taken.into() },
        model::Refusal::SoldOut => Refusal::SoldOut,
        model::Refusal::Insufficient { left } => Refusal::Insufficient { left: left.into() },
    }
}

fn real_moved(moved: model::Moved) -> Moved {
    match moved {
        model::Moved::Applied(stock) => Moved::Applied(stock.into()),
        model::Moved::Already => Moved::Already,
        model::Moved::Gap(last) => Moved::Gap(last.into()),
        model::Moved::NotLoaded => Moved::NotLoaded,
        model::Moved::OtherEpoch(epoch) => Moved::OtherEpoch(real(epoch)),
    }
}

fn real_unloaded(unloaded: model::Unloaded) -> Unloaded {
    match unloaded {
        model::Unloaded::Gone => Unloaded::Gone,
        model::Unloaded::InFlight => Unloaded::InFlight,
        model::Unloaded::Open => Unloaded::Open,
        model::Unloaded::OtherEpoch => Unloaded::OtherEpoch,
    }
}

/// Converts a user's entry to the model's.
fn remembered(entry: &Entry) -> model::Entry<{ CLAIMS_MAX + 1 }> {
    let mut requests = ::model::Few::default();
    for request in &entry.requests {
        requests.push(model::Request {
            key: KEYS[&request.key],
            quantity: request.quantity,
            id: u8::try_from(request.id.0 - FIRST_ID).unwrap(),
            numbers: request.numbers.iter().copied().collect(),
            state: match request.state {
                RequestState::Pending => model::RequestState::Pending,
                RequestState::Landed => model::RequestState::Landed,
                RequestState::Queued => panic!("queued by a direct gate"),
            },
        });
    }
    let taken = entry.taken.iter().copied().collect();
    let floor = entry.floor.map_or(0, |id| u8::try_from(id.0 - FIRST_ID).unwrap() + 1);
    model::Entry { look_in_mysql: entry.look_in_mysql, taken, lapses: 0, floor, requests }
}

fn live(limit: u8, stock: i16, commands: Vec<Command>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut pair = Pair::open(limit, stock).await;
        for command in commands {
            pair.send(command).await;
            pair.compare().await;
        }
    });
}

mod full {
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: LIVES, failure_persistence: None, ..ProptestConfig::default()
        })]

        #[test]
        fn any_life_of_a_gate_is_the_models(
            limit in 0..=5u8,
            stock in 0..12i16,
            commands in prop::collection::vec(any_command(), 1..60),
        ) {
            live(limit, stock, commands);
        }

        #[test]
        fn any_long_life_of_a_user_without_limit_is_the_models(
            commands in prop::collection::vec(
                life_of_admissions(100).prop_map(|mut command| {
                    if let Command::Claim { user, .. } = &mut command {
                        *user = 0;
                    }
                    command
                }),
                80..120,
            ),
        ) {
            live(0, 1000, commands);
        }
    }
}
