//! A user's entry at the gate, and a gate's stock, beside MySQL. Each takes what was read: at rest one read of the gate
//! serves as both of a look's; while a shop sells, the order of the reads decides
//! (`docs/decisions/0114-the-reconciler-looks-by-the-order-of-reading.md`).

use std::collections::{BTreeSet, HashMap};

use coupon::{ClaimId, Epoch, FindingKind, TemplateId, UserId};
use mysql_store::verify::ClaimKey;
use redis_gate::{Entry, Request, RequestState};

use crate::finding::{About, Finding};

/// One user's numbers of a template, as a look has read them: the gate, MySQL, the gate again.
#[derive(Debug, Clone, Copy)]
pub struct NumbersLook<'a> {
    pub template: TemplateId,
    pub epoch: Epoch,
    pub user: UserId,
    /// The numbers that the gate called taken first.
    pub before: &'a [i64],
    /// Those of requests that could still land then.
    pub pending: &'a [i64],
    /// The numbers in MySQL, ascending.
    pub truth: &'a [i64],
    /// What came back after the gate's first state and up to MySQL's.
    pub returned_before: &'a [i64],
    /// The numbers that the gate called taken last.
    pub again: &'a [i64],
    /// What came back after MySQL's state and up to the gate's last.
    pub returned_after: &'a [i64],
}

impl<'a> NumbersLook<'a> {
    /// A look at rest: nothing is pending, and nothing comes back.
    pub(crate) fn at_rest(
        template: TemplateId,
        epoch: Epoch,
        user: UserId,
        truth: &'a [i64],
        taken: &'a [i64],
    ) -> Self {
        Self {
            template,
            epoch,
            user,
            before: taken,
            pending: &[],
            truth,
            returned_before: &[],
            again: taken,
            returned_after: &[],
        }
    }
}

/// Compares a user's numbers: the gate must lack none, and have none that nobody holds. An entry has each once, ascending.
pub fn numbers(look: &NumbersLook<'_>) -> Option<Finding> {
    let NumbersLook { truth, before, again, .. } = *look;
    let without = |all: &[i64], others: [&[i64]; 3]| {
        let is_other = |number: &i64| others.iter().any(|other| other.contains(number));
        all.iter().filter(|number| !is_other(number)).count()
    };
    let missing = without(truth, [again, look.returned_after, &[]]);
    let leaked = without(before, [look.pending, truth, look.returned_before]);
    let in_order = before.is_sorted_by(|one, next| one < next);
    if missing == 0 && leaked == 0 && in_order {
        return None;
    }
    let kind = if missing > 0 { FindingKind::NumberMissing } else { FindingKind::NumberLeaked };
    let seen = if missing > 0 { again } else { before };
    let user = look.user;
    let line = format!("user {user} holds numbers {truth:?} in MySQL, {seen:?} in the gate");
    let found = Finding::of(kind, look.template, line)
        .about(About::User(user))
        .at_epoch(look.epoch)
        .that(format_args!("{truth:?}"), format_args!("{seen:?}"))
        .of_coupons(i64::try_from(missing.max(leaked)).unwrap_or(i64::MAX));
    Some(found)
}

/// Compares the stock that a gate at rest offers with MySQL's.
pub fn stock(template: TemplateId, epoch: Epoch, gate: i64, truth: i64) -> Option<Finding> {
    (gate != truth).then(|| {
        let line = format!("template {template}: {gate} in the gate, {truth} in MySQL");
        Finding::of(FindingKind::GateStock, template, line)
            .at_epoch(epoch)
            .that(truth, gate)
            .of_coupons(gate.saturating_sub(truth))
    })
}

/// Compares the requests that a gate at rest remembers of a user with the claims that landed.
pub fn requests(
    template: TemplateId,
    epoch: Epoch,
    user: UserId,
    entry: &Entry,
    claims: &HashMap<ClaimId, ClaimKey>,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for request in &entry.requests {
        let id = request.id;
        let mut expect = |right: bool, line: &dyn Fn() -> String| {
            if !right {
                let finding = Finding::of(FindingKind::Request, template, line());
                found.push(finding.about(About::Claim(id)).at_epoch(epoch));
            }
        };
        let state = request.state;
        let Some(claim) = claims.get(&id) else {
            expect(false, &|| {
                format!("user {user}: claim {id} is {state:?} in the gate and not landed in MySQL")
            });
            continue;
        };
        expect(state == RequestState::Landed, &|| {
            format!("user {user}: claim {id} is {state:?} in the gate and landed in MySQL")
        });
        expect(claim.user == user, &|| {
            format!("the gate has claim {id} of user {} under user {user}", claim.user)
        });
        let same = request.key == claim.request_id.digest()
            && request.payload_hash == claim.payload_hash
            && u32::from(request.quantity) == claim.quantity;
        expect(same, &|| {
            format!("user {user}: key, payload or quantity of claim {id} differ in the gate")
        });
        expect(has_its_numbers(request), &|| {
            let numbers = &request.numbers;
            format!("user {user}: claim {id} has the numbers {numbers:?} in the gate")
        });
    }
    found
}

/// Whether a request has as many different numbers as it is for, or none, as where there is no limit.
fn has_its_numbers(request: &Request) -> bool {
    let numbers: BTreeSet<u8> = request.numbers.iter().copied().collect();
    let fits = numbers.len() == request.numbers.len() && !numbers.contains(&0);
    fits && (numbers.is_empty() || numbers.len() == usize::from(request.quantity))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look<'a>(before: &'a [i64], truth: &'a [i64], again: &'a [i64]) -> NumbersLook<'a> {
        let rest = NumbersLook::at_rest(TemplateId(7), Epoch(2), UserId(1), truth, before);
        NumbersLook { again, ..rest }
    }

    fn kind(look: &NumbersLook<'_>) -> Option<FindingKind> {
        numbers(look).map(|found| found.kind)
    }

    #[test]
    fn what_lands_or_comes_back_between_the_reads_is_no_finding() {
        assert_eq!(kind(&look(&[1], &[1], &[1])), None);
        assert_eq!(kind(&look(&[], &[1], &[1])), None, "admitted and landed after the first read");
        assert_eq!(kind(&NumbersLook { pending: &[1], ..look(&[1], &[], &[]) }), None);
        assert_eq!(kind(&NumbersLook { returned_before: &[1], ..look(&[1], &[], &[]) }), None);
        assert_eq!(kind(&NumbersLook { returned_after: &[1], ..look(&[1], &[1], &[]) }), None);
    }

    #[test]
    fn a_number_that_nobody_holds_is_leaked_and_one_that_the_gate_lacks_is_missing() {
        assert_eq!(kind(&look(&[1], &[], &[1])), Some(FindingKind::NumberLeaked));
        assert_eq!(kind(&look(&[1], &[1], &[])), Some(FindingKind::NumberMissing));
        assert_eq!(kind(&look(&[1, 1], &[1], &[1])), Some(FindingKind::NumberLeaked));
        let found = numbers(&look(&[], &[1, 2], &[2])).unwrap();
        assert_eq!(found.line, "user 1 holds numbers [1, 2] in MySQL, [2] in the gate");
        assert_eq!((found.expected.as_str(), found.seen.as_str()), ("[1, 2]", "[2]"));
        assert_eq!(found.coupons, 1);
    }
}
