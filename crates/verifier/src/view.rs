//! I8 and I11: views hold what MySQL holds. A cold view answers nobody, so only those that readers
//! trust are compared; but no view at all may list a coupon that has ended.

use std::collections::{BTreeMap, HashMap};

use coupon::{CouponStatus, UserId};
use futures::{StreamExt, TryStreamExt, stream};
use mysql_store::{connect, snapshot, user_coupon::UserCoupon};
use redis_view::{Change, Contents, ViewCoupon};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// Coupons read from MySQL by one statement.
const ROWS_PER_READ: u32 = 10_000;

/// Views read at a time over the one connection: enough to hide the round trips.
const VIEWS_AT_A_TIME: usize = 64;

/// Every view, and every coupon.
pub(crate) struct Views {
    views: Vec<(UserId, Contents)>,
    coupons: HashMap<UserId, BTreeMap<String, UserCoupon>>,
}

impl Views {
    /// Reads the views first and MySQL after them, so that a platform that is still catching up is
    /// never taken for one that is ahead.
    pub(crate) async fn read(sources: &Sources) -> Result<Self, VerifyError> {
        let users = sources.view.users().await?;
        let views = stream::iter(users)
            .map(async |user| sources.view.contents(user).await.map(|view| (user, view)))
            .buffer_unordered(VIEWS_AT_A_TIME)
            .try_collect()
            .await?;
        let mut connection = connect::acquire(&sources.pool).await?;
        let mut coupons: HashMap<_, BTreeMap<_, _>> = HashMap::new();
        let mut after = 0;
        loop {
            let rows = snapshot::user_coupon_after(&mut connection, after, ROWS_PER_READ).await?;
            let Some(last) = rows.last() else { return Ok(Self { views, coupons }) };
            after = last.id.0;
            for row in rows {
                coupons.entry(row.user_id).or_default().insert(row.id.to_string(), row);
            }
        }
    }

    fn coupons_of(&self, user: UserId) -> impl Iterator<Item = (&String, &UserCoupon)> {
        self.coupons.get(&user).into_iter().flatten()
    }

    fn coupon(&self, user: UserId, id: &str) -> Option<&UserCoupon> {
        self.coupons.get(&user)?.get(id)
    }
}

/// I8: each view that is trusted lists exactly the user's unused coupons, with their details.
pub(crate) fn agrees(views: &Views) -> Outcome {
    let mut findings = Findings::of("I8", "views = unused rows: members, scores, details");
    let (mut trusted, mut coupons) = (0, 0);
    for (user, view) in views.views.iter().filter(|(_, view)| view.trusted) {
        trusted += 1;
        coupons += view.list.len();
        let expected: BTreeMap<String, i64> = views
            .coupons_of(*user)
            .map(|(_, row)| change(row))
            .filter(Change::is_listed)
            .map(|change| (change.coupon.member(), change.coupon.score()))
            .collect();
        findings.expect(view.list == expected, || {
            format!("user {user}: the view lists {:?}, MySQL has {expected:?}", view.list)
        });
        for (id, entry) in &view.coupons {
            let truth = views.coupon(*user, id).map(|row| change(row).entry());
            findings.expect(truth.as_ref() == Some(entry), || {
                format!("user {user}, coupon {id}: the view holds {entry:?}, MySQL {truth:?}")
            });
        }
        for (id, row) in views.coupons_of(*user) {
            let known = view.coupons.contains_key(id) || row.status != CouponStatus::Unused;
            findings.expect(known, || format!("user {user}, coupon {id}: no details in the view"));
        }
    }
    let cold = views.views.len() - trusted;
    let (trusted, coupons) = (count(trusted, "view"), count(coupons, "coupon"));
    findings.over(format!("{trusted} with {coupons}, {cold} cold"))
}

/// I11: a coupon that was used or has expired is on no list.
pub(crate) fn has_no_revenant(views: &Views) -> Outcome {
    let mut findings = Findings::of("I11", "no view lists a coupon that has ended");
    let mut listed = 0;
    for (user, view) in &views.views {
        for member in view.list.keys() {
            listed += 1;
            let id = member.rsplit('_').next().unwrap_or_default();
            let status = views.coupon(*user, id).map(|row| row.status);
            findings.expect(status == Some(CouponStatus::Unused), || {
                let truth = status.map_or("not there", CouponStatus::word);
                format!("user {user} is shown coupon {id}, which is {truth} in MySQL")
            });
        }
    }
    findings.over(format!("{} listed", count(listed, "coupon")))
}

fn change(row: &UserCoupon) -> Change {
    Change {
        coupon: ViewCoupon {
            id: row.id,
            template_id: row.template_id,
            claim_no: row.claim_no,
            claim_id: row.claim_id,
            claimed_at: row.claimed_at,
            valid_from: row.valid_from,
            valid_until: row.valid_until,
        },
        status: row.status,
        version: row.version,
    }
}
