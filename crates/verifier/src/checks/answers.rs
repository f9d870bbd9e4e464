//! I4 and I5: the answers that clients received agree with MySQL. Both need the clients' own
//! records.

use std::collections::HashMap;

use coupon::{TemplateId, UserId};
use mysql_store::{
    connect,
    verify::{self, LandedRow},
};

use crate::{
    History, Outcome, Record, Sources, VerifyError,
    history::Key,
    outcome::{Findings, count},
};

/// Reported if there is no history.
const NEEDS_HISTORY: &str = "needs the clients' answers, --history FILE";

/// I4: every 201 is in MySQL as promised, and every claim there was requested.
pub(crate) async fn are_true(
    sources: &Sources,
    history: Option<&History>,
) -> Result<Outcome, VerifyError> {
    let mut findings =
        Findings::of("I4", "every 201 is in MySQL, and every claim there was requested");
    let Some(history) = history else { return Ok(findings.skipped(NEEDS_HISTORY)) };
    let landed = match Landed::read(sources, history).await {
        Ok(landed) => landed,
        Err(error) => return findings.end(Err(error)),
    };
    let by_key = history.by_key();
    let mut promised = 0;
    for record in history.records.iter().filter(|record| record.is_landed()) {
        promised += 1;
        if let Some(offence) = broken_promise(record, landed.under(record.scope())) {
            findings.add(offence);
        }
    }
    // Operators request grants; no user's history contains them.
    for (template, claim) in landed.all().filter(|(_, claim)| !claim.request_id.is_grant()) {
        let key = claim.request_id.as_str();
        findings.expect(by_key.contains_key(&(template, claim.user, key)), || {
            format!("nobody asked for claim {} of user {}, key {key}", claim.id, claim.user)
        });
    }
    Ok(findings.over(format!("{}, {}", count(promised, "answer"), count(landed.count(), "claim"))))
}

fn broken_promise(record: &Record, row: Option<&LandedRow>) -> Option<String> {
    let (_, user, key) = record.scope();
    let who = format!("user {user}, key {key}");
    let Some(promise) = record.promise() else {
        return Some(format!("{who}: a 201 with an unreadable body {:?}", record.body));
    };
    let Some(row) = row else {
        return Some(format!("{who} was promised claim {}, MySQL has none", promise.claim));
    };
    let mut mine = promise.coupons;
    let mut theirs = row.coupons.clone();
    mine.sort_unstable();
    theirs.sort_unstable();
    let quantity = record.quantity as usize;
    let same = promise.claim == row.id && mine == theirs && row.quantity == record.quantity;
    if same && mine.len() == quantity {
        return None;
    }
    Some(format!(
        "{who} asked for {quantity} and was promised claim {} with {mine:?}, MySQL has claim {} with \
         {theirs:?}",
        promise.claim, row.id
    ))
}

/// I5: a key that was answered only with definite refusals, or was accepted and then refused, has no claim, and all answers
/// that promise a key's claim have the same bytes.
pub(crate) async fn refusals_left_nothing(
    sources: &Sources,
    history: Option<&History>,
) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I5", "a refusal left no row, and replays have equal bytes");
    let Some(history) = history else { return Ok(findings.skipped(NEEDS_HISTORY)) };
    let landed = match Landed::read(sources, history).await {
        Ok(landed) => landed,
        Err(error) => return findings.end(Err(error)),
    };
    let mut refused = 0;
    let mut replayed = 0;
    for ((template, user, key), records) in history.by_key() {
        let ends: Vec<_> = records.iter().filter(|record| !record.is_accepted()).collect();
        if !ends.is_empty() && ends.iter().all(|record| record.is_refused()) {
            refused += 1;
            let row = landed.under((template, user, key));
            findings.expect(row.is_none(), || {
                let code = ends[0].code.as_deref().unwrap_or("a client error");
                format!("user {user}, key {key} was only ever answered {code}, and has a claim")
            });
        }
        let mut bodies: Vec<_> =
            records.iter().filter(|record| record.is_landed()).map(|record| &record.body).collect();
        replayed += bodies.len().saturating_sub(1);
        bodies.sort_unstable();
        bodies.dedup();
        findings.expect(bodies.len() <= 1, || {
            format!("user {user}, key {key} got {} different bodies", bodies.len())
        });
    }
    Ok(findings.over(format!("{}, {}", count(refused, "refused key"), count(replayed, "replay"))))
}

/// Landed claims of the templates in a history, by template and user.
struct Landed(HashMap<(TemplateId, UserId), Vec<LandedRow>>);

impl Landed {
    async fn read(sources: &Sources, history: &History) -> Result<Self, VerifyError> {
        let mut connection = connect::acquire(&sources.pool).await?;
        let mut all: HashMap<_, Vec<_>> = HashMap::new();
        for template in history.templates() {
            for claim in verify::landed_claims(&mut connection, template).await? {
                all.entry((template, claim.user)).or_default().push(claim);
            }
        }
        Ok(Self(all))
    }

    fn under(&self, (template, user, key): Key<'_>) -> Option<&LandedRow> {
        self.0.get(&(template, user))?.iter().find(|claim| claim.request_id.as_str() == key)
    }

    fn all(&self) -> impl Iterator<Item = (TemplateId, &LandedRow)> {
        self.0.iter().flat_map(|((template, _), rows)| rows.iter().map(|row| (*template, row)))
    }

    fn count(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}
