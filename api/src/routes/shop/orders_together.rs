//! Redeems several orders in one transaction ([`super::batch`]).
//!
//! Plain cases only: a new order, whose coupons are the shop's, one user's, unused, valid, fitting and locked by no
//! other transaction. [`super::order_redemption`] handles the others.
//!
//! Locks are taken in the same order as there: coupons by id, and last the rows of new orders, by name.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, SubsecRound as _, Utc};
use coupon::{
    CouponId, CouponStatus, MerchantId, UserId,
    money::{self, Applied, Offer, Spend},
};
use mysql_store::{
    audit, checkout as store,
    connect::{self, Transaction},
    redemption::{self, Money, Redemption},
    redemption_batch,
    redemption_order::{OrderName, Redeemed},
    user_coupon::{UserCoupon, refused_use},
};

use crate::{
    problem::Problem,
    routes::{
        audit::entry,
        shop::{
            batch::Together,
            checkout::{Change, LockedRow, not_kept_by_another},
            judge::offer,
        },
    },
    shop::redemption::{Made, Wanted},
    state::App,
};

impl Together for Wanted {
    const WHAT: &'static str = "redemptions";

    async fn serve(app: &App, wanted: &[&Self]) -> Result<HashMap<usize, Made>, Problem> {
        try_redeem(app, wanted).await
    }
}

/// Redeems those of the orders that are plain cases, and returns what they redeemed, by their position.
async fn try_redeem(app: &App, wanted: &[&Wanted]) -> Result<HashMap<usize, Made>, Problem> {
    let Some(first) = wanted.first() else { return Ok(HashMap::new()) };
    let merchant = first.shop.merchant_id;
    let mut transaction = connect::begin(&app.pool).await?;
    // As columns store it, so that a later answer has the same bytes.
    let now = app.clock.now().trunc_subsecs(3);
    let found = Found::read(&mut transaction, merchant, wanted).await?;
    let plans: Vec<Plan<'_>> =
        wanted.iter().enumerate().filter_map(|(at, wanted)| found.plan(at, wanted, now)).collect();
    if plans.is_empty() {
        return Ok(HashMap::new());
    }
    let uses: Vec<(CouponId, &str)> = plans.iter().flat_map(Plan::uses).collect();
    let used = redemption_batch::use_all(&mut transaction, &uses, now).await?;
    if used != uses.len() as u64 {
        // By MySQL's clock one of the coupons has expired.
        return Err(Problem::overtaken());
    }
    let made = record(app, &mut transaction, &plans, now).await?;
    app.commit(transaction).await?;
    Ok(made)
}

/// Records what is redeemed: redemptions, audit lines, and last the orders' rows.
async fn record(
    app: &App,
    transaction: &mut Transaction,
    plans: &[Plan<'_>],
    now: DateTime<Utc>,
) -> Result<HashMap<usize, Made>, Problem> {
    let actors: Vec<String> = plans.iter().map(|plan| plan.wanted.shop.actor()).collect();
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    let mut locked = Vec::new();
    let mut made = HashMap::new();
    for (plan, actor) in plans.iter().zip(&actors) {
        let mut redemptions = Vec::with_capacity(plan.shares.len());
        for share in &plan.shares {
            let order_ref = plan.wanted.order_ref.as_str();
            let coupon = &share.after;
            let money = Some(&share.money);
            let new = redemption::New {
                id: app.ids.redemption()?,
                coupon,
                order_ref,
                money,
                actor,
                at: now,
            };
            let change = Change { before: &share.before, after: &share.after, order_ref, at: now };
            lines.push(entry(app, plan.wanted.shop, change.use_for(money), now)?);
            redemptions.push(share.redemption(new.id, now));
            rows.push(new);
            locked.extend(share.is_locked.then_some(share.after.id));
        }
        made.insert(plan.at, Made { redeemed: plan.redeemed(now), redemptions });
    }
    redemption::add_all(transaction, &rows).await?;
    redemption_batch::unlock_all(transaction, &locked).await?;
    audit::record_all(transaction, &lines).await?;
    let orders: Vec<(OrderName<'_>, &Redeemed)> =
        plans.iter().map(|plan| (plan.name(), &made[&plan.at].redeemed)).collect();
    if redemption_batch::add_orders(transaction, &orders).await? {
        Ok(made)
    } else {
        Err(Problem::overtaken())
    }
}

/// What MySQL knows of the orders of a batch.
struct Found {
    /// Orders that are not new.
    known: HashSet<String>,
    /// Coupons of new orders that no other transaction has locked.
    locked: HashMap<CouponId, LockedRow>,
}

impl Found {
    async fn read(
        transaction: &mut Transaction,
        merchant: MerchantId,
        wanted: &[&Wanted],
    ) -> Result<Self, Problem> {
        let names: Vec<&str> = wanted.iter().map(|wanted| wanted.order_ref.as_str()).collect();
        let known = redemption_batch::known_orders(transaction, merchant, &names).await?;
        let known: HashSet<String> = known.into_iter().collect();
        let new = wanted.iter().filter(|wanted| !known.contains(&wanted.order_ref));
        let mut ids: Vec<CouponId> =
            new.flat_map(|wanted| wanted.coupons.iter().copied()).collect();
        ids.sort_unstable();
        let coupons = store::lock_free_rows(transaction, merchant, &ids).await?;
        let mut coupons: HashMap<CouponId, UserCoupon> =
            coupons.into_iter().map(|coupon| (coupon.id, coupon)).collect();
        let terms = store::terms(transaction, &ids).await?;
        let locked = terms.into_iter().filter_map(|terms| {
            let coupon = coupons.remove(&terms.coupon)?;
            Some((coupon.id, LockedRow { coupon, terms }))
        });
        Ok(Self { known, locked: locked.collect() })
    }

    /// Plans an order's redemption, if it is a plain case.
    fn plan<'a>(&self, at: usize, wanted: &'a Wanted, now: DateTime<Utc>) -> Option<Plan<'a>> {
        if self.known.contains(&wanted.order_ref) {
            return None;
        }
        let locked: Vec<&LockedRow> =
            wanted.coupons.iter().map(|id| self.locked.get(id)).collect::<Option<_>>()?;
        let user = wanted.user.or_else(|| locked.first().map(|locked| locked.coupon.user_id))?;
        if !locked
            .iter()
            .all(|locked| locked.coupon.user_id == user && is_plain(locked, wanted, now))
        {
            return None;
        }
        let offers: Vec<Offer<'_>> = locked.iter().map(|locked| offer(locked)).collect();
        let spend = Spend { amount: wanted.amount, currency: &wanted.currency };
        let applied = money::apply(spend, &offers).ok()?;
        let share =
            |one: &Applied| Some(Share::of(self.locked.get(&one.coupon)?, one, wanted, now));
        let shares = applied.iter().map(share).collect::<Option<_>>()?;
        Some(Plan { at, wanted, user, shares })
    }
}

/// Returns whether the coupon can be used for the order, by the caller's clock; the use also checks MySQL's.
fn is_plain(locked: &LockedRow, wanted: &Wanted, now: DateTime<Utc>) -> bool {
    let order_ref = wanted.order_ref.as_str();
    refused_use(locked.coupon.clone(), order_ref, now, now).is_none()
        && not_kept_by_another(&locked.terms, Some(order_ref)).is_ok()
}

/// What is to be redeemed for an order.
struct Plan<'a> {
    /// Position of the order in its batch.
    at: usize,
    wanted: &'a Wanted,
    user: UserId,
    /// In the order of application.
    shares: Vec<Share>,
}

/// A coupon's part in an order.
struct Share {
    before: UserCoupon,
    after: UserCoupon,
    money: Money,
    /// Whether the order has locked it.
    is_locked: bool,
}

impl Plan<'_> {
    fn name(&self) -> OrderName<'_> {
        let Wanted { shop, order_ref, .. } = self.wanted;
        OrderName { merchant_id: shop.merchant_id, order_ref }
    }

    fn uses(&self) -> impl Iterator<Item = (CouponId, &str)> {
        self.shares.iter().map(|share| (share.after.id, self.wanted.order_ref.as_str()))
    }

    fn redeemed(&self, at: DateTime<Utc>) -> Redeemed {
        let Wanted { digest, amount, currency, .. } = self.wanted;
        let currency = currency.clone();
        Redeemed { digest: *digest, user_id: self.user, amount: *amount, currency, at }
    }
}

impl Share {
    fn of(locked: &LockedRow, applied: &Applied, wanted: &Wanted, now: DateTime<Utc>) -> Self {
        let before = locked.coupon.clone();
        let after = UserCoupon {
            status: CouponStatus::Used,
            version: before.version + 1,
            changed_at: now,
            used_at: Some(now),
            order_ref: Some(wanted.order_ref.clone()),
            ..before.clone()
        };
        let amount = wanted.amount;
        let discount = applied.discount;
        let money = Money { amount, discount, currency: wanted.currency.clone() };
        Self { before, after, money, is_locked: locked.terms.lock.is_some() }
    }

    fn redemption(&self, id: coupon::RedemptionId, at: DateTime<Utc>) -> Redemption {
        Redemption {
            id,
            coupon_id: self.after.id,
            template_id: self.after.template_id,
            user_id: self.after.user_id,
            money: Some(self.money.clone()),
            at,
            rolled_back: None,
        }
    }
}
