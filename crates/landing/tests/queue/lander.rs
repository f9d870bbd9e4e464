//! Queued claims on a real database: each ends as the table says, with and without a gate.

use std::{slice, sync::Arc};

use coupon::{
    AcceptAfter, AcceptedClaims, Admission, Claim, Epoch, Numbers, QueuedClaim, RejectReason,
    RequestId, TemplateId, TemplateState, UserId,
};
use landing::{
    ids::Ids,
    queued::{GateReports, QueuedEnd, QueuedLander},
};
use mysql_store::{
    fence,
    stock::{self, NewMovement},
    template,
};
use redis_gate::{QueueOptions, RequestState, Verdict};
use runtime::FailPoints;
use sqlx::Connection;
use testkit::until_true;
use tokio_util::task::AbortOnDropHandle;

use crate::harness::{TEMPLATE, USER, World, again, claim, execute, now};

/// Epoch of a newly created template.
const EPOCH: Epoch = Epoch(1);

const CLOSED: TemplateId = TemplateId(11);
const SHORT: TemplateId = TemplateId(12);
const UNKNOWN: TemplateId = TemplateId(13);

pub(super) struct Bench {
    pub(super) world: World,
    ids: Arc<Ids>,
    pub(super) points: FailPoints,
    reports: GateReports,
    _reporting: AbortOnDropHandle<()>,
}

impl Bench {
    pub(super) async fn new(name: &str, stock: i64) -> Self {
        Self::of(World::without_gate(name, stock, 5).await).await
    }

    /// With an open gate that queues every claim.
    async fn with_gate(name: &str, stock: i64) -> Self {
        let world = World::without_gate(name, stock, 5).await;
        world.execute("update coupon_template set claim_mode = 1").await;
        world.rebuild().await;
        world.execute("update template_stock set queued_epoch = epoch").await;
        Self::of(world).await
    }

    async fn of(world: World) -> Self {
        let ids = Arc::new(Ids::lease(world.pool.clone(), "test").await.unwrap());
        let pool = world.pool.clone();
        let (reports, reporter) = GateReports::new(&world.gate_url, &world.prefix, pool);
        let reporting = AbortOnDropHandle::new(tokio::spawn(reporter.run()));
        Self { world, ids, points: FailPoints::default(), reports, _reporting: reporting }
    }

    async fn lander(&self) -> QueuedLander {
        let reports = self.reports.clone();
        let points = self.points.clone();
        QueuedLander::connect(&self.world.url, &self.ids, reports, now, points).await
    }

    pub(super) async fn land(&self, batch: &[QueuedClaim]) -> Vec<QueuedEnd> {
        self.lander().await.land(batch).await
    }

    /// Queues a claim in the gate.
    async fn queue(&self, claim: &Claim) -> QueuedClaim {
        let epoch = self.world.meta().await.epoch;
        let verdict =
            self.world.gate.claim(claim, epoch, now(), QueueOptions::direct()).await.unwrap();
        let Verdict::Queued { numbers, .. } = verdict else { panic!("{verdict:?}") };
        QueuedClaim {
            admission: Admission { epoch, ..admission(claim.clone(), numbers) },
            ..queued(claim.clone(), &[])
        }
    }

    /// Landed claims, fences, rejected claims, and coupons.
    pub(super) async fn counts(&self) -> (i64, i64, i64, i64) {
        let count = |sql| self.world.number(sql);
        (
            count("select count(*) from claim where state = 1").await,
            count("select count(*) from claim where state = 2").await,
            count("select count(*) from claim where state = 3").await,
            count("select count(*) from user_coupon").await,
        )
    }

    async fn number_of(&self, queued: &QueuedClaim) -> i64 {
        let id = queued.admission.claim.id;
        self.world.number(&format!("select claim_no from user_coupon where claim_id = {id}")).await
    }
}

fn admission(claim: Claim, numbers: Numbers) -> Admission {
    Admission { claim, epoch: EPOCH, numbers }
}

fn queued(claim: Claim, numbers: &[u8]) -> QueuedClaim {
    let admitted_at = claim.claimed_at;
    let admission = admission(claim, numbers.to_vec());
    QueuedClaim { admission, accept_after: AcceptAfter::Topic, admitted_at, left_after: Some(7) }
}

pub(super) fn fresh(user: i64) -> QueuedClaim {
    queued(claim(UserId(user), "fresh", 1), &[1])
}

fn of(template_id: TemplateId, user: i64, quantity: u8) -> QueuedClaim {
    let claim = claim(UserId(user), "fresh", u32::from(quantity));
    let numbers: Numbers = (1..=quantity).collect();
    queued(Claim { template_id, ..claim }, &numbers)
}

async fn pause(world: &World, id: TemplateId, accepted: AcceptedClaims) {
    let mut connection = world.connection().await;
    let current = template::get(&mut connection, id).await.unwrap().unwrap();
    let paused = TemplateState::Paused;
    let changed =
        template::change_state_with(&mut connection, &current, paused, accepted, now()).await;
    assert!(changed.unwrap());
}

#[tokio::test]
async fn a_mixed_batch_ends_each_claim_as_the_table_says_and_lands_exactly_the_fresh_ones() {
    let bench = Bench::new("queued mixed", 1_000).await;
    bench.world.publish(CLOSED, 10, 5).await;
    pause(&bench.world, CLOSED, AcceptedClaims::Reject).await;
    bench.world.publish(SHORT, 3, 5).await;

    let landed = queued(claim(UserId(1), "a", 1), &[1]);
    let rejected = of(CLOSED, 2, 1);
    let full = queued(claim(UserId(4), "full", 5), &[1, 2, 3, 4, 5]);
    let before = bench.land(&[landed.clone(), rejected.clone(), full]).await;
    let paused = QueuedEnd::Rejected(RejectReason::Paused);
    assert_eq!(before, [QueuedEnd::Landed, paused, QueuedEnd::Landed]);
    let elsewhere = queued(again(&landed.admission.claim), &[2]);
    let mut also_elsewhere = queued(again(&rejected.admission.claim), &[2]);
    also_elsewhere.admission.claim.template_id = CLOSED;
    let fenced = queued(claim(UserId(3), "a", 1), &[1]);
    let mut connection = bench.world.connection().await;
    let id = fenced.admission.claim.id;
    fence::place(&mut connection, TEMPLATE, UserId(3), id, now()).await.unwrap();
    let mut late = fresh(5);
    late.admission.epoch = Epoch(0);
    let taken = queued(claim(UserId(1), "b", 1), &[1]);
    let none_free = queued(claim(UserId(4), "b", 1), &[1]);
    let mut refused = fresh(6);
    refused.admission.claim.trace_parent = Some("x".repeat(56));
    let first = fresh(101);

    let batch = [
        (landed.clone(), QueuedEnd::LandedBefore),
        (first.clone(), QueuedEnd::Landed),
        (rejected.clone(), QueuedEnd::RejectedBefore),
        (elsewhere, QueuedEnd::Elsewhere),
        (also_elsewhere, QueuedEnd::Elsewhere),
        (fenced, QueuedEnd::Fenced),
        (late, QueuedEnd::TooLate),
        (taken.clone(), QueuedEnd::Landed),
        (none_free, QueuedEnd::Rejected(RejectReason::LimitReached)),
        (fresh(102), QueuedEnd::Landed),
        (of(CLOSED, 7, 1), paused),
        (of(SHORT, 8, 2), QueuedEnd::Landed),
        // By the time it is rejected, the one behind it has the last coupon.
        (of(SHORT, 9, 2), QueuedEnd::Rejected(RejectReason::SoldOut)),
        (of(SHORT, 10, 1), QueuedEnd::Landed),
        (of(SHORT, 11, 1), QueuedEnd::Rejected(RejectReason::SoldOut)),
        (of(UNKNOWN, 12, 1), QueuedEnd::UnknownTemplate),
        // Without a number it would exceed the limit.
        (queued(claim(UserId(13), "a", 1), &[]), QueuedEnd::Rejected(RejectReason::Failed)),
        (refused, QueuedEnd::Rejected(RejectReason::Failed)),
        (first, QueuedEnd::Duplicate),
    ];
    let (sent, expected): (Vec<QueuedClaim>, Vec<QueuedEnd>) = batch.into_iter().unzip();
    let ends = bench.land(&sent).await;
    for ((end, expected), queued) in ends.iter().zip(&expected).zip(&sent) {
        assert_eq!(end, expected, "{queued:?}");
    }
    // Five claims and nine coupons here, two and three of the short one.
    assert_eq!(bench.number_of(&taken).await, 2);
    assert_eq!(bench.counts().await, (7, 3, 7, 12));
    assert_eq!(bench.world.left().await, 1_000 - 9);
    let mut connection = bench.world.connection().await;
    let short = stock::get(&mut connection, SHORT).await.unwrap().unwrap();
    assert_eq!(short.stock, 0);
    let known = "select count(*) from claim where state in (1, 3) and left_after = 7 \
                 and admitted_at is not null";
    assert_eq!(bench.world.number(known).await, 14, "what the gate knew is kept");
}

#[tokio::test]
async fn a_batch_that_is_landed_again_changes_nothing() {
    let bench = Bench::new("queued again", 8).await;
    let batch: Vec<QueuedClaim> = (1..=10).map(fresh).collect();
    let first = bench.land(&batch).await;
    assert_eq!(first.iter().filter(|end| **end == QueuedEnd::Landed).count(), 8);
    let before = bench.counts().await;
    assert_eq!(before, (8, 0, 2, 8));
    let second = bench.land(&batch).await;
    for (first, second) in first.into_iter().zip(second) {
        let again = match first {
            QueuedEnd::Landed => QueuedEnd::LandedBefore,
            _ => QueuedEnd::RejectedBefore,
        };
        assert_eq!(second, again);
    }
    assert_eq!((bench.counts().await, bench.world.left().await), (before, 0));
}

/// Each repetition of a key publishes the claim again.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_published_again_rolls_no_other_back() {
    let bench = Bench::new("queued again", 10).await;
    let first = fresh(1);
    assert_eq!(bench.land(slice::from_ref(&first)).await, [QueuedEnd::Landed]);
    let again = QueuedClaim { left_after: None, ..first };
    let mut reread = bench.points.hold("queued.before_reread");
    let batch = [fresh(2), again, fresh(3)];
    let (ends, ()) = tokio::join!(bench.land(&batch), async {
        reread.reached(1).await;
        assert_eq!(bench.counts().await, (3, 0, 0, 3), "those that are new have landed");
        reread.let_go();
    });
    assert_eq!(ends, [QueuedEnd::Landed, QueuedEnd::LandedBefore, QueuedEnd::Landed]);
    assert_eq!(bench.counts().await, (3, 0, 0, 3));
}

#[tokio::test]
async fn two_landers_with_the_same_claims_land_each_once() {
    let bench = Bench::new("queued twice", 1_000).await;
    let batch: Vec<QueuedClaim> = (1..=40).map(fresh).collect();
    let backwards: Vec<QueuedClaim> = batch.iter().rev().cloned().collect();
    let (one, other) = tokio::join!(bench.land(&batch), bench.land(&backwards));
    for end in one.into_iter().chain(other) {
        assert!(matches!(end, QueuedEnd::Landed | QueuedEnd::LandedBefore), "{end:?}");
    }
    assert_eq!(bench.counts().await, (40, 0, 0, 40));
}

#[tokio::test]
async fn more_coupons_than_a_transaction_takes_land_in_order() {
    let bench = Bench::new("queued many", 1_500).await;
    let several = |user| queued(claim(UserId(user), "a", 5), &[1, 2, 3, 4, 5]);
    let batch: Vec<QueuedClaim> = (1..=301).map(several).collect();
    let mut expected = vec![QueuedEnd::Landed; 300];
    expected.push(QueuedEnd::Rejected(RejectReason::SoldOut));
    assert_eq!(bench.land(&batch).await, expected);
    assert_eq!(bench.counts().await, (300, 0, 1, 1_500));
}

/// The gate admitted more claims than there are coupons.
#[tokio::test]
async fn hundreds_of_claims_are_rejected_together_and_each_key_gets_one_answer() {
    let bench = Bench::new("queued rejected", 1).await;
    let mut batch: Vec<QueuedClaim> = (1..=600).map(fresh).collect();
    batch.push(queued(again(&batch[300].admission.claim), &[2]));
    let mut expected = vec![QueuedEnd::Rejected(RejectReason::SoldOut); 600];
    expected[0] = QueuedEnd::Landed;
    expected.push(QueuedEnd::Elsewhere);
    assert_eq!(bench.land(&batch).await, expected);
    assert_eq!(bench.counts().await, (1, 1, 599, 1));
    assert_eq!(bench.world.number("select count(*) from rejected_user").await, 599);
}

/// A row that this version cannot read stays unreadable, however often it is read.
#[tokio::test]
async fn a_row_that_cannot_be_read_ends_its_own_claims_and_no_others() {
    let bench = Bench::new("queued unreadable", 10).await;
    bench.world.publish(CLOSED, 10, 5).await;
    bench.world.publish(SHORT, 10, 5).await;
    bench.world.execute("update coupon_template set state = 99 where id = 12").await;
    let mut lander = bench.lander().await;
    let ends = lander.land(&[fresh(1), of(SHORT, 2, 1), of(CLOSED, 3, 1)]).await;
    assert_eq!(ends, [QueuedEnd::Landed, QueuedEnd::Unlandable, QueuedEnd::Landed]);
    // The guard refuses it, and then its row is read.
    bench.world.execute("update template_stock set open = -1 where template_id = 11").await;
    let ends = lander.land(&[fresh(4), of(CLOSED, 5, 1), fresh(6)]).await;
    assert_eq!(ends, [QueuedEnd::Landed, QueuedEnd::Unlandable, QueuedEnd::Landed]);
    assert_eq!(bench.counts().await, (4, 0, 0, 4));
}

/// Such a claim can neither land nor be rejected.
#[tokio::test]
async fn a_claim_with_the_id_of_another_ends_and_holds_up_nobody() {
    let bench = Bench::new("queued id taken", 1).await;
    let first = fresh(1);
    assert_eq!(bench.land(std::slice::from_ref(&first)).await, [QueuedEnd::Landed]);
    let mut wrong = fresh(2);
    wrong.admission.claim.id = first.admission.claim.id;
    let sold_out = QueuedEnd::Rejected(RejectReason::SoldOut);
    assert_eq!(bench.land(&[wrong, fresh(3)]).await, [QueuedEnd::Unlandable, sold_out]);
    assert_eq!(bench.counts().await, (1, 0, 1, 1));
}

/// The limit of a draft may change until it is published.
#[tokio::test]
async fn a_template_that_was_a_draft_is_read_again() {
    let bench = Bench::new("queued draft", 10).await;
    bench.world.publish(SHORT, 10, 5).await;
    let draft = "update coupon_template set state = 0, per_user_limit = 0 where id = 12";
    bench.world.execute(draft).await;
    let mut lander = bench.lander().await;
    let failed = QueuedEnd::Rejected(RejectReason::Failed);
    assert_eq!(lander.land(&[of(SHORT, 1, 1)]).await, [failed], "it has no numbers to give");
    let published = "update coupon_template set state = 1, per_user_limit = 5 where id = 12";
    bench.world.execute(published).await;
    assert_eq!(lander.land(&[of(SHORT, 2, 1)]).await, [QueuedEnd::Landed]);
}

/// The answer of a commit, a reread or an end may be lost at each step; the same batch goes on over another connection.
#[tokio::test]
async fn a_connection_lost_at_each_step_costs_no_claim_and_doubles_none() {
    let bench = Bench::new("queued lost", 1_000).await;
    bench.world.publish(SHORT, 1, 5).await;
    let steps = [
        "queued.before_begin",
        "queued.after_insert",
        "queued.after_guard",
        "queued.before_commit",
        "queued.after_commit",
        "queued.before_reread",
        "queued.before_end",
    ];
    let mut lander = bench.lander().await;
    for (step, user) in steps.into_iter().zip((1..).step_by(10)) {
        bench.points.fail(step);
        let batch = [fresh(user), of(SHORT, user, 2), fresh(user + 1)];
        let ends = lander.land(&batch).await;
        let rejected = QueuedEnd::Rejected(RejectReason::InsufficientStock);
        assert_eq!(ends[1], rejected, "{step}");
        for end in [ends[0], ends[2]] {
            assert!(matches!(end, QueuedEnd::Landed | QueuedEnd::LandedBefore), "{step}: {end:?}");
        }
    }
    let count = i64::try_from(steps.len()).unwrap();
    assert_eq!(bench.counts().await, (2 * count, 0, count, 2 * count));
}

#[tokio::test]
async fn what_was_accepted_lands_while_paused_unless_the_operator_refuses_it() {
    let bench = Bench::new("queued paused", 10).await;
    bench.world.execute("update template_stock set ever_queued = 1").await;
    pause(&bench.world, TEMPLATE, AcceptedClaims::Land).await;
    assert_eq!(bench.land(&[fresh(1)]).await, [QueuedEnd::Landed]);
    bench.world.change_state(TEMPLATE, TemplateState::Published).await;
    pause(&bench.world, TEMPLATE, AcceptedClaims::Reject).await;
    let paused = QueuedEnd::Rejected(RejectReason::Paused);
    assert_eq!(bench.land(&[fresh(2)]).await, [paused]);
    bench.world.change_state(TEMPLATE, TemplateState::Published).await;
    // Final for its key, also after the pause.
    let again = queued(again(&fresh(2).admission.claim), &[1]);
    assert_eq!(bench.land(&[again]).await, [QueuedEnd::Elsewhere]);
    bench.world.change_state(TEMPLATE, TemplateState::Ended).await;
    assert_eq!(bench.land(&[fresh(3)]).await, [QueuedEnd::Landed]);
    bench.world.execute("update template_stock set open = 0").await;
    let ended = QueuedEnd::Rejected(RejectReason::Ended);
    assert_eq!(bench.land(&[fresh(4)]).await, [ended]);
    assert_eq!(bench.counts().await, (2, 1, 2, 2));
}

/// The client was told that its claim is lost and may send its key again.
#[tokio::test]
async fn a_claim_whose_epoch_is_given_up_before_its_end_is_written_gets_no_row() {
    let bench = Bench::new("queued given up", 1).await;
    bench.land(&[fresh(1)]).await;
    let elsewhere = queued(again(&fresh(1).admission.claim), &[1]);
    for late in [fresh(2), elsewhere] {
        let mut held = bench.points.hold("queued.before_end");
        let lands = bench.land(std::slice::from_ref(&late));
        let give_up = async {
            held.reached(1).await;
            bench.world.execute("update template_stock set queued_epoch = 2").await;
            held.let_go();
        };
        let (ends, ()) = tokio::join!(lands, give_up);
        assert_eq!(ends, [QueuedEnd::TooLate]);
        bench.world.execute("update template_stock set queued_epoch = 1").await;
    }
    assert_eq!(bench.counts().await, (1, 0, 0, 1));
}

/// Direct claims and a rebuild raise `epoch`; what is queued keeps its own.
#[tokio::test]
async fn a_queued_claim_lands_under_its_own_epoch_after_the_other_was_raised() {
    let bench = Bench::new("queued two epochs", 10).await;
    bench.world.execute("update template_stock set epoch = epoch + 1").await;
    assert_eq!(bench.land(&[fresh(1)]).await, [QueuedEnd::Landed]);
}

#[tokio::test]
async fn a_template_whose_row_is_locked_keeps_no_other_waiting_in_the_batch() {
    let bench = Bench::new("queued locked", 10).await;
    bench.world.publish(SHORT, 10, 5).await;
    let mut holder = bench.world.connection().await;
    let mut holding = holder.begin().await.unwrap();
    let lock = "update template_stock set stock = stock where template_id = 10";
    execute(&mut holding, lock).await;
    let batch = [fresh(1), of(SHORT, 2, 1), fresh(3)];
    let (ends, ()) = tokio::join!(bench.land(&batch), async {
        let others = "select count(*) from claim where state = 1 and template_id = 12";
        until_true(async || bench.world.number(others).await == 1).await;
        holding.rollback().await.unwrap();
    });
    assert_eq!(ends, [QueuedEnd::Landed; 3]);
}

#[tokio::test]
async fn a_gate_is_told_what_landed_and_gets_back_what_did_not() {
    let bench = Bench::with_gate("queued told", 10).await;
    let world = &bench.world;
    let first = bench.queue(&claim(USER, "a", 1)).await;
    let second = bench.queue(&claim(USER, "b", 1)).await;
    assert_eq!(bench.land(&[first]).await, [QueuedEnd::Landed]);
    let epoch = world.meta().await.epoch;
    until_true(async || world.gate.queued_count(TEMPLATE, epoch).await.unwrap() == 1).await;
    let states: Vec<RequestState> =
        world.entry(USER).await.requests.iter().map(|request| request.state).collect();
    assert_eq!(states, [RequestState::Landed, RequestState::Queued]);
    world.execute("update template_stock set open = 0").await;
    let rejected = QueuedEnd::Rejected(RejectReason::Paused);
    assert_eq!(bench.land(&[second]).await, [rejected]);
    until_true(async || world.gate.queued_count(TEMPLATE, epoch).await.unwrap() == 0).await;
    let entry = world.entry(USER).await;
    assert_eq!((entry.taken, entry.look_in_mysql), (vec![1], true));
    assert_eq!((world.meta().await.stock, world.left().await), (9, 9));
}

/// Otherwise the coupon would be given out and rejected again, once for each user who claims.
#[tokio::test]
async fn a_gate_learns_of_the_cut_before_it_gets_back_what_the_cut_took() {
    let bench = Bench::with_gate("queued cut", 1).await;
    let world = &bench.world;
    let last = bench.queue(&claim(USER, "a", 1)).await;
    let request_id = &RequestId::from_client("cut").unwrap();
    let cut = NewMovement { request_id, delta: -1, reason: "a cut", actor: "test" };
    stock::add_movement(&mut world.connection().await, TEMPLATE, &cut, now()).await.unwrap();
    let sold_out = QueuedEnd::Rejected(RejectReason::SoldOut);
    assert_eq!(bench.land(&[last]).await, [sold_out]);
    let epoch = world.meta().await.epoch;
    until_true(async || world.gate.queued_count(TEMPLATE, epoch).await.unwrap() == 0).await;
    let meta = world.meta().await;
    let stock = stock::get(&mut world.connection().await, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((meta.stock, meta.movement), (0, stock.movement));
    assert_eq!(stock.stock, 0);
}

#[tokio::test]
async fn a_gate_that_gives_a_number_twice_is_reported_and_the_claim_lands_with_another() {
    let bench = Bench::with_gate("queued wrong", 10).await;
    let world = &bench.world;
    let first = bench.queue(&claim(USER, "a", 1)).await;
    let mut second = bench.queue(&claim(USER, "b", 1)).await;
    second.admission.numbers = first.admission.numbers.clone();
    assert_eq!(bench.land(&[first, second.clone()]).await, [QueuedEnd::Landed; 2]);
    assert_eq!(bench.number_of(&second).await, 2);
    until_true(async || world.meta().await.unreadable.is_some()).await;
}

#[tokio::test]
async fn a_gate_that_is_away_keeps_no_claim_from_landing() {
    let world = World::without_gate("queued no gate", 10, 5).await;
    let ids = Arc::new(Ids::lease(world.pool.clone(), "test").await.unwrap());
    let nowhere = "redis://127.0.0.1:1";
    let (reports, reporter) = GateReports::new(nowhere, &world.prefix, world.pool.clone());
    let points = FailPoints::default();
    let mut lander = QueuedLander::connect(&world.url, &ids, reports, now, points).await;
    assert_eq!(lander.land(&[fresh(1), fresh(2)]).await, [QueuedEnd::Landed; 2]);
    drop(lander);
    // The reporter ends with the last lander, although it never reached a gate.
    reporter.run().await;
}
