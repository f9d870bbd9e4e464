//! I6 and I7: the gate agrees with MySQL. A gate that is absent, behind, or from an earlier run of Redis does not
//! answer, so it cannot be wrong; but a template that can be claimed must have an open gate.

use chrono::{DateTime, Utc};
use coupon::{ClaimId, UserId};
use mysql_store::{
    connect,
    taken_numbers::{NumberPage, NumberPages},
    verify::{self, Balance, Terms},
};
use redis_gate::{Entry, Meta, ReadEntry};

use crate::{
    Outcome, Sources, VerifyError,
    checks::{
        entries::{self, NumbersLook},
        gates::{self, Gates},
    },
    outcome::{Findings, count},
};

/// Lapses that an entry can count.
const LAPSES_MAX: i64 = 255;

/// I6: the gate offers exactly the stock that MySQL has.
pub(crate) async fn stock_agrees(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I6", "gate stock = MySQL stock");
    let gates = match Gates::read(sources, &mut findings).await {
        Ok(gates) => gates,
        Err(error) => return findings.end(Err(error)),
    };
    for (balance, meta) in &gates.open {
        let Balance { template, stock, .. } = *balance;
        findings.report(entries::stock(template, meta.epoch, meta.stock, stock));
    }
    findings.end(Ok(gates.counted()))
}

/// I7: every gate that claims need is open and knows its template; its users' numbers and requests are those in MySQL,
/// nothing is in flight, and none of its keys ends by itself.
pub(crate) async fn entries_agree(
    sources: &Sources,
    now: DateTime<Utc>,
) -> Result<Outcome, VerifyError> {
    let mut findings =
        Findings::of("I7", "gate entries = MySQL's taken numbers, nothing in flight");
    let looked = look(sources, now, &mut findings).await;
    findings.end(looked)
}

async fn look(
    sources: &Sources,
    now: DateTime<Utc>,
    findings: &mut Findings,
) -> Result<String, VerifyError> {
    let gates = Gates::read(sources, findings).await?;
    let terms = findings.read(gates::terms(sources).await)?;
    gates::are_loaded(sources, now, findings).await?;
    for fault in sources.gate.key_faults(&gates.epochs).await? {
        findings.add(format!("template {}: {}", fault.template, fault.what));
    }
    let mut users = 0;
    for (balance, meta) in &gates.open {
        let terms = terms.iter().find(|terms| terms.template.id == balance.template);
        if let Some(terms) = terms {
            compare_terms(terms, meta, findings);
        }
        let bans = terms.is_some_and(|terms| terms.template.hold.lapses_allowed > 0);
        users += Gate { sources, balance, meta, bans }.check(findings).await?;
    }
    Ok(format!("{}, {}", gates.counted(), count(users, "user")))
}

/// Compares the gate's copy of the template with MySQL.
fn compare_terms(terms: &Terms, meta: &Meta, findings: &mut Findings) {
    let template = &terms.template;
    let id = terms.template.id;
    let window = template.window;
    let (starts, ends) = meta.window_ms;
    let facts = [
        ("version", meta.version, template.version),
        ("limit", meta.limit, template.per_user_limit.into()),
        ("starts", starts, window.starts_at.timestamp_millis()),
        ("ends", ends, window.ends_at.timestamp_millis()),
        ("lapses_allowed", meta.lapses_allowed, template.hold.lapses_allowed.into()),
        ("movement", meta.movement, terms.movement),
    ];
    for (fact, gate, truth) in facts {
        findings.expect(gate == truth, || {
            format!("template {id}: {fact} is {gate} in the gate, {truth} in MySQL")
        });
    }
    let words = [
        ("state", meta.state.as_str(), template.state.word()),
        ("mode", meta.mode.word(), template.claim_mode.word()),
    ];
    for (fact, gate, truth) in words {
        findings.expect(gate == truth, || {
            format!("template {id}: {fact} is {gate} in the gate, {truth} in MySQL")
        });
    }
    if let Some(user) = &meta.unreadable {
        findings.add(format!("template {id}: a script could not read user {user}"));
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
    /// Checks the gate in steps, with the users of one step in memory. Returns how many users it has. A key that cannot
    /// be read does not keep the others from being compared.
    async fn check(&self, findings: &mut Findings) -> Result<usize, VerifyError> {
        let template = self.balance.template;
        let epoch = self.meta.epoch;
        let gate = &self.sources.gate;
        let in_flight = gate.in_flight_count(template, epoch).await;
        let in_flight = gates::readable(template, in_flight, findings)?.unwrap_or(0);
        findings.expect(in_flight == 0, || {
            format!("template {template}: {in_flight} claims in flight")
        });
        let there = gate.user_count(template, epoch).await;
        let Some(there) = gates::readable(template, there, findings)? else { return Ok(0) };
        findings.expect(there == self.meta.users, || {
            let known = self.meta.users;
            format!("template {template}: {there} entries, the gate counts {known}")
        });
        let entries = self.compare_entries(there, findings).await;
        gates::readable(template, entries, findings)?;
        Ok(usize::try_from(there).unwrap_or(usize::MAX))
    }

    /// Compares all entries with MySQL, and looks for users without one.
    async fn compare_entries(
        &self,
        there: u64,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        let template = self.balance.template;
        let epoch = self.meta.epoch;
        let gate = &self.sources.gate;
        let mut cursor = 0;
        let mut seen = 0;
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
        Ok(())
    }

    /// Compares entries with the users' numbers and claims in MySQL.
    async fn compare(
        &self,
        entries: Vec<ReadEntry>,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        let template = self.balance.template;
        let epoch = self.meta.epoch;
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
            findings.report(entries::requests(template, epoch, *user, entry, &claims));
        }
        if self.balance.limit > 0 {
            let users: Vec<UserId> = read.iter().map(|(user, _)| *user).collect();
            let numbers = verify::numbers_of_users(&mut connection, template, &users).await?;
            for (user, entry) in &read {
                let truth = numbers.get(user).map_or(&[][..], Vec::as_slice);
                let taken: Vec<i64> = entry.taken.iter().copied().map(i64::from).collect();
                let look = NumbersLook::at_rest(template, epoch, *user, truth, &taken);
                findings.report(entries::numbers(&look));
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
        let template = self.balance.template;
        let epoch = self.meta.epoch;
        let mut connection = connect::acquire(&self.sources.pool).await?;
        let mut from = Some(i64::MIN);
        while let Some(user) = from {
            let rows = verify::lapses_of_template_from(&mut connection, template, user).await?;
            let Some(last) = rows.last() else { break };
            from = last.user.0.checked_add(1);
            let users: Vec<UserId> =
                rows.iter().filter(|row| row.count > 0).map(|row| row.user).collect();
            for user in self.sources.gate.without_entry(template, epoch, &users).await? {
                findings.add(format!("user {user} let holds lapse, and has no entry in the gate"));
            }
        }
        Ok(())
    }

    /// Finds users without an entry who have coupons, returned or not: their old keys would be admitted again, or
    /// refused for good.
    async fn look_for_missing(&self, findings: &mut Findings) -> Result<(), VerifyError> {
        let template = self.balance.template;
        let epoch = self.meta.epoch;
        let mut connection = connect::acquire(&self.sources.pool).await?;
        let mut pages = NumberPages::of(template);
        while let Some(NumberPage { taken, returned }) = pages.next(&mut connection).await? {
            let users: Vec<UserId> = taken.iter().map(|(user, _)| *user).collect();
            for user in self.sources.gate.without_entry(template, epoch, &users).await? {
                let numbers = taken.iter().find(|(other, _)| *other == user);
                let numbers = numbers.map_or(&[][..], |(_, numbers)| numbers.as_slice());
                let numbers: Vec<i64> = numbers.iter().copied().map(i64::from).collect();
                let look = NumbersLook::at_rest(template, epoch, user, &numbers, &[]);
                findings.report(entries::numbers(&look));
            }
            for user in self.sources.gate.without_entry(template, epoch, &returned).await? {
                findings
                    .add(format!("user {user} gave coupons back, and has no entry in the gate"));
            }
        }
        Ok(())
    }
}
