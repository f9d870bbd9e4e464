//! Any batch has the same outcomes and leaves the same rows as its claims landed one by one.

use std::sync::Arc;

use coupon::{Admission, ClaimId, Decision, Epoch, MerchantId, TemplateId, TemplateState, UserId};
use fastrand::Rng;
use landing::{
    batch::{DirectBatch, Job, Outcome},
    ids::Ids,
};
use mysql_store::{connect, fence, landing::Landing, stock};
use runtime::{Clock, FailPoints};
use sqlx::Row;

use crate::harness::{World, now};

/// Batches to try; each is some fifty transactions.
const CASES: u64 = 40;

/// A case in which a claim that waits for a number takes the last stock before one that asks for more.
const WAITS_FOR_A_NUMBER: u64 = 2_123_758_386;

/// Templates of a case. The last one has no limit.
const TEMPLATES: i64 = 3;

/// One claim of a case, without ids.
#[derive(Debug, Clone)]
struct Wish {
    template: i64,
    user: i64,
    key: char,
    quantity: u32,
    /// Empty without a limit.
    numbers: Vec<u8>,
    stale: bool,
    fenced: bool,
}

/// The steps for both sides.
#[derive(Debug)]
struct Case {
    stocks: Vec<i64>,
    paused: Vec<bool>,
    rebuilt: Vec<bool>,
    /// Claims that precede the batch, run one by one on both sides.
    before: Vec<Wish>,
    batch: Vec<Wish>,
    /// Which admissions from `before` run once more, at the end of the batch.
    again: Vec<usize>,
    interrupted: bool,
}

impl Case {
    fn any(rng: &mut Rng) -> Self {
        let flags =
            |rng: &mut Rng, one_in: u8| (0..TEMPLATES).map(|_| rng.u8(..one_in) == 0).collect();
        let before: Vec<_> = (0..rng.usize(..6)).map(|_| Wish::any(rng)).collect();
        Self {
            stocks: (0..TEMPLATES).map(|_| rng.i64(2..16)).collect(),
            paused: flags(rng, 6),
            rebuilt: flags(rng, 4),
            batch: (0..rng.usize(1..24)).map(|_| Wish::any(rng)).collect(),
            again: (0..before.len()).filter(|_| rng.u8(..3) == 0).collect(),
            before,
            interrupted: rng.bool(),
        }
    }
}

impl Wish {
    fn any(rng: &mut Rng) -> Self {
        let template = rng.i64(0..TEMPLATES);
        let quantity = rng.u32(1..=3);
        let mut all = [1, 2, 3, 4, 5];
        rng.shuffle(&mut all);
        let count = if template == TEMPLATES - 1 { 0 } else { quantity as usize };
        let mut numbers = all[..count].to_vec();
        numbers.sort_unstable();
        let user = rng.i64(1..=4);
        let key = rng.char('a'..='d');
        let stale = rng.u8(..6) == 0;
        let fenced = rng.u8(..8) == 0;
        Self { template, user, key, quantity, numbers, stale, fenced }
    }
}

/// One of the two sides; its template ids begin at `base`.
struct Side<'a> {
    world: &'a World,
    ids: &'a Arc<Ids>,
    base: i64,
}

impl Side<'_> {
    async fn prepare(&self, case: &Case) {
        for at in 0..case.stocks.len() {
            let id = TemplateId(self.base + at as i64);
            self.world.publish(id, case.stocks[at], 5).await;
        }
    }

    /// Changes the templates between the claims in `before` and the batch.
    async fn change(&self, case: &Case) {
        let mut connection = self.world.connection().await;
        for at in 0..case.stocks.len() {
            let id = TemplateId(self.base + at as i64);
            if case.rebuilt[at] {
                stock::next_epoch(&mut connection, id).await.unwrap();
            }
            if case.paused[at] {
                self.world.change_state(id, TemplateState::Paused).await;
            }
        }
    }

    async fn landing(&self, wish: &Wish, epoch: Epoch) -> Landing {
        let template_id = TemplateId(self.base + wish.template);
        let id = self.ids.claim().unwrap();
        let user = UserId(wish.user);
        let key = wish.key.to_string();
        let claim = testkit::claim(id, template_id, user, &key, wish.quantity, now());
        let coupons = (0..wish.quantity as usize).map(|at| {
            let id = self.ids.coupon().unwrap();
            (id, wish.numbers.get(at).map_or(id.0, |number| i64::from(*number)))
        });
        let landed = testkit::landed(&claim, coupons);
        if wish.fenced {
            self.fence(claim.user_id, template_id, claim.id).await;
        }
        let epoch = if wish.stale { Epoch(epoch.0 - 1) } else { epoch };
        let admission = Admission { claim, epoch, numbers: wish.numbers.clone() };
        Landing {
            admission,
            merchant_id: MerchantId(1),
            terms: 2,
            landed,
            admitted_at: None,
            left_after: None,
        }
    }

    async fn fence(&self, user: UserId, template: TemplateId, id: ClaimId) {
        let mut connection = self.world.connection().await;
        fence::place(&mut connection, template, user, id, now()).await.unwrap();
    }

    async fn landings(&self, wishes: &[Wish]) -> Vec<Landing> {
        let mut landings = Vec::new();
        for wish in wishes {
            let id = TemplateId(self.base + wish.template);
            let stock = stock::get(&mut self.world.connection().await, id).await.unwrap().unwrap();
            landings.push(self.landing(wish, stock.epoch).await);
        }
        landings
    }

    /// Runs `landings` as one batch and returns their outcomes in order.
    async fn run(&self, landings: Vec<Landing>, interrupted: bool) -> Vec<String> {
        let points = FailPoints::default();
        if interrupted {
            points.fail("landing.after_commit");
        }
        let jobs = landings.into_iter().enumerate().map(|(at, landing)| Job::new(at, landing));
        let mut batch = DirectBatch::new(jobs.collect(), points);
        let mut lander = connect::lander(&self.world.url).await.unwrap();
        while let Err(error) = batch.run(&mut lander, self.ids).await {
            assert!(interrupted, "{error:?}");
            lander = connect::lander(&self.world.url).await.unwrap();
        }
        let mut done = batch.take_done();
        done.sort_by_key(|(at, _)| *at);
        done.into_iter()
            .map(|(_, outcome)| match outcome {
                // Landed now, or by the interrupted run.
                Outcome::Landed(_) | Outcome::Decided(Decision::Landed) => "Landed".to_owned(),
                // Which numbers are free by then is of no use to a direct claim.
                Outcome::Decided(Decision::NumberTaken { .. }) => "NumberTaken".to_owned(),
                other => format!("{other:?}"),
            })
            .collect()
    }

    /// All rows of this side, without the ids, which must differ.
    async fn rows(&self) -> Vec<String> {
        let Self { base, .. } = self;
        let own = format!("template_id between {base} and {base} + 9");
        let sql = format!(
            "select concat_ws(' ', 'claim', template_id - {base}, user_id, \
             if(left(request_id, 1) = '~', '~', request_id), quantity, state) as line \
             from claim where {own} \
             union all select concat_ws(' ', 'coupon', template_id - {base}, user_id, \
             if(claim_no > 100, '-', claim_no)) from user_coupon where {own} \
             union all select concat_ws(' ', 'stock', template_id - {base}, stock, epoch, open) \
             from template_stock where {own} order by line"
        );
        let mut connection = self.world.connection().await;
        let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(&mut connection).await;
        let line = |row: &sqlx::mysql::MySqlRow| {
            String::from_utf8(row.try_get_unchecked::<Vec<u8>, _>(0).unwrap()).unwrap()
        };
        rows.unwrap().iter().map(line).collect()
    }

    async fn play(&self, case: &Case, coalesced: bool) -> (Vec<String>, Vec<String>) {
        self.prepare(case).await;
        let before = self.landings(&case.before).await;
        let mut outcomes = Vec::new();
        for landing in before.clone() {
            outcomes.extend(self.run(vec![landing], false).await);
        }
        self.change(case).await;
        let mut batch = self.landings(&case.batch).await;
        batch.extend(case.again.iter().map(|at| before[*at].clone()));
        if coalesced {
            outcomes.extend(self.run(batch, case.interrupted).await);
        } else {
            for landing in batch {
                outcomes.extend(self.run(vec![landing], false).await);
            }
        }
        (outcomes, self.rows().await)
    }
}

#[tokio::test]
async fn any_batch_coalesced_ends_as_its_claims_do_one_by_one() {
    let world = World::without_gate("equivalence", 1, 1).await;
    let ids = Arc::new(Ids::lease(world.pool.clone(), "test").await.unwrap());
    let mut base = 1_000;
    let first = fastrand::u64(..1 << 32);
    for seed in [WAITS_FOR_A_NUMBER].into_iter().chain(first..first + CASES) {
        let case = Case::any(&mut Rng::with_seed(seed));
        // On a busy machine all cases take longer than a lease.
        ids.renew(Clock::system().now()).await.unwrap();
        base += 100;
        let side = |base| Side { world: &world, ids: &ids, base };
        let alone = side(base).play(&case, false).await;
        let together = side(base + 10).play(&case, true).await;
        assert_eq!(together, alone, "seed {seed}: {case:#?}");
    }
}
