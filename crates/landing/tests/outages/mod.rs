//! Servers that die, hang and come back while claims are under way.

mod held_rows;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use chrono::TimeDelta;
use coupon::UserId;
use futures::{future::join_all, join};
use landing::{
    claims::{Answer, CLAIMS_MAX, Unavailable},
    gates::{Gates, PRELOAD},
    metric,
    queue::NoQueue,
    rebuild::RebuildError,
    resolver::{ResolveError, Resolver, Watch},
};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use mysql_store::{StoreError, connect, stock};
use redis_gate::QueueOptions;
use runtime::FailPoints;
use testkit::until_true;

use crate::{
    harness::{Process, Rows, Setup, TEMPLATE, USER, World, again, claim, now, number},
    private,
};

async fn gate_is_back(world: &World) {
    until_true(async || {
        let Ok(Some(meta)) = world.gate.meta(TEMPLATE).await else { return false };
        meta.is_open() && matches!(world.gate.in_flight_count(TEMPLATE, meta.epoch).await, Ok(0))
    })
    .await;
}

/// The gauges set under this recorder.
#[derive(Default)]
struct Gauges(Mutex<HashMap<String, Arc<AtomicU64>>>);

impl Gauges {
    fn value(&self, name: &str) -> f64 {
        f64::from_bits(self.0.lock().unwrap()[name].load(Ordering::Relaxed))
    }
}

impl Recorder for Gauges {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.0.lock().unwrap();
        Gauge::from_arc(Arc::clone(gauges.entry(key.name().to_owned()).or_default()))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_redis_that_dies_between_gate_and_landing_costs_no_claim() {
        let mut servers = private::servers().await;
        let world = private::world(&servers, "redis_dies", 10, 2).await;
        let process = Process::start(&world, "a").await;
        let first = claim(USER, "a", 1);
        let mut held = process.points.hold("claims.after_gate");
        let answer = process.begin(&first);
        held.reached(1).await;
        servers.gate.kill().unwrap();
        held.let_go();
        // MySQL alone decides; the gate learns of the claim by its rebuild.
        let Answer::Landed { claim: landed, .. } = answer.await.unwrap() else {
            panic!("not landed")
        };
        let unknown = process.claim(&again(&first)).await;
        assert_eq!(unknown, Answer::Unavailable(Unavailable::Gate));
        servers.gate.start().await.unwrap();
        let replay = Answer::Landed { claim: landed, replayed: true };
        assert_eq!(process.retry(&first).await, replay);
        gate_is_back(&world).await;
        assert_eq!(world.rows().await, Rows { landed: 1, fences: 0, coupons: 1 });
        assert_eq!(world.entry(USER).await.taken, [1]);
        world.assert_gate_equals_mysql().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_redis_that_hangs_is_unknown_and_what_it_admits_late_is_ended() {
        let mut servers = private::servers().await;
        let world = private::world(&servers, "redis_hangs", 10, 2).await;
        // The api sends a client to poll long before the task gives up.
        let short = |setup: &mut Setup| setup.ask_for = Duration::from_millis(1_500);
        let process = Process::start_with(&world, short).await;
        process.gates.next_look().await;
        let first = claim(USER, "a", 1);
        servers.gate.pause().unwrap();
        assert_eq!(process.claim(&first).await, Answer::Unavailable(Unavailable::Gate));
        servers.gate.resume().unwrap();
        // The script whose caller has given up runs now.
        until_true(async || match world.gate.meta(TEMPLATE).await {
            Ok(Some(meta)) => world.gate.in_flight_count(TEMPLATE, meta.epoch).await.unwrap() == 1,
            _ => false,
        })
        .await;
        assert_eq!(world.resolve().await.released, 1);
        let Answer::Landed { claim: landed, .. } = process.retry(&first).await else {
            panic!("not landed")
        };
        assert_eq!(landed.coupons[0].claim_no, 1);
        gate_is_back(&world).await;
        assert_eq!(world.rows().await, Rows { landed: 1, fences: 1, coupons: 1 });
        world.assert_gate_equals_mysql().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_mysql_that_dies_or_hangs_gets_the_same_batch_when_it_is_back() {
        let mut servers = private::servers().await;
        for dies in [true, false] {
            let name = if dies { "mysql_dies" } else { "mysql_hangs" };
            let world = private::world(&servers, name, 10, 2).await;
            let process = Process::start(&world, "a").await;
            let opener = claim(UserId(1), "opener", 1);
            process.land(&opener).await;
            world.settled().await;
            let mut held = process.points.hold("landing.before_begin");
            let first = claim(USER, "a", 1);
            let answer = process.begin(&first);
            held.reached(1).await;
            if dies { servers.database.kill() } else { servers.database.pause() }.unwrap();
            held.let_go();
            let late = claim(UserId(2), "late", 1);
            let later = process.begin(&late);
            until_true(async || world.entry(UserId(2)).await.taken == [1]).await;
            assert!(!answer.is_finished() && !later.is_finished(), "unknown, and so not answered");
            if dies {
                servers.database.start().await.unwrap();
            } else {
                servers.database.resume().unwrap();
            }
            for (answer, sent) in [(answer, &first), (later, &late)] {
                let Answer::Landed { claim: landed, .. } = answer.await.unwrap() else {
                    panic!("not landed")
                };
                assert_eq!(landed.id, sent.id);
                let replay = Answer::Landed { claim: landed, replayed: true };
                assert_eq!(process.retry(sent).await, replay);
            }
            gate_is_back(&world).await;
            assert_eq!(world.rows().await, Rows { landed: 3, fences: 0, coupons: 3 });
            assert_eq!(world.left().await, 7);
            world.assert_gate_equals_mysql().await;
        }
    }

    /// Everything that reads MySQL gives up within [`connect::ANSWER_MAX`] if the server stops responding just after the
    /// connection was found alive.
    #[tokio::test]
    async fn a_mysql_that_falls_silent_keeps_nobody_waiting_and_what_is_stuck_is_counted() {
        let mut servers = private::servers().await;
        let world = private::world(&servers, "mysql_silent", 10, 2).await;
        let gauges = Gauges::default();
        let _recorded = metrics::set_default_local_recorder(&gauges);
        let lost = claim(USER, "a", 1);
        let epoch = world.meta().await.epoch;
        world.gate.claim(&lost, epoch, now(), QueueOptions::direct()).await.unwrap();
        let patient = Resolver { grace: Duration::from_secs(10), ..world.resolver() };
        let mut watch = Watch::default();
        patient.look_again(&mut watch, now()).await.unwrap();
        assert_eq!(gauges.value(metric::STUCK.name), 0.0);

        let pool = connect::pool(&world.url, 1).await.unwrap();
        let mut checked_out = connect::acquire(&pool).await.unwrap();
        let before = number(&mut checked_out, "select connection_id()").await;
        servers.database.pause().unwrap();
        let later = now() + TimeDelta::minutes(2);
        let silent = async {
            let asked = connect::within(stock::get(&mut checked_out, TEMPLATE)).await;
            let error = asked.unwrap_err();
            assert!(error.is_unavailable() && matches!(error, StoreError::Silent), "{error:?}");
            drop(checked_out);
            // Closed, although the server does not answer to that either.
            until_true(async || pool.size() == 0).await;
        };
        let queue = Arc::new(NoQueue);
        let points = FailPoints::default();
        let (_gates, mut keeper) =
            Gates::new(world.pool.clone(), world.gate.clone(), queue, "silent", PRELOAD, points);
        let (resolved, kept, ()) =
            join!(patient.look_again(&mut watch, later), keeper.look(later), silent);
        assert!(matches!(resolved, Err(ResolveError::Store(error)) if error.is_unavailable()));
        assert!(matches!(kept, Err(RebuildError::Store(error)) if error.is_unavailable()));
        assert_eq!(gauges.value(metric::STUCK.name), 1.0);

        servers.database.resume().unwrap();
        let mut next = connect::acquire(&pool).await.unwrap();
        assert_ne!(number(&mut next, "select connection_id()").await, before);
        assert_eq!(patient.look_again(&mut watch, later).await.unwrap().released, 1);
        patient.look_again(&mut watch, later).await.unwrap();
        assert_eq!(gauges.value(metric::STUCK.name), 0.0);
        world.assert_gate_equals_mysql().await;
    }

    /// Windows are in MySQL, so the next one is known while no gate is. Only an alert that says so tells an outage before
    /// a sale from one in a quiet night.
    #[tokio::test]
    async fn gates_whose_server_is_away_before_their_window_are_shown_as_not_loaded() {
        let mut servers = private::servers().await;
        let world = private::world(&servers, "gate_away", 10, 2).await;
        let gauges = Gauges::default();
        let _recorded = metrics::set_default_local_recorder(&gauges);
        let queue = Arc::new(NoQueue);
        let points = FailPoints::default();
        let (gates, mut keeper) =
            Gates::new(world.pool.clone(), world.gate.clone(), queue, "away", PRELOAD, points);
        keeper.look(now()).await.unwrap();
        assert!(gauges.value(metric::NOT_LOADED_OPENS.name).is_nan(), "all are loaded");
        servers.gate.kill().unwrap();
        // A check that begins before the closed connection is noticed fails at each template.
        until_true(async || matches!(keeper.look(now()).await, Err(RebuildError::Gate(_)))).await;
        assert!(gauges.value(metric::NOT_LOADED_OPENS.name) <= 0.0, "its window is open");
        assert_eq!(gates.not_loaded(), None, "nobody knows what the gate holds");
        servers.gate.start().await.unwrap();
        let is_all_loaded = || gates.not_loaded().is_some_and(|absent| absent.is_empty());
        until_true(async || keeper.look(now()).await.is_ok() && is_all_loaded()).await;
        assert!(gauges.value(metric::NOT_LOADED_OPENS.name).is_nan(), "loaded anew");
        world.assert_gate_equals_mysql().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn while_mysql_is_down_claims_queue_up_to_a_bound_and_more_are_shed() {
        const ALL: i64 = CLAIMS_MAX as i64;
        let mut servers = private::servers().await;
        let world = private::world(&servers, "mysql_down", ALL + 100, 1).await;
        let process = Process::start(&world, "a").await;
        process.land(&claim(USER, "opener", 1)).await;
        world.settled().await;
        servers.database.kill().unwrap();
        let users = 1_000..1_000 + ALL;
        let waiting: Vec<_> =
            users.map(|user| process.begin(&claim(UserId(user), "a", 1))).collect();
        let epoch = world.meta().await.epoch;
        // More than 16,000 claims begin in this process, so an answer may come too late, and the call is repeated.
        let in_flight = async || world.gate.in_flight_count(TEMPLATE, epoch).await.ok();
        until_true(async || in_flight().await == Some(CLAIMS_MAX as u64)).await;
        let shed = process.claim(&claim(UserId(1), "a", 1)).await;
        assert_eq!(shed, Answer::Unavailable(Unavailable::Overloaded));
        servers.database.start().await.unwrap();
        for answer in join_all(waiting).await {
            assert!(matches!(answer.unwrap(), Answer::Landed { replayed: false, .. }));
        }
        gate_is_back(&world).await;
        assert_eq!(world.rows().await, Rows { landed: ALL + 1, fences: 0, coupons: ALL + 1 });
        world.assert_gate_equals_mysql().await;
        process.land(&claim(UserId(1), "a", 1)).await;
    }
}
