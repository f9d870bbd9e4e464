//! Refusals from memory, in processes that look at a real gate.

use std::sync::atomic::{AtomicI64, Ordering};

use coupon::{RequestId, UserId};
use landing::claims::Answer;
use redis_gate::Refusal;
use testkit::{Proxy, until_true};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    harness::{Process, Setup, TEMPLATE, USER, World, again, claim},
    keeper::move_stock,
};

/// Users who come too late at one moment: more than a process sends to the gate before it reads which users have an
/// entry.
const LATE: usize = 100;

/// Rounds in which a coupon is added and claimed.
const ROUNDS: i64 = 20;

/// The number of a look's keys, as sent to Redis. No other call has as many.
const LOOK: &[u8] = b"$1\r\n3\r\n$";

/// A process that knows what is sold out.
struct Watching {
    process: Process,
    _watch: AbortOnDropHandle<()>,
}

impl Watching {
    fn of(process: Process) -> Self {
        let sold_out = process.gates.sold_out().clone();
        let watch = async move { sold_out.watch(CancellationToken::new()).await };
        Self { process, _watch: AbortOnDropHandle::new(tokio::spawn(watch)) }
    }

    async fn start(world: &World, holder: &'static str) -> Self {
        Self::of(Process::without_keeper(world, holder).await)
    }

    fn refuses_key(&self, user: UserId, key: &str) -> bool {
        let key = RequestId::from_client(key).unwrap();
        self.process.claims.is_sold_out(&self.process.template, user, &key, 1)
    }

    fn refuses(&self, user: UserId) -> bool {
        self.refuses_key(user, "a-key")
    }

    /// Lets users come too late until they are refused from memory.
    async fn until_remembered(&self) {
        until_true(async || {
            let late = (0..LATE).map(|_| async {
                let answer = self.process.claim(&claim(fresh(), "late", 1)).await;
                assert_eq!(answer, Answer::Refused(Refusal::SoldOut));
            });
            futures::future::join_all(late).await;
            self.refuses(fresh())
        })
        .await;
    }
}

/// A user who has not claimed.
fn fresh() -> UserId {
    static NEXT: AtomicI64 = AtomicI64::new(1_000);
    UserId(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn users_without_an_entry_are_refused_from_memory_and_those_with_one_are_not() {
    let world = World::open("remembered", 2, 2).await;
    let watching = Watching::start(&world, "a").await;
    let first = claim(USER, "first", 2);
    let won = watching.process.land(&first).await;
    assert!(!watching.refuses(fresh()), "the gate has not said so");
    watching.until_remembered().await;
    assert!(!watching.refuses(USER));
    assert_eq!(watching.process.land(&again(&first)).await, won);
    // A rebuilt gate has another epoch, and the same users.
    let epoch = world.rebuild().await;
    until_true(async || !watching.refuses(fresh())).await;
    watching.until_remembered().await;
    assert_eq!(watching.process.gates.known(TEMPLATE), epoch);
    assert!(!watching.refuses(USER));
    assert_eq!(watching.process.land(&again(&first)).await, won);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_process_adds_it_gives_out_at_once_and_others_soon() {
    let world = World::open("reopened", 1, 2).await;
    let here = Watching::start(&world, "a").await;
    let there = Watching::start(&world, "b").await;
    here.process.land(&claim(USER, "first", 1)).await;
    for round in 0..ROUNDS {
        here.until_remembered().await;
        there.until_remembered().await;
        move_stock(&world, &format!("add-{round}"), 1).await;
        here.process.gates.catch_up(TEMPLATE).await.unwrap();
        let winner = fresh();
        assert!(!here.refuses(winner), "it was told of the coupon");
        here.process.land(&claim(winner, "won", 1)).await;
        // This holds from the answer on, whether or not the other process has heard of it.
        assert!(!there.refuses(winner), "round {round}");
    }
    assert_eq!(world.rows().await.landed, 1 + ROUNDS);
}

/// A process that reaches the gate by a proxy, and remembers that the only coupon is gone.
async fn sold_out_behind_proxy(world: &World) -> (Watching, Proxy) {
    let proxy = Proxy::before(&world.gate_url).await;
    let gate = world.gate_at(&proxy.instead_of(&world.gate_url)).await;
    let change = |setup: &mut Setup| (setup.gate, setup.keeps) = (gate, false);
    let watching = Watching::of(Process::start_with(world, change).await);
    watching.process.land(&claim(USER, "first", 1)).await;
    watching.until_remembered().await;
    (watching, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_to_its_looks_a_process_refuses_nobody_from_memory() {
    let world = World::open("looks lost", 1, 1).await;
    let (watching, proxy) = sold_out_behind_proxy(&world).await;
    let mut held = proxy.hold_request(LOOK);
    held.reached().await;
    until_true(async || !watching.refuses(fresh())).await;
    held.cut();
    watching.until_remembered().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_under_way_is_not_refused_from_memory() {
    let world = World::open("under way", 1, 1).await;
    let (watching, proxy) = sold_out_behind_proxy(&world).await;
    let user = fresh();
    let key = "the-key-under-way";
    let mut held = proxy.hold_request(key.as_bytes());
    let answer = watching.process.begin(&claim(user, key, 1));
    held.reached().await;
    // Looks go on; they have a connection of their own.
    until_true(async || {
        let before = watching.refuses_key(user, "another-key");
        assert!(!watching.refuses_key(user, key));
        before && watching.refuses_key(user, "another-key")
    })
    .await;
    held.go_on();
    assert_eq!(answer.await.unwrap(), Answer::Refused(Refusal::SoldOut));
    until_true(async || watching.refuses_key(user, key)).await;
}
