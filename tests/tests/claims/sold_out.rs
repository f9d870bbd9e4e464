//! While a template is sold out, the apis refuse from memory. A user who has a coupon still gets it again, and every
//! api sees each change at the gate.

use std::sync::atomic::{AtomicI64, Ordering};

use coupon::{TemplateId, UserId};
use devstack::PlatformOptions;
use pipeline_tests::{World, until};
use shopper::{Answer, Claimed, NewTemplate};
use tokio::task::JoinSet;

use crate::{
    claims::full::epochs::{
        copy_of_gate_file, flush, lose_gate, open_again, restore, world_with_own_gate,
    },
    templates::movements::{by, move_stock},
};

/// Counts refusals that the gate was not asked for.
const LOCAL: &str = "coupon_local_refusals_total";

/// Users who come too late at one moment: more than an api sends to the gate before it remembers.
const LATE: i64 = 100;

/// The key of every claim.
const KEY: &str = "the-key";

/// Rounds in which a coupon is added, claimed and asked for again.
const ROUNDS: i64 = 10;

/// A user whose claim was answered 201, with this answer.
struct Winner {
    user: UserId,
    answer: Answer,
}

/// A sale with two apis.
struct Sale {
    world: World,
    template: TemplateId,
    /// The next user who has not claimed.
    fresh: AtomicI64,
}

impl Sale {
    async fn start(name: &str, stock: i64) -> Self {
        let two_apis = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with(name, two_apis).await;
        Self::on(world, stock).await
    }

    async fn on(world: World, stock: i64) -> Self {
        let limited = |new| NewTemplate { per_user_limit: 2, max_per_claim: 2, ..new };
        let template = world.template(stock, limited).await;
        Self { world, template, fresh: AtomicI64::new(1) }
    }

    fn fresh(&self) -> UserId {
        UserId(self.fresh.fetch_add(1, Ordering::Relaxed))
    }

    async fn claim(&self, api: usize, user: UserId, quantity: u32) -> Answer {
        let shopper = self.world.apis[api].shopper(user).unwrap();
        shopper.claim(self.template, Some(KEY), quantity).await.unwrap()
    }

    /// The code of the answer to a fresh user.
    async fn code(&self, api: usize) -> String {
        let answer = self.claim(api, self.fresh(), 1).await;
        answer.code().unwrap_or_else(|| answer.status.to_string())
    }

    /// Sells everything.
    async fn sell(&self, stock: i64) -> Vec<Winner> {
        let mut won = Vec::new();
        for _ in 0..stock {
            let user = self.fresh();
            let answer = self.claim(0, user, 1).await;
            assert_eq!(answer.status, 201, "{answer:?}");
            won.push(Winner { user, answer });
        }
        won
    }

    /// Lets users come too late at one api, all at once.
    async fn come_late(&self, api: usize) {
        let mut late = JoinSet::new();
        for _ in 0..LATE {
            let shopper = self.world.apis[api].shopper(self.fresh()).unwrap();
            let template = self.template;
            late.spawn(async move { shopper.claim(template, Some(KEY), 1).await.unwrap() });
        }
        while let Some(answer) = late.join_next().await {
            let answer = answer.unwrap();
            assert_eq!(answer.code().as_deref(), Some("SOLD_OUT"), "{answer:?}");
        }
    }

    async fn refused_locally(&self, api: usize) -> f64 {
        self.world.platform.apis[api].metric(LOCAL).await.unwrap_or(0.0)
    }

    /// Lets users come too late until each api refuses them from memory.
    async fn until_remembered(&self) {
        for api in [0, 1] {
            let before = self.refused_locally(api).await;
            let look = async || {
                self.come_late(api).await;
                self.refused_locally(api).await
            };
            until(look, |now| *now > before).await;
        }
    }

    /// Waits until each api answers fresh users with this code.
    async fn until_both_say(&self, code: &str) {
        for api in [0, 1] {
            until(async || self.code(api).await, |said| said == code).await;
        }
    }

    async fn add(&self, coupons: i64) {
        let api = self.world.api();
        let key = format!("add-{}", self.fresh());
        let answer = move_stock(api, self.template, &key, &by(coupons)).await;
        assert_eq!(answer.status, 201, "{answer:?}");
    }

    /// A fresh user claims until there is something.
    async fn win(&self, api: usize) -> Winner {
        let user = self.fresh();
        let answer = until(async || self.claim(api, user, 1).await, |one| one.status == 201).await;
        Winner { user, answer }
    }

    async fn assert_won_again(&self, winner: &Winner, api: usize) {
        let again = self.claim(api, winner.user, 1).await;
        assert_eq!((again.status, again.replayed), (201, true), "{again:?}");
        assert_eq!(again.body, winner.answer.body);
    }
}

#[tokio::test]
async fn winners_get_their_coupon_again_while_all_others_are_refused_from_memory() {
    let sale = Sale::start("remembered", 20).await;
    let won = sale.sell(20).await;
    sale.until_remembered().await;
    for api in [0, 1] {
        for winner in &won {
            let before = sale.refused_locally(api).await;
            // Users are still refused from memory just before the winner comes.
            let look = async || {
                sale.come_late(api).await;
                sale.refused_locally(api).await
            };
            until(look, |now| *now > before).await;
            sale.assert_won_again(winner, api).await;
            if winner.user.0 % 5 == 0 {
                let other = sale.claim(api, winner.user, 2).await;
                assert_eq!(other.code().as_deref(), Some("IDEMPOTENCY_KEY_REUSED"), "{other:?}");
            }
        }
    }
    assert_eq!(sale.world.count(sale.template).await.all(), 20);
    sale.world.assert_sound(None).await;
    sale.world.end().await;
}

#[tokio::test]
async fn a_gate_that_was_lost_is_remembered_anew_with_its_winners() {
    devstack::quick_fault_test_of("gate");
    let (gate, world) = world_with_own_gate("forgotten").await;
    let sale = Sale::on(world, 10).await;
    let mut won = sale.sell(10).await;
    for lose_all in [false, true] {
        sale.until_remembered().await;
        if lose_all {
            flush(&gate).await;
        } else {
            lose_gate(&sale.world, sale.template).await;
        }
        open_again(&sale.world, sale.template, won.len() as i64).await;
        sale.until_both_say("SOLD_OUT").await;
        sale.until_remembered().await;
        for (winner, api) in won.iter().zip([0, 1].into_iter().cycle()) {
            sale.assert_won_again(winner, api).await;
        }
        sale.add(1).await;
        let winner = sale.win(1).await;
        sale.assert_won_again(&winner, 0).await;
        won.push(winner);
    }
    assert_eq!(sale.world.count(sale.template).await.all(), 12);
    sale.world.assert_sound(None).await;
    sale.world.end().await;
}

#[tokio::test]
async fn a_template_that_nobody_asks_for_is_forgotten() {
    let sale = Sale::start("unasked", 1).await;
    sale.sell(1).await;
    sale.until_remembered().await;
    let bytes = async |api: usize| {
        let api = &sale.world.platform.apis[api];
        api.metric("coupon_sold_out_bytes").await.unwrap_or(f64::NAN)
    };
    // One user with an entry, and its template.
    until(
        async || {
            sale.come_late(0).await;
            bytes(0).await
        },
        |held| *held > 7.0,
    )
    .await;
    for api in [0, 1] {
        until(async || bytes(api).await, |held| *held < 1.0).await;
    }
    sale.world.end().await;
}

mod full {
    use super::*;

    #[tokio::test]
    async fn who_wins_an_added_coupon_at_one_api_is_refused_by_none_from_then_on() {
        let sale = Sale::start("added", 3).await;
        sale.sell(3).await;
        for round in 0..ROUNDS {
            sale.until_remembered().await;
            sale.add(1).await;
            // Through the api that heard of the coupon, and through the other one.
            let (here, there) = if round % 2 == 0 { (0, 1) } else { (1, 0) };
            let winner = sale.win(here).await;
            sale.assert_won_again(&winner, there).await;
        }
        assert_eq!(sale.world.count(sale.template).await.all(), 3 + ROUNDS);
        sale.world.assert_sound(None).await;
        sale.world.end().await;
    }

    #[tokio::test]
    async fn a_unit_that_comes_back_is_sold_by_either_api() {
        let two_apis = |options| PlatformOptions { apis: 2, ..options };
        let world = World::start_with("came back", two_apis).await;
        let hour = chrono::TimeDelta::hours(1);
        let held = |new: NewTemplate| NewTemplate { per_user_limit: 2, max_per_claim: 2, ..new };
        let template = world.template(2, |new| held(new).held_for(hour)).await;
        let sale = Sale { world, template, fresh: AtomicI64::new(1) };
        let mut holders = sale.sell(2).await;
        for api in [1, 0] {
            sale.until_remembered().await;
            let Winner { user, answer } = holders.remove(0);
            let claimed: Claimed = answer.json().unwrap();
            let holder = sale.world.api().shopper(user).unwrap();
            let given_up = holder.cancel(claimed.id, None).await.unwrap();
            assert_eq!(given_up.status, 200, "{given_up:?}");
            holders.push(sale.win(api).await);
        }
        let counts = sale.world.count(template).await;
        assert_eq!((counts.held, counts.cancelled), (2, 2));
        sale.world.assert_sound(None).await;
        sale.world.end().await;
    }

    #[tokio::test]
    async fn a_pause_and_an_end_are_seen_through_what_is_remembered() {
        let sale = Sale::start("paused", 5).await;
        let won = sale.sell(5).await;
        for (verb, code) in [("pause", "PAUSED"), ("resume", "SOLD_OUT"), ("end", "ENDED")] {
            if verb != "resume" {
                sale.until_remembered().await;
            }
            sale.world.api().turn(sale.template, verb).await.unwrap();
            sale.until_both_say(code).await;
        }
        for api in [0, 1] {
            sale.assert_won_again(&won[api], api).await;
        }
        sale.world.assert_sound(None).await;
        sale.world.end().await;
    }

    #[tokio::test]
    async fn a_gate_that_went_back_in_time_gives_nothing_out_again_and_its_winners_their_coupons() {
        let (mut gate, world) = world_with_own_gate("wentback").await;
        let sale = Sale::on(world, 10).await;
        let mut won = sale.sell(5).await;
        let copy = copy_of_gate_file(&mut gate).await;
        // Sales that the old file does not contain.
        for _ in 0..5 {
            won.push(sale.win(0).await);
        }
        sale.until_remembered().await;
        gate.server.kill().unwrap();
        restore(&copy, &gate);
        gate.server.start().await.unwrap();
        open_again(&sale.world, sale.template, 10).await;
        sale.until_both_say("SOLD_OUT").await;
        sale.until_remembered().await;
        for (winner, api) in won.iter().zip([0, 1].into_iter().cycle()) {
            sale.assert_won_again(winner, api).await;
        }
        assert_eq!(sale.world.count(sale.template).await.all(), 10);
        sale.world.assert_sound(None).await;
        sale.world.end().await;
    }
}
