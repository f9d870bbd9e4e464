//! Rows of the two tables of `docs/failures.md`: injects the fault at a named point, then checks the answer, the rows,
//! the gate, the user's entry, and a repetition of the key.

use std::{sync::Arc, time::Duration};

use chrono::TimeDelta;
use coupon::{Claim, Epoch, RequestId, Template, TemplateId, TemplateState, UserId, Validity};
use futures::future::join_all;
use landing::claims::{Answer, Unavailable};
use mysql_store::{
    stock::{self, NewMovement},
    template_edit::{self, Edited},
    verify,
};
use redis_gate::{QueueOptions, Refusal, RequestState, Verdict};
use sqlx::Connection;
use testkit::{COMMIT, Proxy, until_listed, until_true};

use crate::harness::{
    Process, Rows, Setup, TEMPLATE, USER, World, again, claim, execute, now, number, template,
    until_session, waits_for_a_row,
};

/// Coupons of a test's template.
const TOTAL: i64 = 10;

/// Beginning of the guard's statement as sent when a connection first uses it.
const GUARD: &[u8] = b"update template_stock";

/// Between the gate's answer and the lander.
const AFTER_GATE: &str = "claims.after_gate";
/// Before a batch's transaction.
const BEFORE_BEGIN: &str = "landing.before_begin";

/// A process whose landers connect to MySQL through the proxy.
async fn behind_proxy(world: &World) -> (Process, Proxy) {
    let proxy = Proxy::before(&world.url).await;
    let url = proxy.instead_of(&world.url);
    (Process::start_with(world, |setup| setup.database_url = url).await, proxy)
}

/// The claim of [`USER`] holds number 1, and there are no other coupons; gate and MySQL agree. Repeating the key brings
/// the same answer and changes nothing.
async fn assert_landed_once(world: &World, process: &Process, claim: &Claim, fences: i64) {
    let rows = Rows { landed: 1, fences, coupons: 1 };
    for _ in 0..2 {
        world.settled().await;
        assert_eq!((world.rows().await, world.left().await), (rows, TOTAL - 1));
        world.assert_gate_equals_mysql().await;
        let entry = world.entry(USER).await;
        assert_eq!(entry.taken, [1]);
        assert!(entry.requests.iter().all(|request| request.state == RequestState::Landed));
        let Answer::Landed { claim: landed, replayed: true } = process.retry(claim).await else {
            panic!("the key is not answered")
        };
        assert_eq!(landed.coupons[0].claim_no, 1);
    }
}

/// Nothing landed, nothing is in flight, the user holds nothing, and the whole stock is left.
async fn assert_nothing_landed(world: &World, fences: i64) {
    world.settled().await;
    assert_eq!(world.rows().await, Rows { landed: 0, fences, coupons: 0 });
    world.assert_gate_equals_mysql().await;
    let entry = world.entry(USER).await;
    assert!(entry.taken.is_empty() && entry.requests.is_empty(), "{entry:?}");
}

fn landed(answer: Answer) -> coupon::LandedClaim {
    match answer {
        Answer::Landed { claim, .. } => claim,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_is_lost_is_found_landed_under_its_own_id() {
    let world = World::open("commit lost", TOTAL, 2).await;
    let (process, proxy) = behind_proxy(&world).await;
    let first = claim(USER, "a", 1);
    let mut commit = proxy.hold_answer(COMMIT);
    let answer = process.begin(&first);
    commit.reached().await;
    assert_eq!(world.rows().await.landed, 1, "committed, and nobody has heard of it");
    commit.cut();
    assert_eq!(landed(answer.await.unwrap()).id, first.id);
    assert_landed_once(&world, &process, &first, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_the_commit_that_is_not_acted_on_is_found_again() {
    let world = World::open("after commit", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    process.points.fail("landing.after_commit");
    let first = claim(USER, "a", 1);
    assert_eq!(process.land(&first).await.id, first.id);
    assert_landed_once(&world, &process, &first, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_killed_inside_the_transaction_leave_nothing_and_the_batch_lands() {
    for point in [GUARD, COMMIT] {
        let world = World::open("killed inside", TOTAL, 2).await;
        let (process, proxy) = behind_proxy(&world).await;
        let first = claim(USER, "a", 1);
        let mut held = proxy.hold_request(point);
        let answer = process.begin(&first);
        held.reached().await;
        kill_all_connections(&world).await;
        held.go_on();
        assert_eq!(landed(answer.await.unwrap()).id, first.id);
        assert_landed_once(&world, &process, &first, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_any_point_inside_the_transaction_leaves_nothing_and_the_batch_lands() {
    for point in ["landing.after_insert", "landing.after_guard", "landing.before_commit"] {
        let world = World::open("error inside", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let first = claim(USER, "a", 1);
        process.points.fail(point);
        let mut held = process.points.hold(point);
        let answer = process.begin(&first);
        // The second attempt, over another connection. The first attempt's rows are gone.
        held.reached(1).await;
        assert_eq!(world.rows().await, Rows::default());
        held.let_go();
        assert_eq!(landed(answer.await.unwrap()).id, first.id, "{point}");
        assert_landed_once(&world, &process, &first, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_killed_after_commit_was_sent_leaves_everything() {
    let world = World::open("killed after", TOTAL, 2).await;
    let (process, proxy) = behind_proxy(&world).await;
    let first = claim(USER, "a", 1);
    let mut held = proxy.hold_answer(COMMIT);
    let answer = process.begin(&first);
    held.reached().await;
    kill_all_connections(&world).await;
    assert_eq!(world.rows().await.landed, 1);
    // The lander sees only a lost connection.
    held.cut();
    assert_eq!(landed(answer.await.unwrap()).id, first.id);
    assert_landed_once(&world, &process, &first, 0).await;
}

/// Kills every connection to this database, including the lander's.
async fn kill_all_connections(world: &World) {
    let mut connection = world.connection().await;
    let all = "db = database() and id <> connection_id()";
    // The lander's is always there.
    let listed =
        async || verify::sessions(&mut connection, all).await.unwrap().map(|ids| vec![ids]);
    for id in until_listed(listed).await {
        // A connection that has ended by itself is not an error.
        let kill = format!("kill {id}");
        drop(sqlx::raw_sql(sqlx::AssertSqlSafe(kill)).execute(&mut connection).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_landed_elsewhere_meanwhile_is_answered_by_what_is_stored() {
    for (there, same) in [(1, true), (2, false)] {
        let world = World::open("landed elsewhere", TOTAL, 2).await;
        let a = Process::start(&world, "a").await;
        let b = Process::start(&world, "b").await;
        let first = claim(USER, "a", 1);
        let mut held = a.points.hold(AFTER_GATE);
        let answer = a.begin(&first);
        held.reached(1).await;
        // The new epoch's gate does not know the key.
        world.rebuild().await;
        let Answer::Landed { claim: stored, .. } = b.retry(&claim(USER, "a", there)).await else {
            panic!("not landed elsewhere")
        };
        held.let_go();
        let expected = match same {
            true => Answer::Landed { claim: stored, replayed: true },
            false => Answer::KeyReused,
        };
        assert_eq!(answer.await.unwrap(), expected);
        world.settled().await;
        let coupons = i64::from(there);
        assert_eq!(world.rows().await, Rows { landed: 1, fences: 0, coupons });
        assert_eq!(world.left().await, TOTAL - coupons);
        world.assert_gate_equals_mysql().await;
        assert_eq!(a.retry(&first).await, expected, "and so is the key ever after");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_that_was_fenced_is_given_up_and_its_key_is_free() {
    for point in [AFTER_GATE, BEFORE_BEGIN] {
        let world = World::open("fenced", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let first = claim(USER, "a", 1);
        let mut held = process.points.hold(point);
        let answer = process.begin(&first);
        held.reached(1).await;
        assert_eq!(world.entry(USER).await.requests[0].state, RequestState::Pending);
        assert_eq!(world.resolve().await.released, 1);
        held.let_go();
        assert_eq!(answer.await.unwrap(), Answer::Unavailable(Unavailable::GivenUp));
        assert_nothing_landed(&world, 1).await;
        process.land(&again(&first)).await;
        assert_landed_once(&world, &process, &first, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admission_of_an_older_epoch_lands_under_the_new_one_with_the_same_id() {
    for point in [AFTER_GATE, BEFORE_BEGIN, "landing.before_reread"] {
        let world = World::open("epoch differs", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let first = claim(USER, "a", 1);
        let mut held = process.points.hold(point);
        let other = (point == "landing.before_reread").then_some(BEFORE_BEGIN);
        let mut before = other.map(|point| process.points.hold(point));
        let answer = process.begin(&first);
        if let Some(before) = &mut before {
            before.reached(1).await;
            world.rebuild().await;
        }
        drop(before);
        held.reached(1).await;
        world.rebuild().await;
        held.let_go();
        let landed = landed(answer.await.unwrap());
        assert_eq!(landed.id, first.id);
        assert_landed_once(&world, &process, &first, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_rebuilt_again_and_again_answers_as_being_loaded() {
    let world = World::open("epochs", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    let first = claim(USER, "a", 1);
    let mut held = process.points.hold(AFTER_GATE);
    let answer = process.begin(&first);
    held.reached(1).await;
    world.rebuild().await;
    let mut next = process.points.hold(AFTER_GATE);
    held.let_go();
    next.reached(1).await;
    world.rebuild().await;
    next.let_go();
    assert_eq!(answer.await.unwrap(), Answer::Unavailable(Unavailable::GateLoading));
    assert_nothing_landed(&world, 0).await;
    process.land(&again(&first)).await;
    assert_landed_once(&world, &process, &first, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pause_or_an_end_in_flight_refuses_and_gives_back() {
    let ends = [(TemplateState::Paused, Refusal::Paused), (TemplateState::Ended, Refusal::Ended)];
    for (state, refusal) in ends {
        let world = World::open("not open", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let first = claim(USER, "a", 1);
        let mut held = process.points.hold(AFTER_GATE);
        let answer = process.begin(&first);
        held.reached(1).await;
        world.change_state(TEMPLATE, state).await;
        held.let_go();
        assert_eq!(answer.await.unwrap(), Answer::Refused(refusal));
        assert_nothing_landed(&world, 1).await;
        if state == TemplateState::Paused {
            process.publish(&world).await;
            process.land(&again(&first)).await;
            assert_landed_once(&world, &process, &first, 1).await;
        } else {
            assert_eq!(process.retry(&first).await, Answer::Refused(refusal));
            assert_eq!(world.rows().await.landed, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_validity_in_flight_lands_with_the_new_one_or_is_waited_for() {
    let until = now() + TimeDelta::hours(2);
    for (point, expected) in [
        (AFTER_GATE, until),
        (BEFORE_BEGIN, until),
        ("landing.after_insert", until),
        ("landing.after_guard", now() + TimeDelta::days(1)),
        ("landing.before_commit", now() + TimeDelta::days(1)),
    ] {
        let world = World::open("terms", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let epoch = world.meta().await.epoch;
        let first = claim(USER, "a", 1);
        let mut held = process.points.hold(point);
        let answer = process.begin(&first);
        held.reached(1).await;
        let mut connection = world.connection().await;
        let changer = number(&mut connection, "select connection_id()").await;
        let change = tokio::spawn(async move {
            let before = template(TEMPLATE, 2);
            let validity = Validity::Absolute { from: now(), until };
            let after = Template { validity, ..before.clone() };
            template_edit::edit(&mut connection, &before, &after, false, now()).await
        });
        if expected == until {
            assert_eq!(change.await.unwrap().unwrap(), Edited::Done);
            held.let_go();
        } else {
            // The landing locks the stock row, so the change comes after it.
            waits_for_a_row(&world, changer).await;
            held.let_go();
            assert_eq!(change.await.unwrap().unwrap(), Edited::Done);
        }
        assert_eq!(landed(answer.await.unwrap()).valid_until, expected, "{point}");
        assert_landed_once(&world, &process, &first, 0).await;
        // A process that does not know about the change.
        assert_eq!(process.land(&claim(UserId(71), "b", 1)).await.valid_until, until);
        assert_eq!(world.meta().await.epoch, epoch, "no gate was loaded for it");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_lies_about_the_stock_is_refused_fenced_and_mended() {
    for (left, refusal) in [(0, Refusal::SoldOut), (1, Refusal::Insufficient { left: 1 })] {
        let (world, process) = lied_to(left, refusal).await;
        assert_eq!(world.rows().await, Rows { landed: 0, fences: 1, coupons: 0 });
        world.assert_gate_equals_mysql().await;
        // The same key may request less, if there is anything left.
        let less = process.retry(&claim(USER, "a", 1)).await;
        match left {
            0 => assert_eq!(less, Answer::Refused(Refusal::SoldOut)),
            _ => assert_eq!(landed(less).coupons.len(), 1),
        }
        world.settled().await;
        world.assert_gate_equals_mysql().await;
    }
}

/// Has a gate admit a claim of two although MySQL has fewer coupons left, until the gate is mended. A keeper that looks
/// at the gate before the claim ends the lie; then another gate lies.
async fn lied_to(left: i64, refusal: Refusal) -> (World, Process) {
    loop {
        let world = World::open("short", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let epoch = world.meta().await.epoch;
        world.execute(&format!("update template_stock set stock = {left}, total = {left}")).await;
        let answer = process.claim(&claim(USER, "a", 2)).await;
        until_true(async || world.meta().await.epoch > epoch && world.meta().await.stock == left)
            .await;
        world.settled().await;
        if world.rows().await.fences > 0 {
            assert_eq!(answer, Answer::Refused(refusal));
            return (world, process);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_reports_what_the_decision_saw_although_the_stock_was_topped_up_since() {
    let world = World::open("cut and top-up", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    let mut connection = world.connection().await;
    let mut move_by = async |key: &str, delta: i64| {
        let request_id = &RequestId::from_client(key).unwrap();
        let new = NewMovement { request_id, delta, reason: "a race", actor: "test" };
        stock::add_movement(&mut connection, TEMPLATE, &new, now()).await.unwrap();
    };
    let mut admitted = process.points.hold(AFTER_GATE);
    let mut decided = process.points.hold("claims.before_fence");
    let answer = process.begin(&claim(USER, "a", 1));
    admitted.reached(1).await;
    move_by("cut", -TOTAL).await;
    admitted.let_go();
    decided.reached(1).await;
    move_by("top-up", TOTAL).await;
    decided.let_go();
    // The claim requests one, and ten are left by now: `Insufficient` would be wrong.
    assert_eq!(answer.await.unwrap(), Answer::Refused(Refusal::SoldOut));
    until_true(async || world.meta().await.stock == TOTAL).await;
    assert_eq!(landed(process.retry(&claim(USER, "a", 1)).await).coupons.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_in_flight_refuses_what_it_took_and_needs_no_new_epoch() {
    for (cut, refusal) in
        [(TOTAL, Refusal::SoldOut), (TOTAL - 1, Refusal::Insufficient { left: 1 })]
    {
        let world = World::open("cut in flight", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let epoch = world.meta().await.epoch;
        let mut held = process.points.hold(AFTER_GATE);
        let answer = process.begin(&claim(USER, "a", 2));
        held.reached(1).await;
        let request_id = &RequestId::from_client("cut").unwrap();
        let cut = NewMovement { request_id, delta: -cut, reason: "a cut", actor: "test" };
        let mut connection = world.connection().await;
        stock::add_movement(&mut connection, TEMPLATE, &cut, now()).await.unwrap();
        held.let_go();
        assert_eq!(answer.await.unwrap(), Answer::Refused(refusal));
        until_true(async || world.meta().await.stock == TOTAL + cut.delta).await;
        assert_nothing_landed(&world, 1).await;
        assert_eq!(world.meta().await.epoch, epoch);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_admission_whose_fence_or_release_is_cut_short_is_ended_by_the_resolver() {
    for point in ["claims.before_fence", "claims.before_release"] {
        let world = World::open("cut short", TOTAL, 2).await;
        let process = Process::start(&world, "a").await;
        let first = claim(USER, "a", 1);
        process.points.fail(point);
        world.change_state(TEMPLATE, TemplateState::Paused).await;
        let answer = process.claim(&first).await;
        let expected = match point {
            "claims.before_fence" => Answer::Unavailable(Unavailable::Stopping),
            _ => Answer::Refused(Refusal::Paused),
        };
        assert_eq!(answer, expected, "{point}");
        assert_eq!(world.entry(USER).await.taken, [1], "not yet given back");
        assert_eq!(world.resolve().await.released, 1);
        assert_nothing_landed(&world, 1).await;
        process.publish(&world).await;
        process.land(&again(&first)).await;
        assert_landed_once(&world, &process, &first, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_after_the_gate_leaves_an_admission_that_the_resolver_ends() {
    let world = World::open("dies", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    process.points.fail(AFTER_GATE);
    let first = claim(USER, "a", 1);
    assert_eq!(process.claim(&first).await, Answer::Unavailable(Unavailable::Stopping));
    assert_eq!(process.claim(&again(&first)).await, Answer::InProgress, "nobody knows yet");
    assert_eq!(world.resolve().await.released, 1);
    assert_nothing_landed(&world, 1).await;
    process.land(&again(&first)).await;
    assert_landed_once(&world, &process, &first, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_landed_admission_that_nobody_settled_is_settled_by_the_resolver() {
    let world = World::open("not settled", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    let mut held = process.points.hold("settler.before_settle");
    process.points.fail("settler.before_settle");
    let first = claim(USER, "a", 1);
    let answer = process.land(&first).await;
    held.reached(1).await;
    assert_eq!(world.entry(USER).await.requests[0].state, RequestState::Pending);
    // MySQL is read before a pending key counts as under way.
    let replay = Answer::Landed { claim: answer, replayed: true };
    assert_eq!(process.claim(&again(&first)).await, replay);
    assert_eq!(world.resolve().await.settled, 1);
    held.let_go();
    assert_landed_once(&world, &process, &first, 0).await;
}

/// A process that reaches the gate through a proxy, after its first check of the gates.
async fn behind_gate_proxy(world: &World) -> (Process, Proxy) {
    behind_gate_proxy_with(world, |_| {}).await
}

async fn behind_gate_proxy_with(
    world: &World,
    change: impl FnOnce(&mut Setup),
) -> (Process, Proxy) {
    let proxy = Proxy::before(&world.gate_url).await;
    let gate = world.gate_at(&proxy.instead_of(&world.gate_url)).await;
    let change = |setup: &mut Setup| {
        setup.gate = gate;
        change(setup);
    };
    let process = Process::start_with(world, change).await;
    process.gates.next_look().await;
    // Load the script first: a server without it answers that it needs loading, and no such answer must be held back.
    let elsewhere = Claim { template_id: TemplateId(99), ..claim(USER, "warm", 1) };
    let verdict =
        world.gate.claim(&elsewhere, Epoch(1), now(), QueueOptions::direct()).await.unwrap();
    assert_eq!(verdict, Verdict::NotLoaded);
    (process, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_answer_is_lost_is_asked_again_and_admits_once() {
    for answered in [true, false] {
        let world = World::open("gate lost", TOTAL, 2).await;
        let (process, proxy) = behind_gate_proxy(&world).await;
        let first = claim(USER, "a", 1);
        let key = first.request_id.digest();
        let mut held = match answered {
            true => proxy.hold_answer(&key),
            false => proxy.hold_request(&key),
        };
        let answer = process.begin(&first);
        held.reached().await;
        assert_eq!(world.entry(USER).await.taken.len(), usize::from(answered));
        held.cut();
        assert_eq!(landed(answer.await.unwrap()).id, first.id);
        assert_landed_once(&world, &process, &first, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_reaches_the_gate_after_a_rebuild_is_admitted_under_the_new_epoch_only() {
    let world = World::open("late packet", TOTAL, 2).await;
    let (process, proxy) = behind_gate_proxy(&world).await;
    let first = claim(USER, "a", 1);
    let mut held = proxy.hold_request(&first.request_id.digest());
    let answer = process.begin(&first);
    held.reached().await;
    let before = world.meta().await.epoch;
    world.rebuild().await;
    held.go_on();
    assert_eq!(landed(answer.await.unwrap()).id, first.id);
    assert!(world.meta().await.epoch > before);
    assert_landed_once(&world, &process, &first, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_never_answers_is_unknown_and_the_resolver_ends_what_it_admitted() {
    let world = World::open("gate silent", TOTAL, 2).await;
    let impatient = |setup: &mut Setup| setup.ask_for = Duration::ZERO;
    let (process, proxy) = behind_gate_proxy_with(&world, impatient).await;
    let first = claim(USER, "a", 1);
    let mut held = proxy.hold_answer(&first.request_id.digest());
    let answer = process.begin(&first);
    held.reached().await;
    held.cut();
    assert_eq!(answer.await.unwrap(), Answer::Unavailable(Unavailable::Gate));
    let entry = world.entry(USER).await;
    assert_eq!((entry.taken.len(), entry.requests.len()), (1, 1), "one admission");
    assert_eq!(world.resolve().await.released, 1);
    assert_nothing_landed(&world, 1).await;
    process.land(&again(&first)).await;
    assert_landed_once(&world, &process, &first, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_whose_answers_are_lost_again_and_again_is_asked_on_and_the_claim_lands_once() {
    let world = World::open("gate mumbles", TOTAL, 2).await;
    let (process, proxy) = behind_gate_proxy(&world).await;
    let first = claim(USER, "a", 1);
    let tries: Vec<_> = (0..5).map(|_| proxy.hold_answer(&first.request_id.digest())).collect();
    let answer = process.begin(&first);
    for mut held in tries {
        held.reached().await;
        held.cut();
    }
    assert_eq!(landed(answer.await.unwrap()).id, first.id);
    assert_landed_once(&world, &process, &first, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_somebody_holds_too_long_is_waited_for_aside() {
    let world = World::open("lock wait", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    let mut rival = world.connection().await;
    let mut holding = rival.begin().await.unwrap();
    execute(&mut holding, LOCK).await;
    let first = claim(USER, "a", 1);
    let answer = process.begin(&first);
    let lander = lander_at_the_guard(&world).await;
    // Its lock wait timed out (1205): all was rolled back, and another connection waits for the row.
    until_true(async || lander_at_the_guard(&world).await != lander).await;
    holding.rollback().await.unwrap();
    assert_eq!(landed(answer.await.unwrap()).id, first.id);
    assert_landed_once(&world, &process, &first, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_a_resolver_ends_and_the_claim_with_it() {
    let world = World::open("deadlock", TOTAL, 2).await;
    let process = Process::start(&world, "a").await;
    let first = claim(USER, "a", 1);
    // The rival has done far more, so the batch becomes the deadlock victim.
    let mut rival = world.connection().await;
    let mut holding = rival.begin().await.unwrap();
    let heavy: Vec<String> = (0..500).map(|n| format!("('{n}', '', now())")).collect();
    execute(&mut holding, &format!("insert into lease values {}", heavy.join(","))).await;
    execute(&mut holding, LOCK).await;
    let answer = process.begin(&first);
    let lander = lander_at_the_guard(&world).await;
    waits_for_a_row(&world, lander).await;
    let fence = mysql_store::fence::place(&mut holding, TEMPLATE, USER, first.id, first.claimed_at);
    assert_eq!(fence.await.unwrap(), mysql_store::fence::Fence::Stands, "the batch gave way");
    holding.rollback().await.unwrap();
    assert_eq!(landed(answer.await.unwrap()).id, first.id);
    assert_landed_once(&world, &process, &first, 0).await;
}

/// Locks the stock row. It is no update: MySQL may list it for a moment after its answer.
const LOCK: &str = "select stock from template_stock where template_id = 10 for update";

/// Returns the connection that waits to take stock.
async fn lander_at_the_guard(world: &World) -> i64 {
    let takes = "db = database() and info like 'update template_stock%'";
    until_session(&mut world.connection().await, takes).await
}

/// Two more templates of the same lander.
const PAUSED: TemplateId = TemplateId(12);
const SHORT: TemplateId = TemplateId(14);

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_meets_every_fault_at_once_answers_each_rightly() {
    let world = World::open("all at once", 100, 3).await;
    for id in [PAUSED, SHORT] {
        world.publish(id, 2, 3).await;
        world.rebuild_gate_of(id).await;
    }
    let (process, proxy) = behind_proxy(&world).await;
    let taken = process.land(&claim(UserId(5), "taken", 1)).await;
    world.settled().await;
    // One claim keeps the lander busy; all others queue up behind it and form one batch.
    let mut busy = process.points.hold(BEFORE_BEGIN);
    let opener = process.begin(&claim(UserId(1), "opener", 1));
    busy.reached(1).await;
    let mut admitted = process.points.hold(AFTER_GATE);
    let fresh: Vec<Claim> = (10..30).map(|user| claim(UserId(user), "fresh", 2)).collect();
    let answers: Vec<_> = fresh.iter().map(|claim| process.begin(claim)).collect();
    let fenced = claim(UserId(2), "fenced", 1);
    let fenced_answer = process.begin(&fenced);
    let other = |id, user| Claim { template_id: id, ..claim(UserId(user), "other", 2) };
    let paused = begin_at(&process, PAUSED, &other(PAUSED, 3));
    let short = begin_at(&process, SHORT, &other(SHORT, 4));
    admitted.reached(fresh.len() + 3).await;
    let mut connection = world.connection().await;
    let fence = mysql_store::fence::place(
        &mut connection,
        TEMPLATE,
        UserId(2),
        fenced.id,
        fenced.claimed_at,
    );
    fence.await.unwrap();
    world.change_state(PAUSED, TemplateState::Paused).await;
    world.execute("update template_stock set stock = 1, total = 1 where template_id = 14").await;
    // The connection is also lost after the first commit of the batch.
    let mut commit = proxy.hold_answer(COMMIT);
    admitted.let_go();
    busy.let_go();
    commit.reached().await;
    commit.cut();

    landed(opener.await.unwrap());
    for answer in join_all(answers).await {
        assert_eq!(landed(answer.unwrap()).coupons.len(), 2);
    }
    assert_eq!(fenced_answer.await.unwrap(), Answer::Unavailable(Unavailable::GivenUp));
    assert_eq!(paused.await.unwrap(), Answer::Refused(Refusal::Paused));
    assert_eq!(short.await.unwrap(), Answer::Refused(Refusal::Insufficient { left: 1 }));
    world.settled().await;
    world.assert_gate_equals_mysql().await;
    assert_eq!(world.rows().await, Rows { landed: 22, fences: 3, coupons: 42 });
    assert_eq!(world.left().await, 100 - 42);
    assert_eq!(landed(process.retry(&claim(UserId(5), "taken", 1)).await), taken);
}

fn begin_at(
    process: &Process,
    id: TemplateId,
    claim: &Claim,
) -> tokio_util::task::AbortOnDropHandle<Answer> {
    let claims = process.claims.clone();
    let claim = claim.clone();
    let template = Arc::new(template(id, 3));
    let answer = async move { claims.claim(template, claim).await };
    tokio_util::task::AbortOnDropHandle::new(tokio::spawn(answer))
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_connection_gone_without_a_word_is_given_up_and_the_batch_lands() {
        let world = World::open("gone silent", TOTAL, 2).await;
        let (process, proxy) = behind_proxy(&world).await;
        let first = claim(USER, "a", 1);
        // Never released: the connection stays half-open.
        let mut held = proxy.hold_request(COMMIT);
        let answer = process.begin(&first);
        held.reached().await;
        assert_eq!(landed(answer.await.unwrap()).id, first.id);
        assert_landed_once(&world, &process, &first, 0).await;
        held.go_on();
        assert_landed_once(&world, &process, &first, 0).await;
    }
}
