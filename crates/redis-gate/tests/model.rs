//! Random lives of a gate, compared step by step with a model of a few lines.

use std::collections::{BTreeMap, BTreeSet};

use coupon::{Claim, ClaimId, Numbers, UserId};
use proptest::prelude::*;
use redis_gate::{OpenFacts, Refusal, RequestState, Verdict};

use crate::harness::{EPOCH, TEMPLATE, TestGate, claim, facts, now, refused};

/// Lives tried; each is some dozens of calls.
const LIVES: u32 = 200;

#[derive(Debug, Clone)]
enum Step {
    Claim {
        user: i64,
        key: u8,
        quantity: u32,
    },
    /// Of the nth claim sent so far, counted round.
    Settle(usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..3i64, 0..4u8, 1..4u32)
            .prop_map(|(user, key, quantity)| Step::Claim { user, key, quantity }),
        1 => (0..40usize).prop_map(Step::Settle),
        1 => (0..40usize).prop_map(Step::Release),
    ]
}

/// What a gate is, without any of its representation.
struct Model {
    limit: u32,
    stock: i64,
    taken: BTreeMap<UserId, BTreeSet<u8>>,
    requests: Vec<Remembered>,
}

struct Remembered {
    claim: Claim,
    state: RequestState,
    numbers: Numbers,
}

impl Model {
    fn claim(&mut self, claim: &Claim) -> Verdict {
        let known = self.requests.iter().find(|known| {
            known.claim.user_id == claim.user_id && known.claim.request_id == claim.request_id
        });
        if let Some(known) = known {
            let Remembered { claim: first, state, numbers } = known;
            if first.quantity != claim.quantity {
                return Verdict::KeyReused;
            }
            return Verdict::Replay { id: first.id, state: *state, numbers: numbers.clone() };
        }
        let look_in_mysql = self.limit == 0;
        let quantity = claim.quantity;
        let taken = self.taken.entry(claim.user_id).or_default();
        let count = u32::try_from(taken.len()).unwrap();
        if self.limit > 0 && count + quantity > self.limit {
            return refused(Refusal::Limit { taken: count });
        }
        if self.stock <= 0 {
            return Verdict::Refused { refusal: Refusal::SoldOut, look_in_mysql };
        }
        if self.stock < i64::from(quantity) {
            let refusal = Refusal::Insufficient { left: self.stock };
            return Verdict::Refused { refusal, look_in_mysql };
        }
        let free = (1..=u8::try_from(self.limit).unwrap()).filter(|number| !taken.contains(number));
        let numbers: Numbers = free.take(quantity as usize).collect();
        taken.extend(&numbers);
        self.stock -= i64::from(quantity);
        self.requests.push(Remembered {
            claim: claim.clone(),
            state: RequestState::Pending,
            numbers: numbers.clone(),
        });
        Verdict::Admitted { numbers, left: self.stock }
    }

    fn settle(&mut self, id: ClaimId) -> u32 {
        let pending =
            |known: &&mut Remembered| known.claim.id == id && known.state == RequestState::Pending;
        self.requests.iter_mut().find(pending).map_or(0, |known| {
            known.state = RequestState::Landed;
            1
        })
    }

    fn release(&mut self, id: ClaimId) -> bool {
        let pending =
            |known: &Remembered| known.claim.id == id && known.state == RequestState::Pending;
        let Some(at) = self.requests.iter().position(pending) else { return false };
        let Remembered { claim, numbers, .. } = self.requests.remove(at);
        self.stock += i64::from(claim.quantity);
        let taken = self.taken.entry(claim.user_id).or_default();
        taken.retain(|number| !numbers.contains(number));
        true
    }

    fn pending(&self) -> BTreeSet<ClaimId> {
        let pending = self.requests.iter().filter(|known| known.state == RequestState::Pending);
        pending.map(|known| known.claim.id).collect()
    }
}

async fn live(limit: u32, stock: i64, steps: Vec<Step>) {
    let gate = TestGate::open("model", OpenFacts { limit, stock, ..facts() }).await;
    let mut model = Model { limit, stock, taken: BTreeMap::new(), requests: Vec::new() };
    let mut sent: Vec<Claim> = Vec::new();
    let nth = |sent: &[Claim], n: usize| sent.get(n % sent.len().max(1)).cloned();
    for step in steps {
        match step {
            Step::Claim { user, key, quantity } => {
                let claim = claim(UserId(user), &format!("key-{key}"), quantity);
                assert_eq!(gate.claim(&claim).await, model.claim(&claim));
                sent.push(claim);
            }
            Step::Settle(n) => {
                let Some(claim) = nth(&sent, n) else { continue };
                assert_eq!(gate.settle(&claim).await, Some(model.settle(claim.id)));
            }
            Step::Release(n) => {
                let Some(claim) = nth(&sent, n) else { continue };
                assert_eq!(gate.release(&claim).await, Some(model.release(claim.id)));
            }
        }
        assert_eq!(gate.stock().await, model.stock);
    }
    let in_flight = gate.gate.in_flight(TEMPLATE, EPOCH, now(), 1000).await.unwrap();
    let in_flight: BTreeSet<ClaimId> = in_flight.iter().map(|entry| entry.id).collect();
    assert_eq!(in_flight, model.pending());
    for (user, entry) in gate.gate.entries(TEMPLATE, EPOCH).await.unwrap() {
        let taken: BTreeSet<u8> = entry.taken.into_iter().collect();
        assert_eq!(taken, model.taken[&user]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: LIVES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_life_of_a_gate_is_the_models(
        limit in 0..=5u32,
        stock in 0..8i64,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(live(limit, stock, steps));
    }
}
