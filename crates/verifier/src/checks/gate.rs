//! I6 and I7: the gate agrees with MySQL. A gate that is absent, behind, or from an earlier run of Redis does not
//! answer, so it cannot be wrong; but a template that can be claimed must have an open gate.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use coupon::{ClaimId, Template, TemplateState, UserId};
use mysql_store::{
    connect,
    taken_numbers::{NumberPage, NumberPages},
    verify::{self, Balance, ClaimKey, Terms},
};
use redis_gate::{Entry, Meta, ReadEntry, RequestState};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// Lapses that an entry can count.
const LAPSES_MAX: i64 = 255;

/// I6: the gate offers exactly the stock that MySQL has.
pub(crate) async fn stock_agrees(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I6", "gate stock = MySQL stock");
    let gates = open_gates(sources, &mut findings).await?;
    for (balance, meta) in &gates.open {
        findings.expect(meta.stock == balance.stock, || {
            let (template, gate, truth) = (balance.template, meta.stock, balance.stock);
            format!("template {template}: {gate} in the gate, {truth} in MySQL")
        });
    }
    Ok(findings.over(gates.counted()))
}

/// I7: every gate that claims need is open and knows its template; its users' numbers and requests are those in MySQL,
/// and nothing is in flight.
pub(crate) async fn entries_agree(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Outcome, VerifyError> {
    let mut findings =
        Findings::of("I7", "gate entries = MySQL's taken numbers, nothing in flight");
    let gates = open_gates(sources, &mut findings).await?;
    let terms = terms(sources).await?;
    if let Some(lost) = not_loaded(sources, now).await? {
        findings.add(lost);
    }
    let mut users = 0;
    for (balance, meta) in &gates.open {
        let terms = terms.iter().find(|terms| terms.template.id == balance.template);
        if let Some(terms) = terms {
            compare_terms(terms, meta, &mut findings);
        }
        let bans = terms.is_some_and(|terms| terms.template.hold.lapses_allowed > 0);
        users += Gate { sources, balance, meta, bans }.check(&mut findings).await?;
    }
    Ok(findings.over(format!("{}, {}", gates.counted(), count(users, "user"))))
}

/// Describes a template that may be claimed now but has no open gate; `None` if there is none.
pub(crate) async fn not_loaded(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Option<String>, VerifyError> {
    Ok(missing(&kept(sources).await?, now))
}

/// Describes a gate that a keeper has not finished: it is not loaded, or lacks its template's last change, which a
/// keeper brings within a second.
pub(crate) async fn unfinished(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Option<String>, VerifyError> {
    let kept = kept(sources).await?;
    Ok(missing(&kept, now).or_else(|| behind(&kept)))
}

/// A template whose gate a keeper maintains, and that gate if it is open.
type Kept = (Template, Option<Meta>);

async fn kept(sources: &Sources) -> Result<Vec<Kept>, VerifyError> {
    let mut kept = Vec::new();
    for template in terms(sources).await?.into_iter().map(|terms| terms.template) {
        if matches!(template.state, TemplateState::Published | TemplateState::Paused) {
            let meta = sources.gate.meta(template.id).await?.filter(Meta::is_open);
            kept.push((template, meta));
        }
    }
    Ok(kept)
}

fn missing(kept: &[Kept], now: DateTime<Utc>) -> Option<String> {
    let is_missing = |(template, meta): &&Kept| {
        let window = template.window;
        meta.is_none() && window.starts_at <= now && now < window.ends_at
    };
    let (template, _) = kept.iter().find(is_missing)?;
    Some(format!("template {} can be claimed, and nobody loads its gate", template.id))
}

fn behind(kept: &[Kept]) -> Option<String> {
    let is_behind = |(template, meta): &&Kept| {
        meta.as_ref().is_some_and(|meta| meta.version < template.version)
    };
    let (template, _) = kept.iter().find(is_behind)?;
    Some(format!(
        "the gate of template {} has not heard of version {}",
        template.id, template.version
    ))
}

async fn terms(sources: &Sources) -> Result<Vec<Terms>, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    Ok(verify::terms(&mut connection).await?)
}

/// Compares the gate's copy of the template with MySQL.
fn compare_terms(terms: &Terms, meta: &Meta, findings: &mut Findings) {
    let template = &terms.template;
    let window = template.window;
    let truth = (
        template.version,
        template.state.word(),
        i64::from(template.per_user_limit),
        (window.starts_at.timestamp_millis(), window.ends_at.timestamp_millis()),
    );
    let gate = (meta.version, meta.state.as_str(), meta.limit, meta.window_ms);
    findings.expect(gate == truth, || {
        let id = template.id;
        format!("template {id}: version, state, limit and window are {gate:?} in the gate, {truth:?} in MySQL")
    });
    if let Some(user) = &meta.unreadable {
        findings.add(format!("template {}: a script could not read user {user}", template.id));
    }
}

struct Gate<'a> {
    sources: &'a Sources,
    balance: &'a Balance,
    meta: &'a Meta,
    /// Whether the gate must know the users' lapses.
    bans: bool,
}

impl Gate<'_> {
    /// Checks the gate in steps, with the users of one step in memory. Returns how many users it has.
    async fn check(&self, findings: &mut Findings) -> Result<usize, VerifyError> {
        let (template, epoch, gate) = (self.balance.template, self.meta.epoch, &self.sources.gate);
        let in_flight = gate.in_flight_count(template, epoch).await?;
        findings.expect(in_flight == 0, || {
            format!("template {template}: {in_flight} claims in flight")
        });
        let there = gate.user_count(template, epoch).await?;
        findings.expect(there == self.meta.users, || {
            let known = self.meta.users;
            format!("template {template}: {there} entries, the gate counts {known}")
        });
        let (mut cursor, mut seen) = (0, 0);
        loop {
            let (next, entries) = gate.entries_from(template, epoch, cursor).await?;
            seen += entries.len();
            self.sources
                .progress
                .say(|| format!("I7: template {template}, {seen} of {there} users"));
            self.compare(entries, findings).await?;
            cursor = next;
            if next == 0 {
                break;
            }
        }
        if self.balance.limit > 0 {
            self.look_for_missing(findings).await?;
        }
        if self.bans {
            self.look_for_lapsed(findings).await?;
        }
        Ok(usize::try_from(there).unwrap_or(usize::MAX))
    }

    /// Compares entries with the users' numbers and claims in MySQL.
    async fn compare(
        &self,
        entries: Vec<ReadEntry>,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        let template = self.balance.template;
        let mut read: Vec<(UserId, Entry)> = Vec::new();
        for (field, entry) in entries {
            match entry {
                Some(entry) => read.push(entry),
                None => findings.add(format!(
                    "template {template}: the entry of user {field:?} cannot be read"
                )),
            }
        }
        let mut connection = connect::acquire(&self.sources.pool).await?;
        let requests = read.iter().flat_map(|(_, entry)| &entry.requests);
        let ids: Vec<ClaimId> = requests.map(|request| request.id).collect();
        let claims = verify::claims_by_id(&mut connection, template, &ids).await?;
        for (user, entry) in &read {
            compare_requests(*user, entry, &claims, findings);
        }
        if self.balance.limit > 0 {
            let users: Vec<UserId> = read.iter().map(|(user, _)| *user).collect();
            let numbers = verify::numbers_of_users(&mut connection, template, &users).await?;
            for (user, entry) in &read {
                let truth = numbers.get(user).map_or(&[][..], Vec::as_slice);
                let taken: Vec<i64> = entry.taken.iter().copied().map(i64::from).collect();
                findings.expect(truth == taken, || {
                    format!("user {user} holds numbers {truth:?} in MySQL, {taken:?} in the gate")
                });
            }
        }
        if self.bans {
            let users: Vec<UserId> = read.iter().map(|(user, _)| *user).collect();
            let lapses = verify::lapses_of_users(&mut connection, template, &users).await?;
            for (user, entry) in &read {
                let truth = lapses.get(user).copied().unwrap_or_default();
                let gate = i64::from(entry.lapses);
                findings.expect(gate == truth.min(LAPSES_MAX), || {
                    format!("user {user} let {truth} holds lapse in MySQL, {gate} in the gate")
                });
            }
        }
        Ok(())
    }

    /// Finds users without an entry who let holds lapse.
    async fn look_for_lapsed(&self, findings: &mut Findings) -> Result<(), VerifyError> {
        let (template, epoch) = (self.balance.template, self.meta.epoch);
        let mut connection = connect::acquire(&self.sources.pool).await?;
        let mut after = -1;
        loop {
            let rows = verify::lapses_of_template_after(&mut connection, template, after).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.user.0;
            let users: Vec<UserId> =
                rows.iter().filter(|row| row.count > 0).map(|row| row.user).collect();
            for user in self.sources.gate.without_entry(template, epoch, &users).await? {
                findings.add(format!("user {user} let holds lapse, and has no entry in the gate"));
            }
        }
    }

    /// Finds users without an entry who have coupons, returned or not: their old keys would be admitted again, or
    /// refused for good.
    async fn look_for_missing(&self, findings: &mut Findings) -> Result<(), VerifyError> {
        let (template, epoch) = (self.balance.template, self.meta.epoch);
        let mut connection = connect::acquire(&self.sources.pool).await?;
        let mut pages = NumberPages::of(template);
        while let Some(NumberPage { taken, returned }) = pages.next(&mut connection).await? {
            let users: Vec<UserId> = taken.iter().map(|(user, _)| *user).collect();
            for user in self.sources.gate.without_entry(template, epoch, &users).await? {
                let numbers = taken.iter().find(|(other, _)| *other == user);
                let numbers = numbers.map_or(&[][..], |(_, numbers)| numbers.as_slice());
                findings
                    .add(format!("user {user} holds numbers {numbers:?} in MySQL, [] in the gate"));
            }
            for user in self.sources.gate.without_entry(template, epoch, &returned).await? {
                findings
                    .add(format!("user {user} gave coupons back, and has no entry in the gate"));
            }
        }
        Ok(())
    }
}

/// Checks that each request in the gate has landed, with the same content and for this user.
fn compare_requests(
    user: UserId,
    entry: &Entry,
    claims: &HashMap<ClaimId, ClaimKey>,
    findings: &mut Findings,
) {
    for request in &entry.requests {
        let id = request.id;
        let Some(claim) = claims.get(&id) else {
            let state = request.state;
            findings.add(format!(
                "user {user}: claim {id} is {state:?} in the gate and not landed in MySQL"
            ));
            continue;
        };
        findings.expect(request.state == RequestState::Landed, || {
            format!(
                "user {user}: claim {id} is {:?} in the gate and landed in MySQL",
                request.state
            )
        });
        findings.expect(claim.user == user, || {
            format!("the gate has claim {id} of user {} under user {user}", claim.user)
        });
        let same = request.key == claim.request_id.digest()
            && request.payload_hash == claim.payload_hash
            && u32::from(request.quantity) == claim.quantity;
        findings.expect(same, || {
            format!("user {user}: key, payload or quantity of claim {id} differ in the gate")
        });
    }
}

/// The open gates, each with its template's balance.
struct Gates {
    open: Vec<(Balance, Meta)>,
    closed: usize,
}

impl Gates {
    fn counted(&self) -> String {
        format!("{} open, {} not loaded", count(self.open.len(), "gate"), self.closed)
    }
}

async fn open_gates(sources: &Sources, findings: &mut Findings) -> Result<Gates, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let mut gates = Gates { open: Vec::new(), closed: 0 };
    for balance in verify::balances(&mut connection).await? {
        let meta = sources.gate.meta(balance.template).await?;
        match meta.filter(Meta::is_open) {
            Some(meta) if meta.epoch == balance.epoch => gates.open.push((balance, meta)),
            Some(meta) if meta.epoch > balance.epoch => {
                let (template, gate, truth) = (balance.template, meta.epoch, balance.epoch);
                findings.add(format!("template {template}: epoch {gate}, MySQL knows {truth}"));
            }
            Some(_) | None => gates.closed += 1,
        }
    }
    Ok(gates)
}
