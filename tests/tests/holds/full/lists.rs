//! "My coupons" of holds: one that is over is listed as lapsed, flipped or not, however many others are not over.

use coupon::{CouponId, TemplateId};
use pipeline_tests::World;
use shopper::{CouponPage, CouponQuery, Shopper};

use crate::holds::{LONG, SHORT, all_over, claimed, ids};

/// Coupons of a page: fewer than there are newer holds.
const LIMIT: u32 = 2;

async fn page(user: &Shopper, status: &'static str, cursor: Option<String>) -> CouponPage {
    let query =
        CouponQuery { status: Some(status), limit: Some(LIMIT), cursor, ..CouponQuery::default() };
    user.coupons(&query).await.unwrap()
}

/// The rest of a list after the cursor `behind`. No page of it is empty, and each but the last is full.
async fn rest(user: &Shopper, status: &'static str, behind: Option<String>) -> Vec<CouponId> {
    let mut cursor = behind;
    let mut all = Vec::new();
    loop {
        let page = page(user, status, cursor).await;
        assert_eq!(page.has_more, page.next_cursor.is_some());
        assert!(!page.data.is_empty() && (!page.has_more || page.data.len() == LIMIT as usize));
        assert!(page.data.iter().all(|coupon| coupon.status == status), "{page:?}");
        all.extend(page.data.iter().map(|coupon| coupon.id));
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

#[tokio::test]
async fn every_hold_that_is_over_is_listed_as_lapsed_before_and_after_its_flip() {
    let mut world = World::start("lapsed list").await;
    let template = async |hold| -> TemplateId {
        let many = |new| shopper::NewTemplate { per_user_limit: 0, max_per_claim: 5, ..new };
        world.template(9, |new| many(new.held_for(hold))).await
    };
    let brief = template(SHORT).await;
    let long = template(LONG).await;
    // No worker flips.
    world.platform.expiry_worker.kill().unwrap();
    let (anna, first) = claimed(&world, brief, 1, "first", 3).await;
    let (_, second) = claimed(&world, brief, 1, "second", 2).await;
    let (_, kept) = claimed(&world, long, 1, "kept", 5).await;
    all_over(&world, brief, 5).await;
    assert_eq!(world.count(brief).await.lapsed, 0, "no row says so");
    // The latest end first, and of one claim the highest id.
    let over: Vec<CouponId> =
        [ids(&second), ids(&first)].iter().flat_map(|claim| sorted(claim)).collect();
    assert_eq!(rest(&anna, "lapsed", None).await, over);

    // A list that is read further while its coupons are flipped continues where it was.
    let begun = page(&anna, "lapsed", None).await;
    world.platform.expiry_worker.start().await.unwrap();
    world.until(brief, |counts| counts.lapsed == 5).await;
    assert_eq!(rest(&anna, "lapsed", begun.next_cursor).await, over[LIMIT as usize..]);
    assert_eq!(rest(&anna, "lapsed", None).await, over);
    assert_eq!(rest(&anna, "held", None).await, sorted(&ids(&kept)));
    world.assert_sound(None).await;
    world.end().await;
}

/// The highest first.
fn sorted(coupons: &[CouponId]) -> Vec<CouponId> {
    let mut coupons = coupons.to_vec();
    coupons.sort_unstable_by(|left, right| right.cmp(left));
    coupons
}
