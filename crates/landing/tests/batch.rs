//! One batch on a real database: each admission is decided correctly, and exactly the fresh ones land.

use std::{collections::BTreeMap, sync::Arc};

use chrono::TimeDelta;
use coupon::{
    Admission, Claim, CouponId, Decision, Epoch, LandedCoupon, LandingMode, MerchantId,
    RejectReason, Template, TemplateId, TemplateState, UserId, Validity,
};
use landing::{
    batch::{DirectBatch, Job, Outcome, RunError},
    ids::Ids,
};
use mysql_store::{
    claim as claims, connect, fence,
    landing::{self as store, Attempt, Landing},
    stock,
    template_edit::{self, Edited},
};
use runtime::FailPoints;
use sqlx::Connection;

use crate::harness::{
    TEMPLATE, USER, World, again, claim, execute, now, number, template, waits_for_a_row,
};

/// Epoch of a newly created template.
const EPOCH: Epoch = Epoch(1);

/// Version of a newly published template.
const TERMS: i64 = 2;

const CLOSED: TemplateId = TemplateId(11);
const SHORT: TemplateId = TemplateId(12);

type Tagged = (&'static str, Landing);

fn batch_of(jobs: Vec<Tagged>) -> DirectBatch<&'static str> {
    let jobs = jobs.into_iter().map(|(tag, landing)| Job::new(tag, landing));
    DirectBatch::new(jobs.collect(), FailPoints::default())
}

struct Bench {
    world: World,
    ids: Arc<Ids>,
}

impl Bench {
    async fn new(name: &str, stock: i64) -> Self {
        let world = World::without_gate(name, stock, 5).await;
        let ids = Arc::new(Ids::lease(world.pool.clone(), "test").await.unwrap());
        Self { world, ids }
    }

    fn landing(&self, claim: Claim, numbers: &[u8]) -> Landing {
        let coupons = numbers.iter().map(|number| (self.ids.coupon().unwrap(), i64::from(*number)));
        let landed = testkit::landed(&claim, coupons);
        let admission = Admission { claim, epoch: EPOCH, numbers: numbers.to_vec() };
        Landing {
            admission,
            merchant_id: MerchantId(1),
            terms: TERMS,
            landed,
            admitted_at: None,
            left_after: None,
        }
    }

    fn fresh(&self, user: i64) -> Landing {
        self.landing(claim(UserId(user), "fresh", 1), &[1])
    }

    async fn land(&self, landings: &[Landing]) -> Attempt {
        let mut connection = self.world.connection().await;
        store::land(&mut connection, LandingMode::Direct, landings).await.unwrap()
    }

    /// Lands `landing` beforehand.
    async fn landed(&self, landing: Landing) -> Landing {
        let attempt = self.land(std::slice::from_ref(&landing)).await;
        assert_eq!(attempt, Attempt::Landed);
        landing
    }

    /// Runs a batch to its end and returns the outcomes by tag.
    async fn run(&self, jobs: Vec<Tagged>) -> BTreeMap<&'static str, Outcome> {
        let mut batch = batch_of(jobs);
        let mut lander = connect::lander(&self.world.url).await.unwrap();
        batch.run(&mut lander, &self.ids).await.unwrap();
        batch.take_done().into_iter().collect()
    }

    /// Counts of claims and coupons, and what was taken from a stock of 1,000. All three are equal if each claim is for
    /// one coupon.
    async fn landed_counts(&self) -> (i64, i64, i64) {
        let claims = self.world.number("select count(*) from claim where state = 1").await;
        let coupons = self.world.number("select count(*) from user_coupon").await;
        (claims, coupons, 1_000 - self.world.left().await)
    }
}

#[tokio::test]
async fn a_mixed_batch_decides_each_and_lands_exactly_the_fresh_ones() {
    let bench = Bench::new("mixed batch", 1_000).await;
    bench.world.publish(CLOSED, 10, 5).await;
    bench.world.change_state(CLOSED, TemplateState::Paused).await;
    bench.world.publish(SHORT, 3, 5).await;
    let elsewhere = |template_id, user, quantity: u8| {
        let claim = claim(UserId(user), "fresh", u32::from(quantity));
        let numbers: Vec<u8> = (1..=quantity).collect();
        bench.landing(Claim { template_id, ..claim }, &numbers)
    };

    let landed = bench.landed(bench.landing(claim(UserId(1), "a", 1), &[1])).await;
    let stored = bench.landed(bench.landing(claim(UserId(2), "a", 1), &[1])).await;
    let same = bench.landing(again(&stored.admission.claim), &[2]);
    let other_payload = bench.landing(claim(UserId(2), "a", 2), &[2, 3]);
    let fenced = bench.landing(claim(UserId(3), "a", 1), &[1]);
    let mut connection = bench.world.connection().await;
    let id = fenced.landed.id;
    fence::place(&mut connection, TEMPLATE, UserId(3), id, now()).await.unwrap();
    let mut stale = bench.landing(claim(UserId(4), "a", 1), &[1]);
    stale.admission.epoch = Epoch(0);
    let taken = bench.landing(claim(UserId(2), "b", 1), &[1]);
    let twice = bench.landing(claim(UserId(5), "twice", 1), &[1]);
    let twice_again = bench.landing(again(&twice.admission.claim), &[2]);
    let one_number = bench.landing(claim(UserId(6), "a", 1), &[1]);
    let same_number = bench.landing(claim(UserId(6), "b", 1), &[1]);

    let jobs = vec![
        ("landed", landed.clone()),
        ("fresh 1", bench.fresh(101)),
        ("same payload", same),
        ("other payload", other_payload),
        ("fenced", fenced),
        ("fresh 2", bench.fresh(102)),
        ("stale", stale),
        ("number taken", taken),
        ("twice", twice),
        ("closed", elsewhere(CLOSED, 103, 1)),
        ("short 1", elsewhere(SHORT, 104, 2)),
        ("short 2", elsewhere(SHORT, 105, 2)),
        ("short 3", elsewhere(SHORT, 106, 1)),
        ("short 4", elsewhere(SHORT, 107, 1)),
        ("twice again", twice_again),
        ("one number", one_number),
        ("same number", same_number),
        ("fresh 3", bench.fresh(108)),
    ];
    let outcomes = bench.run(jobs.clone()).await;

    let decided = BTreeMap::from([
        ("landed", Decision::Landed),
        ("same payload", Decision::Elsewhere),
        ("other payload", Decision::Elsewhere),
        ("fenced", Decision::Fenced),
        ("stale", Decision::StaleEpoch { now: EPOCH }),
        ("number taken", Decision::NumberTaken { free: Some(vec![2]) }),
        ("closed", Decision::NotOpen(RejectReason::Paused)),
        ("short 2", Decision::Short { left: 1 }),
        ("short 4", Decision::Short { left: 0 }),
        ("twice again", Decision::Elsewhere),
        ("same number", Decision::NumberTaken { free: Some(vec![2]) }),
    ]);
    assert_eq!(outcomes.len(), jobs.len());
    for (tag, job) in jobs {
        let expected = decided
            .get(tag)
            .map_or(Outcome::Landed(job.landed), |decision| Outcome::Decided(decision.clone()));
        assert_eq!(outcomes[tag], expected, "{tag}");
    }
    // Two landed before; fresh 1 to 3, "twice" and "one number" land now.
    let here = "select count(*) from user_coupon where template_id = 10";
    assert_eq!((bench.world.number(here).await, bench.world.left().await), (7, 993));
    let mut connection = bench.world.connection().await;
    let short = stock::get(&mut connection, SHORT).await.unwrap().unwrap();
    assert_eq!(short.stock, 0);
}

#[tokio::test]
async fn a_batch_of_older_terms_lands_whole_with_the_new_validity() {
    let bench = Bench::new("older terms", 1_000).await;
    let until = now() + TimeDelta::hours(2);
    let published = template(TEMPLATE, 5);
    let to = Template { validity: Validity::Absolute { from: now(), until }, ..published.clone() };
    let mut connection = bench.world.connection().await;
    let edited = template_edit::edit(&mut connection, &published, &to, false, now()).await;
    assert_eq!(edited.unwrap(), Edited::Done);
    let mut jobs: Vec<_> = (1..=20).map(|user| ("old", bench.fresh(user))).collect();
    jobs.push(("new", Landing { terms: TERMS + 1, ..bench.fresh(21) }));
    let mut batch = batch_of(jobs);
    let mut lander = connect::lander(&bench.world.url).await.unwrap();
    batch.run(&mut lander, &bench.ids).await.unwrap();
    for (tag, outcome) in batch.take_done() {
        let Outcome::Landed(landed) = outcome else { panic!("{outcome:?}") };
        assert_eq!(landed.valid_until == until, tag == "old", "{landed:?}");
    }
    assert_eq!(bench.landed_counts().await, (21, 21, 21));
    let old = "select count(*) from user_coupon c join claim on claim.id = c.claim_id \
               where c.valid_until = claim.valid_until and c.user_id <= 20 \
               and c.valid_until = (select valid_until from coupon_template)";
    assert_eq!(bench.world.number(old).await, 20);
}

#[tokio::test]
async fn a_batch_that_ran_before_is_found_landed_as_it_was() {
    let bench = Bench::new("ran before", 1_000).await;
    let jobs: Vec<_> = (1..=20).map(|user| ("", bench.fresh(user))).collect();
    let mut lander = connect::lander(&bench.world.url).await.unwrap();
    for round in 0..2 {
        let mut batch = batch_of(jobs.clone());
        batch.run(&mut lander, &bench.ids).await.unwrap();
        let done = batch.take_done();
        assert_eq!(done.len(), 20);
        for (_, outcome) in done {
            let landed = matches!(outcome, Outcome::Landed(_));
            assert!(landed == (round == 0) || outcome == Outcome::Decided(Decision::Landed));
        }
        assert_eq!(bench.landed_counts().await, (20, 20, 20));
    }
}

#[tokio::test]
async fn a_coupon_id_that_is_taken_is_replaced_and_the_batch_lands() {
    let bench = Bench::new("coupon id", 1_000).await;
    let first = bench.landed(bench.fresh(1)).await;
    let mut second = bench.fresh(2);
    second.landed.coupons[0].id = first.landed.coupons[0].id;
    let outcomes = bench.run(vec![("second", second), ("third", bench.fresh(3))]).await;
    for (tag, outcome) in outcomes {
        let Outcome::Landed(claim) = outcome else { panic!("{tag}: {outcome:?}") };
        assert_ne!(claim.coupons[0].id, first.landed.coupons[0].id);
        let sql = format!("select count(*) from user_coupon where id = {}", claim.coupons[0].id);
        assert_eq!(bench.world.number(&sql).await, 1, "what is answered is what is stored");
    }
    assert_eq!(bench.landed_counts().await, (3, 3, 3));
}

#[tokio::test]
async fn an_admission_that_no_statement_takes_is_undecided_and_hurts_no_other() {
    let bench = Bench::new("refused statement", 1_000).await;
    let mut unfit = bench.fresh(3);
    unfit.admission.claim.trace_parent = Some("x".repeat(56));
    let jobs = vec![
        ("1", bench.fresh(1)),
        ("2", bench.fresh(2)),
        ("unfit", unfit),
        ("4", bench.fresh(4)),
        ("5", bench.fresh(5)),
    ];
    let outcomes = bench.run(jobs).await;
    for (tag, outcome) in outcomes {
        assert_eq!(outcome == Outcome::Undecided, tag == "unfit", "{tag}: {outcome:?}");
    }
    assert_eq!(bench.landed_counts().await, (4, 4, 4));
}

#[tokio::test]
async fn a_deadlocked_batch_is_run_again_whole() {
    let bench = Bench::new("deadlock", 1_000).await;
    let world = &bench.world;
    // Logs every committed change of the stock row.
    let log = "create table guard_log (id bigint auto_increment primary key) engine = innodb; \
               create trigger guard_log after update on template_stock for each row \
               insert into guard_log () values ()";
    world.execute(log).await;
    let jobs: Vec<_> = (1..=4).map(|user| ("", bench.fresh(user))).collect();
    let contested = jobs[0].1.clone();

    // A transaction that has done far more, so that the batch becomes the deadlock victim.
    let mut holder = world.connection().await;
    let mut holding = holder.begin().await.unwrap();
    let heavy: Vec<String> = (0..500).map(|n| format!("('{n}', '', now())")).collect();
    execute(&mut holding, &format!("insert into lease values {}", heavy.join(","))).await;
    execute(&mut holding, "update template_stock set stock = stock where template_id = 10").await;

    let mut lander = connect::lander(&world.url).await.unwrap();
    let id = number(&mut lander, "select connection_id()").await;
    let ids = Arc::clone(&bench.ids);
    let running = tokio::spawn(async move {
        let mut batch = batch_of(jobs);
        batch.run(&mut lander, &ids).await.unwrap();
        batch.take_done()
    });
    waits_for_a_row(world, id).await;
    let attempt =
        fence::place(&mut holding, TEMPLATE, contested.landed.user_id, contested.landed.id, now());
    assert_eq!(attempt.await.unwrap(), fence::Fence::Stands, "the batch gave way");
    holding.rollback().await.unwrap();

    let done = running.await.unwrap();
    assert!(done.iter().all(|(_, outcome)| matches!(outcome, Outcome::Landed(_))), "{done:?}");
    assert_eq!(bench.landed_counts().await, (4, 4, 4));
    assert_eq!(world.number("select count(*) from guard_log").await, 1, "in one transaction");
}

#[tokio::test]
async fn a_killed_connection_fails_the_run_and_the_next_one_finishes_it() {
    let bench = Bench::new("killed", 1_000).await;
    let world = &bench.world;
    let landed = bench.landed(bench.fresh(1)).await;
    let mut jobs: Vec<_> = (2..=9).map(|user| ("fresh", bench.fresh(user))).collect();
    jobs.push(("landed", landed));
    let mut holder = world.connection().await;
    let mut holding = holder.begin().await.unwrap();
    execute(&mut holding, "update template_stock set stock = stock where template_id = 10").await;

    let mut lander = connect::lander(&world.url).await.unwrap();
    let id = number(&mut lander, "select connection_id()").await;
    let ids = Arc::clone(&bench.ids);
    let running = tokio::spawn(async move {
        let mut batch = batch_of(jobs);
        let ran = batch.run(&mut lander, &ids).await;
        (batch, ran)
    });
    waits_for_a_row(world, id).await;
    world.execute(&format!("kill {id}")).await;
    let (mut batch, ran) = running.await.unwrap();
    let RunError::Store(error) = ran.unwrap_err() else { panic!("another failure") };
    assert!(error.is_unavailable());
    let mut done = batch.take_done();
    holding.rollback().await.unwrap();

    let mut lander = connect::lander(&world.url).await.unwrap();
    batch.run(&mut lander, &bench.ids).await.unwrap();
    done.extend(batch.take_done());
    assert_eq!(done.len(), 9);
    for (tag, outcome) in done {
        assert_eq!(matches!(outcome, Outcome::Landed(_)), tag == "fresh", "{outcome:?}");
    }
    assert_eq!(bench.landed_counts().await, (9, 9, 9));
}

#[tokio::test]
async fn a_run_after_a_commit_whose_answer_was_lost_finds_everything_landed() {
    let bench = Bench::new("lost answer", 1_000).await;
    let jobs: Vec<_> = (1..=5).map(|user| ("", bench.fresh(user))).collect();
    let landings: Vec<Landing> = jobs.iter().map(|(_, job)| job.clone()).collect();
    bench.land(&landings).await;
    let mut batch = batch_of(jobs);
    let mut lander = connect::lander(&bench.world.url).await.unwrap();
    batch.run(&mut lander, &bench.ids).await.unwrap();
    for (_, outcome) in batch.take_done() {
        assert_eq!(outcome, Outcome::Decided(Decision::Landed));
    }
    assert_eq!(bench.landed_counts().await, (5, 5, 5));
}

#[tokio::test]
async fn two_landers_with_the_same_admissions_land_each_once() {
    let bench = Bench::new("two landers", 1_000).await;
    let jobs: Vec<_> = (1..=40).map(|user| ("", bench.fresh(user))).collect();
    let run = async |jobs| {
        let mut batch = batch_of(jobs);
        let mut lander = connect::lander(&bench.world.url).await.unwrap();
        batch.run(&mut lander, &bench.ids).await.unwrap();
        batch.take_done().len()
    };
    let backwards = jobs.iter().rev().cloned().collect();
    assert_eq!(tokio::join!(run(jobs), run(backwards)), (40, 40));
    assert_eq!(bench.landed_counts().await, (40, 40, 40));
}

#[tokio::test]
async fn a_batch_without_a_limit_takes_its_numbers_from_its_ids() {
    let bench = Bench::new("unlimited", 1_000).await;
    let mut landing = bench.landing(claim(USER, "a", 2), &[]);
    landing.landed.coupons = vec![
        LandedCoupon { id: CouponId(7), claim_no: 7 },
        LandedCoupon { id: CouponId(8), claim_no: 8 },
    ];
    let taken = bench.landed(landing.clone()).await;
    let mut next = bench.landing(claim(USER, "b", 2), &[]);
    next.landed.coupons = taken.landed.coupons;
    let next_key = next.admission.claim.request_id.clone();
    let outcomes = bench.run(vec![("next", next)]).await;
    let Outcome::Landed(landed) = &outcomes["next"] else { panic!("{outcomes:?}") };
    assert!(landed.coupons.iter().all(|coupon| coupon.id.0 == coupon.claim_no));
    let stored =
        claims::landed_under_key(&mut bench.world.connection().await, TEMPLATE, USER, &next_key)
            .await;
    assert_eq!(stored.unwrap().as_ref(), Some(landed));
}
