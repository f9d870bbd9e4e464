//! Redeems several orders in one transaction: those that wait while a transaction is under way go together in the next.
//!
//! Only plain cases are redeemed here: the order is new, and its coupons are the shop's, one user's, unused, valid, fitting
//! and in no other transaction's hands. Every other order, and every order of a transaction that fails, is left to a transaction of its own
//! ([`super::redemption_orders`]), which says exactly what is wrong. So nothing is decided twice, and a fault of one order
//! costs the others of its batch time alone.
//!
//! Locks are taken in the same order as there: coupons by id, and last the rows of new orders, by name.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

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
use runtime::Context;
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::{
    problem::Problem,
    routes::{
        audit::entry,
        shop::{
            checkout::{Change, Held, not_kept_by_another},
            redemption_orders::offer,
        },
    },
    shop::redemption_queue::{Made, Waiting, Wanted},
    state::App,
};

/// Tasks that redeem: while one waits for its commit, the other reads.
const WORKERS: usize = 2;

/// Most orders of one transaction. It locks their coupons for some milliseconds.
const ORDERS_MAX: usize = 64;

/// Starts the tasks, which end when the process is to stop: they hold the landers. What then waits in the queue has
/// transactions of its own.
pub(crate) fn start(app: &App, context: &Context, queue: mpsc::Receiver<Waiting>) {
    let queue = Arc::new(Mutex::new(queue));
    for _ in 0..WORKERS {
        context.spawn("redemptions", run(app.clone(), Arc::clone(&queue), context.stop_token()));
    }
}

async fn run(
    app: App,
    queue: Arc<Mutex<mpsc::Receiver<Waiting>>>,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut waiting = Vec::with_capacity(ORDERS_MAX);
    let take =
        async |waiting: &mut Vec<Waiting>| queue.lock().await.recv_many(waiting, ORDERS_MAX).await;
    while stop.run_until_cancelled(take(&mut waiting)).await.is_some_and(|taken| taken > 0) {
        for batch in batches(waiting.drain(..)) {
            redeem(&app, batch).await;
        }
    }
    Ok(())
}

/// Splits what was taken by merchant. An order or a coupon that is named a second time is left to a transaction of its
/// own, which waits for the first.
fn batches(waiting: impl Iterator<Item = Waiting>) -> impl Iterator<Item = Vec<Waiting>> {
    let mut batches: HashMap<MerchantId, Vec<Waiting>> = HashMap::new();
    let (mut orders, mut coupons) = (HashSet::new(), HashSet::new());
    for one in waiting {
        let merchant = one.wanted.shop.merchant_id;
        let is_new = orders.insert((merchant, one.wanted.order_ref.clone()))
            && one.wanted.coupons.iter().all(|id| coupons.insert(*id));
        // Dropped, a waiting order gets `None`. Nobody waits for one whose client has gone.
        if is_new && !one.answer.is_closed() {
            batches.entry(merchant).or_default().push(one);
        }
    }
    batches.into_values()
}

async fn redeem(app: &App, mut batch: Vec<Waiting>) {
    // By name, as their rows are created.
    batch.sort_unstable_by(|a, b| a.wanted.order_ref.cmp(&b.wanted.order_ref));
    let wanted: Vec<&Wanted> = batch.iter().map(|one| &one.wanted).collect();
    let mut made = connect::within(try_redeem(app, &wanted)).await.unwrap_or_else(|problem| {
        debug!(reason = problem.reason().1, "orders are redeemed one by one");
        HashMap::new()
    });
    if !made.is_empty() {
        info!(orders = made.len(), "orders redeemed coupons");
    }
    for (at, one) in batch.into_iter().enumerate() {
        // A client that has gone finds its order redeemed when it asks again.
        drop(one.answer.send(made.remove(&at)));
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
        // By the server's clock one of them is over.
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
    let (mut rows, mut lines, mut locked) = (Vec::new(), Vec::new(), Vec::new());
    let mut made = HashMap::new();
    for (plan, actor) in plans.iter().zip(&actors) {
        let mut redemptions = Vec::with_capacity(plan.shares.len());
        for share in &plan.shares {
            let order_ref = plan.wanted.order_ref.as_str();
            let (coupon, money) = (&share.after, Some(&share.money));
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
    /// Coupons of the others that nobody else holds.
    held: HashMap<CouponId, Held>,
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
        let coupons = store::hold_free(transaction, merchant, &ids).await?;
        let mut coupons: HashMap<CouponId, UserCoupon> =
            coupons.into_iter().map(|coupon| (coupon.id, coupon)).collect();
        let terms = store::terms(transaction, &ids).await?;
        let held = terms.into_iter().filter_map(|terms| {
            let coupon = coupons.remove(&terms.coupon)?;
            Some((coupon.id, Held { coupon, terms }))
        });
        Ok(Self { known, held: held.collect() })
    }

    /// Plans an order's redemption, if it is a plain case.
    fn plan<'a>(&self, at: usize, wanted: &'a Wanted, now: DateTime<Utc>) -> Option<Plan<'a>> {
        if self.known.contains(&wanted.order_ref) {
            return None;
        }
        let held: Vec<&Held> =
            wanted.coupons.iter().map(|id| self.held.get(id)).collect::<Option<_>>()?;
        let user = wanted.user.or_else(|| held.first().map(|held| held.coupon.user_id))?;
        if !held.iter().all(|held| held.coupon.user_id == user && is_plain(held, wanted, now)) {
            return None;
        }
        let offers: Vec<Offer<'_>> = held.iter().map(|held| offer(held)).collect();
        let spend = Spend { amount: wanted.amount, currency: &wanted.currency };
        let applied = money::apply(spend, &offers).ok()?;
        let share = |one: &Applied| Some(Share::of(self.held.get(&one.coupon)?, one, wanted, now));
        let shares = applied.iter().map(share).collect::<Option<_>>()?;
        Some(Plan { at, wanted, user, shares })
    }
}

/// Returns whether the coupon can be used for the order, as far as the caller's clock says; the use asks the server's.
fn is_plain(held: &Held, wanted: &Wanted, now: DateTime<Utc>) -> bool {
    let order_ref = wanted.order_ref.as_str();
    refused_use(held.coupon.clone(), order_ref, now, now).is_none()
        && not_kept_by_another(&held.terms, Some(order_ref)).is_ok()
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
    fn of(held: &Held, applied: &Applied, wanted: &Wanted, now: DateTime<Utc>) -> Self {
        let before = held.coupon.clone();
        let after = UserCoupon {
            status: CouponStatus::Used,
            version: before.version + 1,
            changed_at: now,
            used_at: Some(now),
            order_ref: Some(wanted.order_ref.clone()),
            ..before.clone()
        };
        let (amount, discount) = (wanted.amount, applied.discount);
        let money = Money { amount, discount, currency: wanted.currency.clone() };
        Self { before, after, money, is_locked: held.terms.lock.is_some() }
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
