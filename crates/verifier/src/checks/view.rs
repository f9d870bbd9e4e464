//! I8 and I11: views agree with MySQL. A cold view is never served, so only trusted views are compared; but no view,
//! cold or not, may list a coupon that has ended.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{CouponId, CouponStatus, FindingKind, UserId};
use futures::{StreamExt, stream};
use mysql_store::{Readable, connect, user_coupon::UserCoupon, verify};
use redis_view::{Change, Contents, KeyLife, ViewCoupon};

use crate::{
    Outcome, Sources, VerifyError,
    finding::Finding,
    outcome::{Findings, count},
};

/// Most users whose views and rows are in memory at a time: enough to hide the round trips.
const USERS_AT_A_TIME: usize = 32;

/// Most coupons of these users, about twenty megabytes with their views, so that memory grows neither with the platform
/// nor with its hot users. A user with more is checked alone.
const COUPONS_AT_A_TIME: u64 = 20_000;

/// How long the topic may replay a change (its retention): a coupon that ended within it needs its tombstone.
const REPLAYED_FOR: TimeDelta = TimeDelta::days(7);

/// Longest time between the ends of a view's keys: they are set together, and read one after the other.
const APART_MAX: Duration = Duration::from_secs(1);

/// I8 and I11. Each user's view is read before MySQL, so that a platform that is still catching up never appears to be
/// ahead.
pub(crate) async fn agree(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<(Outcome, Outcome), VerifyError> {
    let mut look = ViewWalk {
        agrees: Findings::of("I8", "views = unused rows: members, scores, details"),
        revenants: Findings::of("I11", "no view lists a coupon that has ended"),
        now,
        trusted: 0,
        coupons: 0,
        listed: 0,
    };
    let looked = look.at_views(sources).await;
    let ViewWalk { agrees, revenants, trusted, coupons, listed, .. } = look;
    let users = match looked {
        Ok(users) => users,
        Err(error) => {
            let views = agrees.end(Err(error))?;
            return Ok((views, revenants.skipped_unless_broken("I8 ended early")));
        }
    };
    let cold = users - trusted;
    let over = format!("{} with {}, {cold} cold", count(trusted, "view"), count(coupons, "coupon"));
    let listed = format!("{} listed", count(listed, "coupon"));
    Ok((agrees.over(over), revenants.over(listed)))
}

/// Divides users into runs of at most [`COUPONS_AT_A_TIME`], or of one user.
fn parts<'a>(mut users: &'a [UserId], counts: &HashMap<UserId, u64>) -> Vec<&'a [UserId]> {
    let mut parts = Vec::new();
    while !users.is_empty() {
        let mut held = 0;
        let fits = |user: &&UserId| {
            held += counts.get(user).copied().unwrap_or_default();
            held <= COUPONS_AT_A_TIME
        };
        let (part, others) = users.split_at(users.iter().take_while(fits).count().max(1));
        parts.push(part);
        users = others;
    }
    parts
}

/// State of a walk through the views.
struct ViewWalk {
    agrees: Findings,
    revenants: Findings,
    now: DateTime<Utc>,
    trusted: usize,
    coupons: usize,
    listed: usize,
}

/// A user's coupons in MySQL, by id.
#[derive(Default)]
struct Rows {
    read: BTreeMap<String, UserCoupon>,
    /// Those that cannot be read, which I9 reports. Nothing is compared with them.
    unreadable: BTreeSet<String>,
}

impl Rows {
    fn of(rows: Readable<UserCoupon, CouponId>) -> Self {
        let read = rows.rows.into_iter().map(|row| (row.id.to_string(), row)).collect();
        Self { read, unreadable: rows.unreadable.iter().map(CouponId::to_string).collect() }
    }

    /// Whether nothing can be said of a coupon.
    fn is_unknown(&self, id: &str) -> bool {
        self.unreadable.contains(id)
    }
}

impl ViewWalk {
    /// Looks at all views. Returns how many users have one.
    async fn at_views(&mut self, sources: &Sources) -> Result<usize, VerifyError> {
        sources.learn_generations().await?;
        let users = sources.view.users().await?;
        for (step, some) in users.chunks(USERS_AT_A_TIME).enumerate() {
            sources.progress.say(|| {
                format!("I8 and I11: {} of {}", step * USERS_AT_A_TIME, count(users.len(), "view"))
            });
            let counts = {
                let mut connection = connect::acquire(&sources.pool).await?;
                verify::coupon_counts_of_users(&mut connection, some).await?
            };
            for few in parts(some, &counts) {
                self.at_all(sources, few).await?;
            }
        }
        Ok(users.len())
    }

    async fn at_all(&mut self, sources: &Sources, users: &[UserId]) -> Result<(), VerifyError> {
        let mut all = Vec::with_capacity(users.len());
        let ended = look_at(sources, users, self.now, &mut all).await;
        for looked in all {
            self.trusted += usize::from(looked.trusted);
            self.coupons += looked.coupons;
            self.listed += looked.listed;
            self.agrees.report(looked.differs);
            self.revenants.report(looked.revenants);
        }
        ended
    }
}

/// Compares the views of some users with their coupons: as many users as may be in memory at a time. A version of a coupon
/// that is under way looks like a difference.
///
/// # Errors
/// A server cannot be reached.
pub async fn of_users(
    sources: &Sources,
    users: &[UserId],
    now: DateTime<Utc>,
) -> Result<Vec<Finding>, VerifyError> {
    let mut looked = Vec::with_capacity(users.len());
    look_at(sources, users, now, &mut looked).await?;
    Ok(looked.into_iter().flat_map(|one| one.differs.into_iter().chain(one.revenants)).collect())
}

/// What was looked at before an error counts too.
async fn look_at(
    sources: &Sources,
    users: &[UserId],
    now: DateTime<Utc>,
    looked: &mut Vec<Looked>,
) -> Result<(), VerifyError> {
    let views: Vec<_> = stream::iter(users.iter().copied())
        .map(async |user| (user, sources.view.contents(user).await))
        .buffer_unordered(USERS_AT_A_TIME)
        .collect()
        .await;
    let mut connection = connect::acquire(&sources.pool).await?;
    let mut rows = verify::coupons_of_users(&mut connection, users).await?;
    for (user, view) in views {
        let mut one = Looked::default();
        match view {
            Err(error) if error.damage().is_some() => {
                one.differ(user, error.to_string());
            }
            view => one.at(user, &view?, &Rows::of(rows.remove(&user).unwrap_or_default()), now),
        }
        looked.push(one);
    }
    Ok(())
}

/// What a look at one view found.
#[derive(Default)]
struct Looked {
    trusted: bool,
    /// Members of a trusted view's list.
    coupons: usize,
    /// Members of the list.
    listed: usize,
    /// How it differs from MySQL.
    differs: Vec<Finding>,
    /// Coupons that it lists although they ended.
    revenants: Vec<Finding>,
}

impl Looked {
    fn at(&mut self, user: UserId, view: &Contents, rows: &Rows, now: DateTime<Utc>) {
        if view.trusted {
            self.trusted = true;
            self.coupons = view.list.len();
            self.list(user, view, rows);
            self.details(user, view, rows, now);
        }
        self.lives(user, view);
        for text in &view.no_text {
            let line = format!("user {user}: the view holds bytes that are no text: {text:?}");
            self.differ(user, line);
        }
        for member in view.list.keys() {
            self.listed += 1;
            let id = id_of(member);
            if rows.is_unknown(id) {
                continue;
            }
            let row = rows.read.get(id);
            let status = row.map(|row| row.status);
            if status != Some(CouponStatus::Unused) {
                let truth = status.map_or("not there", CouponStatus::word);
                let line = format!("user {user} is shown coupon {id}, which is {truth} in MySQL");
                let found = Finding::of_user(FindingKind::View, user, line);
                let version = row.map(|row| row.version);
                self.revenants.push(Finding { version, ..found.that(truth, "unused") });
            }
        }
    }

    fn differ(&mut self, user: UserId, line: String) {
        self.differs.push(Finding::of_user(FindingKind::View, user, line));
    }

    /// Checks that both keys end, together, and not later than a view may. A view that is cold because one of them is
    /// gone is in order.
    fn lives(&mut self, user: UserId, view: &Contents) {
        for (key, life) in ["list", "hash"].into_iter().zip(view.lives) {
            match life {
                KeyLife::Endless => {
                    let line = format!("user {user}: the view never ends: its {key} has no expiry");
                    self.differ(user, line);
                }
                KeyLife::For(time) if time > KeyLife::MOST => {
                    let time = time.as_secs();
                    let most = KeyLife::MOST.as_secs();
                    let line = format!(
                        "user {user}: the view's {key} ends in {time} s, and may in {most}"
                    );
                    self.differ(user, line);
                }
                KeyLife::Absent | KeyLife::For(_) => {}
            }
        }
        if let [KeyLife::For(list), KeyLife::For(hash)] = view.lives
            && list.abs_diff(hash) > APART_MAX
        {
            let list = list.as_secs();
            let hash = hash.as_secs();
            let line =
                format!("user {user}: the view's list ends in {list} s, its hash in {hash} s");
            self.differ(user, line);
        }
    }

    /// Checks that the list has exactly the unused coupons, with their scores.
    fn list(&mut self, user: UserId, view: &Contents, rows: &Rows) {
        let unused: BTreeMap<String, i64> = rows
            .read
            .values()
            .map(change)
            .filter(Change::is_listed)
            .map(|change| (change.coupon.member(), change.coupon.score()))
            .collect();
        for (member, score) in &unused {
            let listed = view.list.get(member);
            if listed != Some(score) {
                let listed = listed.map_or("nothing".to_owned(), i64::to_string);
                let line =
                    format!("user {user}: {member} is listed at {listed}, in MySQL at {score}");
                let found = Finding::of_user(FindingKind::View, user, line);
                self.differs.push(found.that(score, listed));
            }
        }
        let others = view.list.keys().filter(|member| !unused.contains_key(*member));
        for member in others.filter(|member| !rows.is_unknown(id_of(member))) {
            let line = format!("user {user}: {member} is listed, and not unused in MySQL");
            self.differ(user, line);
        }
    }

    /// Checks that the hash has correct entries, among them every coupon that is unused or that the topic may replay.
    fn details(&mut self, user: UserId, view: &Contents, rows: &Rows, now: DateTime<Utc>) {
        for (id, entry) in view.coupons.iter().filter(|(id, _)| !rows.is_unknown(id)) {
            let row = rows.read.get(id);
            let truth = row.map(|row| change(row).entry());
            if truth.as_ref() != Some(entry) {
                let line =
                    format!("user {user}, coupon {id}: the view holds {entry:?}, MySQL {truth:?}");
                let found = Finding::of_user(FindingKind::View, user, line);
                let version = row.map(|row| row.version);
                let found = found.that(truth.unwrap_or_default(), entry);
                self.differs.push(Finding { version, ..found });
            }
        }
        let replayed_since = now - REPLAYED_FOR;
        for (id, row) in &rows.read {
            let unused = row.status == CouponStatus::Unused;
            let is_needed = unused || row.changed_at >= replayed_since;
            if is_needed && !view.coupons.contains_key(id) {
                let what = if unused { "details" } else { "tombstone" };
                let line = format!("user {user}, coupon {id}: no {what} in the view");
                let found = Finding::of_user(FindingKind::View, user, line).that(what, "nothing");
                self.differs.push(Finding { version: Some(row.version), ..found });
            }
        }
    }
}

/// The coupon that a member of a list names.
fn id_of(member: &str) -> &str {
    member.rsplit('_').next().unwrap_or_default()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_looked_at_together_while_their_coupons_are_few_and_alone_if_they_have_many() {
        let users = [1, 2, 3, 4, 5, 6].map(UserId);
        let most = COUPONS_AT_A_TIME;
        let counts = [(1, 1), (2, most - 1), (3, 1), (4, 5 * most), (6, most)];
        let counts = counts.map(|(user, count)| (UserId(user), count)).into();
        let parts = parts(&users, &counts);
        let ids: Vec<Vec<i64>> =
            parts.iter().map(|part| part.iter().map(|user| user.0).collect()).collect();
        assert_eq!(ids, [vec![1, 2], vec![3], vec![4], vec![5, 6]]);
        assert!(super::parts(&[], &HashMap::new()).is_empty());
    }
}
