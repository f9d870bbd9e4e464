//! [`HeldSale`]: a sale of held coupons. Some users pay, some cancel, and the rest let their holds
//! lapse. Each hears how it ended, and MySQL must agree.

use chrono::TimeDelta;
use coupon::{ClaimId, TemplateId, UserId};
use futures::{StreamExt as _, stream};
use mysql_store::verify;
use shopper::{Answer, Api, Claimed, NewTemplate};

use crate::{Mode, World, promises::Promises, until_within};

/// Coupons: fewer than users, so that units are sold again.
const STOCK: i64 = 60;

/// Users, who claim one after the other.
const USERS: i64 = 150;

/// Users at a time.
const AT_ONCE: usize = 24;

/// Longer than a campaign's broker is away, so that the wake-up of a hold comes in time.
const HOLD: TimeDelta = TimeDelta::seconds(7);

/// The key of each user's only claim.
const KEY: &str = "held";

/// The end of one user's claim, as the user was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Paid,
    Cancelled,
    Lapsed,
}

/// A sale of one template.
pub struct HeldSale {
    pub template: TemplateId,
    first_user: i64,
}

/// What its users were told.
#[derive(Default)]
pub struct Told {
    /// Their claims that were answered 202.
    pub promises: Promises,
    ends: Vec<(ClaimId, End)>,
}

impl HeldSale {
    /// Publishes the template. Its users have ids from `first_user` on.
    pub async fn begin(world: &World, (mode, after): Mode, first_user: i64) -> Self {
        let held = |new: NewTemplate| new.held_for(HOLD).in_mode(mode, after);
        Self { template: world.template(STOCK, held).await, first_user }
    }

    /// Runs the sale until each user has heard how it ended.
    pub fn run(&self, world: &World) -> impl Future<Output = Told> + use<> {
        Self::play(self.template, self.first_user, world.apis.clone())
    }

    async fn play(template: TemplateId, first_user: i64, apis: Vec<Api>) -> Told {
        let users = stream::iter(first_user..first_user + USERS);
        let each = users.map(|user| one_user(template, user, &apis)).buffer_unordered(AT_ONCE);
        let mut told = Told::default();
        for (promises, end) in each.collect::<Vec<_>>().await {
            told.promises.claims.extend(promises.claims);
            told.ends.extend(end);
        }
        told
    }

    /// Waits until no coupon is held, and compares what was told with MySQL. Returns how many coupons were paid for.
    ///
    /// # Panics
    /// A coupon is not what its user or the shop was told, or the stock is not what was not paid for.
    pub async fn check(&self, world: &World, told: &Told) -> usize {
        world.until(self.template, |counts| counts.held == 0).await;
        let mut connection = world.mysql().await;
        for (claim, end) in &told.ends {
            let status = format!("select status from user_coupon where claim_id = {claim}");
            let status = verify::number(&mut connection, &status).await.unwrap();
            let expected = match end {
                End::Paid => 0,
                End::Cancelled => 3,
                End::Lapsed => 5,
            };
            assert_eq!(status, expected, "claim {claim} was told {end:?}");
        }
        let paid = told.ends.iter().filter(|(_, end)| *end == End::Paid).count();
        let counts = world.count(self.template).await;
        assert_eq!(counts.unused, i64::try_from(paid).unwrap(), "{counts:?}");
        let stock =
            format!("select stock from template_stock where template_id = {}", self.template);
        let stock = verify::number(&mut connection, &stock).await.unwrap();
        assert_eq!(stock, STOCK - counts.unused, "{counts:?}");
        paid
    }
}

/// Claims a coupon, and pays for it, cancels it, or lets it lapse. There is no end if all were sold.
async fn one_user(
    template: TemplateId,
    user: i64,
    apis: &[Api],
) -> (Promises, Option<(ClaimId, End)>) {
    let api = &apis[usize::try_from(user).unwrap() % apis.len()];
    let shopper = api.shopper(UserId(user)).unwrap();
    let mut promises = Promises::default();
    let claimed = promises.insist(&shopper, template, Some(KEY), 1).await;
    if claimed.status != 201 {
        assert_eq!(claimed.code().as_deref(), Some("SOLD_OUT"), "{claimed:?}");
        return (promises, None);
    }
    let claim: Claimed = claimed.json().unwrap();
    let (done, answer) = match user % 3 {
        0 => {
            let payment = format!("pay-{user}");
            (End::Paid, definite(async || api.confirm(claim.id, &payment, None).await.ok()).await)
        }
        1 => (End::Cancelled, definite(async || shopper.cancel(claim.id, None).await.ok()).await),
        _ => return (promises, Some((claim.id, End::Lapsed))),
    };
    let end = match answer.code().as_deref() {
        None if answer.status == 200 => done,
        Some("HOLD_LAPSED") => End::Lapsed,
        _ => panic!("user {user}, {done:?}: {answer:?}"),
    };
    (promises, Some((claim.id, end)))
}

/// Sends a call again until its answer is definite.
async fn definite(call: impl AsyncFn() -> Option<Answer>) -> Answer {
    let is_definite = |answer: &Option<Answer>| answer.as_ref().is_some_and(|a| !a.is_passing());
    until_within(crate::PATIENCE, call, is_definite).await.unwrap()
}
