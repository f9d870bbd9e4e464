//! [`Promises`]: a test's own list of claims that were answered 202. Neither Redis nor MySQL can lose it.

use std::{collections::BTreeMap, time::Duration};

use coupon::{RequestId, TemplateId};
use futures::{StreamExt as _, stream};
use mysql_store::{claim, connect};
use shopper::{Accepted, Answer, Claimed, Fate, Run, Shopper};
use tokio::time::{Instant, sleep};

use crate::{REST_MAX, World, until_within};

/// Claims that are looked at concurrently.
const AT_A_TIME: usize = 32;

/// Pause between two looks at the same claim.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The claims that were answered 202.
#[derive(Debug, Default)]
pub struct Promises {
    pub claims: Vec<Accepted>,
}

/// How the claims of a list ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ends {
    pub succeeded: usize,
    /// Rejected for good, by code.
    pub rejected: BTreeMap<String, usize>,
    /// Lost with their gate; their keys may be sent again.
    pub lost: usize,
}

impl Ends {
    /// Every claim succeeded.
    pub fn all_succeeded(count: usize) -> Self {
        Self { succeeded: count, ..Self::default() }
    }
}

impl Promises {
    /// The claims that runs were answered 202.
    pub fn of<'a>(runs: impl IntoIterator<Item = &'a Run>) -> Self {
        Self { claims: runs.into_iter().flat_map(|run| run.accepted.clone()).collect() }
    }

    /// The claims of some templates only.
    #[must_use]
    pub fn only(&self, is_meant: impl Fn(&Accepted) -> bool) -> Self {
        Self { claims: self.claims.iter().filter(|claim| is_meant(claim)).cloned().collect() }
    }

    /// Claims, and notes a 202.
    ///
    /// # Panics
    /// There is no answer, or a 202 lacks its location.
    pub async fn claim(
        &mut self,
        shopper: &Shopper,
        template: TemplateId,
        key: Option<&str>,
        quantity: u32,
    ) -> Answer {
        let answer = shopper.claim(template, key, quantity).await.unwrap();
        let accepted = Accepted::read(&answer, template, shopper.user(), key, quantity);
        assert_eq!(accepted.is_some(), answer.status == 202, "{answer:?}");
        self.claims.extend(accepted);
        answer
    }

    /// Claims with the same key until the answer is final, through a 202 and its end. Returns the 201 of a claim that
    /// landed, or the refusal.
    ///
    /// # Panics
    /// None is final within [`REST_MAX`], or its key is answered otherwise than the claim ended.
    pub async fn insist(
        &mut self,
        shopper: &Shopper,
        template: TemplateId,
        key: Option<&str>,
        quantity: u32,
    ) -> Answer {
        let claim = async || shopper.claim(template, key, quantity).await;
        let is_heard =
            |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if !answer.is_passing());
        let is_over = |answer: &Result<Answer, _>| matches!(answer, Ok(answer) if is_last(answer));
        let first = until_within(REST_MAX, claim, is_heard).await.unwrap();
        let accepted = Accepted::read(&first, template, shopper.user(), key, quantity);
        let Some(mut accepted) = accepted else { return first };
        let look = async || shopper.look(&accepted).await.ok().and_then(|answer| answer.fate());
        let is_end = |fate: &Option<Fate>| fate.as_ref().is_some_and(Fate::is_end);
        let end = until_within(REST_MAX, look, is_end).await.unwrap();
        let last = until_within(REST_MAX, claim, is_over).await.unwrap();
        match &end {
            Fate::Succeeded { body } => assert_eq!((last.status, &last.body), (201, body)),
            Fate::Rejected { code } => assert_eq!(last.code().as_ref(), Some(code), "{last:?}"),
            Fate::Lost | Fate::Processing { .. } => {}
        }
        accepted.fate = Some(end);
        self.claims.push(accepted);
        last
    }

    /// Waits until every claim has ended, and compares the ends with MySQL.
    ///
    /// # Panics
    /// A claim has not ended within [`REST_MAX`], or its end differs from an earlier answer or from MySQL.
    pub async fn kept(&mut self, world: &World) -> Ends {
        let deadline = Instant::now() + REST_MAX;
        let ended: Vec<Accepted> = stream::iter(std::mem::take(&mut self.claims))
            .enumerate()
            .map(|(number, claim)| ended(world, number, claim, deadline))
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let mut ends = Ends::default();
        for claim in &ended {
            assert_in_mysql(world, claim).await;
            match claim.fate.clone().unwrap() {
                Fate::Succeeded { .. } => ends.succeeded += 1,
                Fate::Rejected { code } => *ends.rejected.entry(code).or_default() += 1,
                Fate::Lost | Fate::Processing { .. } => ends.lost += 1,
            }
        }
        self.claims = ended;
        ends
    }
}

/// Whether this answer is final: neither a repetition nor the end of an accepted claim comes after it.
fn is_last(answer: &Answer) -> bool {
    !answer.is_passing() && answer.status != 202
}

/// Looks at a claim, each time at the next api, until it has ended.
async fn ended(world: &World, number: usize, mut claim: Accepted, deadline: Instant) -> Accepted {
    let mut turn = number;
    loop {
        turn += 1;
        let shopper = world.apis[turn % world.apis.len()].shopper(claim.user).unwrap();
        let answer = shopper.look(&claim).await;
        let seen = answer.as_ref().ok().and_then(Answer::fate);
        if let Some(end) = seen.filter(Fate::is_end) {
            let before = claim.fate.as_ref().unwrap_or(&end);
            assert_eq!(*before, end, "claim {} was told another end before", claim.id);
            claim.fate = Some(end);
            return claim;
        }
        let status = answer.as_ref().map(|answer| answer.status);
        assert!(claim.fate.is_none() || !matches!(status, Ok(200 | 202)), "{claim:?}: {answer:?}");
        assert!(Instant::now() < deadline, "not ended after {REST_MAX:?}: {claim:?}, {answer:?}");
        sleep(LOOK_EVERY).await;
    }
}

/// Compares the end of a claim with the claim that landed under its key, if any.
async fn assert_in_mysql(world: &World, accepted: &Accepted) {
    let request = match &accepted.key {
        Some(key) => RequestId::from_client(key).unwrap(),
        None => RequestId::absent(),
    };
    let mut connection = connect::acquire(&world.sources.pool).await.unwrap();
    let template = accepted.template;
    let user = accepted.user;
    let landed = claim::landed_under_key(&mut connection, template, user, &request).await.unwrap();
    match &accepted.fate {
        Some(Fate::Succeeded { body }) => {
            let told: Claimed = serde_json::from_str(body).unwrap();
            let landed = landed.unwrap_or_else(|| panic!("MySQL does not have {accepted:?}"));
            assert_eq!((landed.id, landed.coupons.len()), (told.id, told.coupons.len()));
            assert_eq!(told.coupons.len(), accepted.quantity as usize, "{accepted:?}");
        }
        Some(Fate::Rejected { .. }) => assert_eq!(landed, None, "it landed: {accepted:?}"),
        // The same key may have landed since.
        Some(Fate::Lost | Fate::Processing { .. }) | None => {}
    }
}
