//! I6 and I7: the gate holds what MySQL holds. A gate that is absent, behind or of an earlier run of
//! Redis answers nobody, so it cannot be wrong; it is only counted.

use std::collections::{HashMap, HashSet};

use coupon::{ClaimId, UserId};
use mysql_store::{
    connect, stock,
    verify::{self, Balance},
};
use redis_gate::{Entry, Meta, RequestState};

use crate::{
    Outcome, Sources, VerifyError,
    outcome::{Findings, count},
};

/// I6: nothing is promised that is not there, and nothing is there that cannot be had.
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

/// I7: every user's numbers in the gate are those in MySQL, and nothing is in flight.
pub(crate) async fn entries_agree(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings =
        Findings::of("I7", "gate entries = MySQL's taken numbers, nothing in flight");
    let gates = open_gates(sources, &mut findings).await?;
    let mut users = 0;
    for (balance, meta) in &gates.open {
        users += check_gate(sources, balance, meta, &mut findings).await?;
    }
    Ok(findings.over(format!("{}, {}", gates.counted(), count(users, "user"))))
}

/// Checks one gate and answers how many users it knows.
async fn check_gate(
    sources: &Sources,
    balance: &Balance,
    meta: &Meta,
    findings: &mut Findings,
) -> Result<usize, VerifyError> {
    let template = balance.template;
    let in_flight = sources.gate.in_flight_count(template, meta.epoch).await?;
    findings
        .expect(in_flight == 0, || format!("template {template}: {in_flight} claims in flight"));
    let entries = sources.gate.entries(template, meta.epoch).await?;
    findings.expect(entries.len() as u64 == meta.users, || {
        let (there, known) = (entries.len(), meta.users);
        format!("template {template}: {there} entries, the gate counts {known}")
    });
    if balance.limit > 0 {
        compare_numbers(sources, balance, &entries, findings).await?;
    }
    let mut connection = connect::acquire(&sources.pool).await?;
    let landed = verify::landed_claims(&mut connection, template).await?;
    let landed: HashSet<ClaimId> = landed.into_iter().map(|claim| claim.id).collect();
    for (user, entry) in &entries {
        for request in &entry.requests {
            let right = request.state == RequestState::Landed && landed.contains(&request.id);
            findings.expect(right, || {
                let (state, id) = (request.state, request.id);
                let truth = if landed.contains(&id) { "landed" } else { "not landed" };
                format!("user {user}: claim {id} is {state:?} in the gate and {truth} in MySQL")
            });
        }
    }
    Ok(entries.len())
}

async fn compare_numbers(
    sources: &Sources,
    balance: &Balance,
    entries: &HashMap<UserId, Entry>,
    findings: &mut Findings,
) -> Result<(), VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let mut truth: HashMap<UserId, Vec<u8>> = HashMap::new();
    let mut after = UserId(-1);
    loop {
        let chunk = stock::taken_numbers_after(&mut connection, balance.template, after).await?;
        let Some((last, _)) = chunk.last() else { break };
        after = *last;
        truth.extend(chunk);
    }
    let users: HashSet<&UserId> = truth.keys().chain(entries.keys()).collect();
    for user in users {
        let theirs = truth.get(user).map_or(&[][..], Vec::as_slice);
        let gates = entries.get(user).map_or(&[][..], |entry| entry.taken.as_slice());
        findings.expect(theirs == gates, || {
            format!("user {user} holds numbers {theirs:?} in MySQL, {gates:?} in the gate")
        });
    }
    Ok(())
}

/// The gates that answer claims, each with its template's account.
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
