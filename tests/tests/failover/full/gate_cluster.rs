//! The gate's cluster loses a master, or moves a slot, while coupons are sold. MySQL says what was sold.

use std::ops::Range;

use coupon::{Epoch, TemplateId, UserId};
use devstack::{OwnCluster, TestServers};
use futures::future::join_all;
use pipeline_tests::{World, until};
use redis_address::slot_of;
use shopper::Answer;

use crate::failover::full::asynchronous::{KEY, claim, won};

/// Coupons of each template, one for each user.
const STOCK: i64 = 30;

/// A user who comes when everything is sold.
const LATE: i64 = 10_000;

/// Templates that are published until each of three masters has one; with this many, one in a million times not.
const TEMPLATES_MAX: usize = 36;

struct Sale {
    cluster: OwnCluster,
    world: World,
}

impl Sale {
    /// Starts a whole platform whose gate is a cluster.
    async fn start(name: &str) -> Self {
        let cluster = OwnCluster::start_gate(&name.replace(' ', "-")).await.unwrap();
        let servers = TestServers::shared().with_gate(&cluster.url());
        let world = World::start_on(&servers, name, |options| options).await;
        Self { cluster, world }
    }

    /// Publishes a template in this mode whose gate is on this master.
    async fn template_of(&self, master: usize, mode: &'static str) -> TemplateId {
        for _ in 0..TEMPLATES_MAX {
            let template = self.world.template(STOCK, |new| new.in_mode(mode, "topic")).await;
            if self.cluster.first_master_of(slot(template)) == master {
                return template;
            }
        }
        panic!("none of {TEMPLATES_MAX} templates is on master {master}");
    }

    /// One attempt at a claim.
    async fn once(&self, template: TemplateId, user: i64) -> Answer {
        let shopper = self.world.api().shopper(UserId(user)).unwrap();
        shopper.claim(template, Some(KEY), 1).await.unwrap()
    }

    /// These users claim at once, each until there is a definite answer.
    async fn rush(&self, template: TemplateId, users: Range<i64>) -> Vec<u16> {
        let claims = users.map(|user| claim(&self.world, template, user));
        join_all(claims).await.into_iter().map(|answer| answer.status).collect()
    }

    async fn epoch(&self, template: TemplateId) -> Epoch {
        let meta = async || self.world.sources.gate.meta(template).await;
        until(meta, |meta| matches!(meta, Ok(Some(meta)) if meta.is_open()))
            .await
            .unwrap()
            .unwrap()
            .epoch
    }

    /// Checks that every coupon was sold and no more, and ends the platform.
    async fn end(self, templates: &[TemplateId]) {
        for template in templates {
            let answer = claim(&self.world, *template, LATE).await;
            assert_eq!(answer.code().as_deref(), Some("SOLD_OUT"), "{template}: {answer:?}");
            self.world.until(*template, |coupons| coupons.all() == STOCK).await;
        }
        // The verifier's own connections broke too, and reconnect.
        let gate = &self.world.sources.gate;
        let reached = async || {
            let reach = gate.reach().await;
            reach.is_ok_and(|reach| templates.iter().all(|template| reach.has(*template)))
        };
        until(reached, |reached| *reached).await;
        self.world.assert_sound(None).await;
        self.world.end().await;
        drop(self.cluster);
    }
}

fn slot(template: TemplateId) -> u16 {
    slot_of(&format!("{{{template}:0}}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_master_that_dies_in_a_sale_costs_its_own_templates_only() {
    let mut sale = Sale::start("sale cluster dies").await;
    let dying = sale.template_of(0, "direct").await;
    let queued = sale.template_of(0, "queued").await;
    let second = sale.template_of(1, "direct").await;
    let third = sale.template_of(2, "queued").await;
    for template in [dying, queued, second, third] {
        let statuses = sale.rush(template, 0..10).await;
        assert!(statuses.iter().all(|status| [201, 202].contains(status)), "{statuses:?}");
    }
    sale.cluster.nodes[0].server.kill().unwrap();
    let closed = async {
        let of_dying = sale.rush(dying, 10..STOCK).await;
        let of_queued = sale.rush(queued, 10..STOCK).await;
        (of_dying, of_queued)
    };
    let open = async {
        for user in 10..STOCK {
            assert_eq!(sale.once(second, user).await.status, 201, "user {user}");
            assert_eq!(sale.once(third, user).await.status, 202, "user {user}");
        }
        let readyz = sale.world.platform.apis[0].answer("/readyz").await.unwrap();
        assert!(readyz.starts_with("HTTP/1.0 200"), "{readyz}");
    };
    let ((of_dying, of_queued), ()) = tokio::join!(closed, open);
    assert!(of_dying.iter().all(|status| *status == 201), "{of_dying:?}");
    assert!(of_queued.iter().all(|status| *status == 202), "{of_queued:?}");
    sale.end(&[dying, queued, second, third]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_that_moves_under_claims_oversells_nothing_and_opens_again() {
    let sale = Sale::start("sale cluster moves").await;
    let direct = sale.template_of(0, "direct").await;
    let queued = sale.template_of(1, "queued").await;
    let other = sale.template_of(2, "direct").await;
    for (template, from) in [(direct, 0), (queued, 1)] {
        let before = sale.epoch(template).await;
        let rush = sale.rush(template, 0..STOCK);
        let moving = async {
            let way = sale.cluster.begin_move(slot(template), from, from + 1).await.unwrap();
            for part in ["users", "outbox", "meta"] {
                way.keys(part).await.unwrap();
                let answer = sale.once(template, LATE).await;
                assert_eq!(answer.status, 503, "{part}: {answer:?}");
            }
            let answer = sale.once(other, STOCK + i64::from(from == 0)).await;
            assert_eq!(answer.status, 201, "{answer:?}");
            way.finish().await.unwrap();
        };
        let (statuses, ()) = tokio::join!(rush, moving);
        assert!(statuses.iter().all(|status| [201, 202].contains(status)), "{statuses:?}");
        assert!(sale.epoch(template).await > before);
    }
    // Two have a coupon of the third already.
    assert_eq!(sale.rush(other, 0..STOCK - 2).await, [201; 28]);
    sale.end(&[direct, queued, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_move_that_is_cancelled_admits_nothing_old() {
    let sale = Sale::start("sale cluster cancelled").await;
    let template = sale.template_of(0, "direct").await;
    won(&sale.world, template, 0..10).await;
    let old = sale.epoch(template).await;
    let way = sale.cluster.begin_move(slot(template), 0, 1).await.unwrap();
    assert!(way.keys("").await.unwrap() >= 2);
    way.cancel().await.unwrap();
    // The gate is gone from its master, and is made anew from MySQL.
    won(&sale.world, template, 10..20).await;
    let new = sale.epoch(template).await;
    assert!(new > old);
    // The old gate, with ten coupons more than MySQL has, takes the place of the new one.
    assert!(way.bring_back().await.unwrap() >= 2);
    let claims = (20..STOCK + 10).map(|user| claim(&sale.world, template, user));
    let sold = join_all(claims).await.into_iter().filter(|answer| answer.status == 201).count();
    assert_eq!(sold, 10);
    assert!(sale.epoch(template).await > new);
    sale.end(&[template]).await;
}
