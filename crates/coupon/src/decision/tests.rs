//! The table row by row, and compared with the wording of the model, `Protocol::decide` in crates/model.

use chrono::DateTime;
use proptest::{collection::btree_set, option, prelude::*, sample::select};

use super::*;
use crate::{Claim, PayloadHash, RequestId, TemplateId, UserId};

const ID: i64 = 7;
const EPOCH: i64 = 3;

fn admission(numbers: &[u8]) -> Admission {
    let quantity = u32::try_from(numbers.len()).unwrap();
    let claim = Claim {
        id: ClaimId(ID),
        template_id: TemplateId(1),
        user_id: UserId(2),
        request_id: RequestId::from_client("k").unwrap(),
        payload_hash: PayloadHash::of_quantity(quantity),
        quantity,
        claimed_at: DateTime::UNIX_EPOCH,
        trace_parent: None,
    };
    Admission { claim, epoch: Epoch(EPOCH), numbers: numbers.to_vec() }
}

fn decide_queued(admission: &Admission, found: &FoundRows) -> Decision {
    decide(LandingMode::Queued, admission, found)
}

fn row(id: i64, state: ClaimState) -> Option<ClaimRow> {
    Some(ClaimRow { id: ClaimId(id), state })
}

/// The other mode's epoch is one at which nothing lands.
fn stock(epoch: i64, open: Open, stock: i64) -> Option<StockRow> {
    Some(StockRow { epoch: Epoch(EPOCH - 2), queued_epoch: Epoch(epoch), open, stock })
}

fn direct_stock(epoch: i64, open: Open, stock: i64) -> Option<StockRow> {
    Some(StockRow { epoch: Epoch(epoch), queued_epoch: Epoch(EPOCH + 2), open, stock })
}

/// Everything that can be in the way, except a row under the key.
fn all_wrong() -> FoundRows {
    FoundRows {
        by_key: None,
        fenced: true,
        taken: vec![1, 2, 3, 4],
        limit: 5,
        stock: stock(EPOCH + 1, Open::Nothing, 0),
        template_state: TemplateState::Ended,
    }
}

#[test]
fn the_first_rule_that_fits_decides_about_a_queued_claim() {
    use Decision::{
        Elsewhere, Fenced, Landed, NotOpen, NumberTaken, Rejected, Retry, Short, StaleEpoch,
    };
    let unfenced = FoundRows { fenced: false, ..all_wrong() };
    let current = FoundRows { stock: stock(EPOCH, Open::Nothing, 0), ..unfenced.clone() };
    let free = FoundRows { taken: vec![3], ..current.clone() };
    let paused = FoundRows { template_state: TemplateState::Paused, ..free.clone() };
    let accepted = |left| FoundRows { stock: stock(EPOCH, Open::Accepted, left), ..free.clone() };
    let open = |left| FoundRows { stock: stock(EPOCH, Open::All, left), ..free.clone() };
    let under_key = |id, state| FoundRows { by_key: row(id, state), ..all_wrong() };
    let cases = [
        (under_key(ID, ClaimState::Landed), Landed),
        (under_key(ID + 1, ClaimState::Landed), Elsewhere),
        (under_key(ID, ClaimState::Rejected), Rejected),
        (under_key(ID + 1, ClaimState::Rejected), Elsewhere),
        (all_wrong(), Fenced),
        (unfenced.clone(), StaleEpoch { now: Epoch(EPOCH + 1) }),
        (
            FoundRows { stock: stock(EPOCH - 1, Open::All, 9), ..unfenced.clone() },
            NumberTaken { free: None },
        ),
        (FoundRows { stock: None, ..unfenced }, StaleEpoch { now: Epoch::UNKNOWN }),
        (current.clone(), NumberTaken { free: None }),
        (FoundRows { taken: vec![2, 4], ..current }, NumberTaken { free: Some(vec![1, 3]) }),
        (free.clone(), NotOpen(RejectReason::Ended)),
        (paused, NotOpen(RejectReason::Paused)),
        (accepted(1), Short { left: 1 }),
        (open(0), Short { left: 0 }),
        (accepted(2), Retry),
        (open(2), Retry),
    ];
    for (found, decision) in cases {
        assert_eq!(decide_queued(&admission(&[1, 2]), &found), decision, "{found:?}");
    }
}

#[test]
fn the_first_rule_that_fits_decides_about_a_direct_claim() {
    let all_wrong = FoundRows { stock: direct_stock(EPOCH + 1, Open::Accepted, 0), ..all_wrong() };
    let under_key = |id, state| FoundRows { by_key: row(id, state), ..all_wrong.clone() };
    let unfenced = FoundRows { fenced: false, ..all_wrong.clone() };
    let current =
        |open, left| FoundRows { stock: direct_stock(EPOCH, open, left), ..unfenced.clone() };
    let free = |open, left| FoundRows { taken: vec![3], ..current(open, left) };
    let earlier = FoundRows { stock: direct_stock(EPOCH - 1, Open::All, 9), ..unfenced.clone() };
    let cases = [
        (under_key(ID, ClaimState::Landed), Decision::Landed),
        (under_key(ID + 1, ClaimState::Landed), Decision::Elsewhere),
        (under_key(ID, ClaimState::Rejected), Decision::Rejected),
        (under_key(ID + 1, ClaimState::Rejected), Decision::Elsewhere),
        (all_wrong, Decision::Fenced),
        (unfenced.clone(), Decision::StaleEpoch { now: Epoch(EPOCH + 1) }),
        (earlier, Decision::StaleEpoch { now: Epoch(EPOCH - 1) }),
        (current(Open::Accepted, 0), Decision::NumberTaken { free: None }),
        (free(Open::Accepted, 0), Decision::NotOpen(RejectReason::Ended)),
        (free(Open::All, 1), Decision::Short { left: 1 }),
        (free(Open::All, 2), Decision::Retry),
        (FoundRows { stock: None, ..unfenced }, Decision::NotOpen(RejectReason::Ended)),
    ];
    for (found, decision) in cases {
        assert_eq!(decide(LandingMode::Direct, &admission(&[1, 2]), &found), decision, "{found:?}");
    }
}

#[test]
fn a_template_without_a_limit_has_no_numbers_to_take() {
    let mut unlimited = admission(&[1]);
    unlimited.numbers.clear();
    let found = FoundRows {
        fenced: false,
        taken: Vec::new(),
        limit: 0,
        stock: stock(EPOCH, Open::All, 1),
        ..all_wrong()
    };
    assert_eq!(decide_queued(&unlimited, &found), Decision::Retry);
}

#[test]
fn only_what_is_decided_for_good_has_a_reason() {
    let reasons = [
        (Decision::NumberTaken { free: None }, RejectReason::LimitReached),
        (Decision::NotOpen(RejectReason::Ended), RejectReason::Ended),
        (Decision::Short { left: 0 }, RejectReason::SoldOut),
        (Decision::Short { left: 1 }, RejectReason::InsufficientStock),
    ];
    for (decision, reason) in reasons {
        assert_eq!(decision.reject_reason(), Some(reason));
        assert!(decision.is_unanswered());
    }
    let free = Decision::NumberTaken { free: Some(vec![2]) };
    for decision in [free, Decision::Retry] {
        assert_eq!(decision.reject_reason(), None);
        assert!(decision.is_unanswered());
    }
    let too_late = Decision::StaleEpoch { now: Epoch(4) };
    for decision in [Decision::Landed, Decision::Fenced, too_late] {
        assert_eq!(decision.reject_reason(), None);
        assert!(!decision.is_unanswered());
    }
}

/// The model's decisions. It has one coupon for each claim.
#[derive(Debug, PartialEq, Eq)]
enum Wording {
    Landed,
    Rejected,
    Elsewhere,
    Fenced,
    Stale,
    NumberTaken(Option<u8>),
    NotOpen,
    Short,
    Retry,
}

/// `Protocol::decide` of crates/model, with `queued` true.
fn in_the_words_of_the_model(number: u8, found: &FoundRows) -> Wording {
    let answered = found.by_key.filter(|row| row.state != ClaimState::Void);
    match answered {
        Some(row) if row.state == ClaimState::Landed && row.id.0 == ID => return Wording::Landed,
        Some(row) if row.state == ClaimState::Landed => return Wording::Elsewhere,
        Some(row) if row.id.0 == ID => return Wording::Rejected,
        Some(_) => return Wording::Elsewhere,
        None => {}
    }
    if found.fenced {
        return Wording::Fenced;
    }
    let stock = found.stock.unwrap();
    if stock.queued_epoch.0 > EPOCH {
        return Wording::Stale;
    }
    let limit = u8::try_from(found.limit).unwrap();
    if found.taken.contains(&number) || number > limit {
        let free = (1..=limit).find(|number| !found.taken.contains(number));
        return Wording::NumberTaken(free);
    }
    if stock.open < Open::Accepted {
        Wording::NotOpen
    } else if stock.stock < 1 {
        Wording::Short
    } else {
        Wording::Retry
    }
}

fn found() -> impl Strategy<Value = FoundRows> {
    let states = select(vec![ClaimState::Landed, ClaimState::Void, ClaimState::Rejected]);
    let by_key = option::of((ID..ID + 2, states));
    let opens = select(vec![Open::Nothing, Open::Accepted, Open::All]);
    let template =
        select(vec![TemplateState::Published, TemplateState::Paused, TemplateState::Ended]);
    let taken = btree_set(1..=4_u8, 0..=4);
    let stocks = (EPOCH - 1..EPOCH + 2, opens, -1..3_i64);
    (by_key, any::<bool>(), taken, 1..=4_u32, stocks, template).prop_map(
        |(by_key, fenced, taken, limit, (epoch, open, left), template_state)| FoundRows {
            by_key: by_key.and_then(|(id, state)| row(id, state)),
            fenced,
            taken: taken.into_iter().collect(),
            limit,
            stock: stock(epoch, open, left),
            template_state,
        },
    )
}

proptest! {
    #[test]
    fn one_coupon_is_decided_in_the_words_of_the_model(number in 1..=4_u8, found in found()) {
        let decided = match decide_queued(&admission(&[number]), &found) {
            Decision::Landed => Wording::Landed,
            Decision::Rejected => Wording::Rejected,
            Decision::Elsewhere => Wording::Elsewhere,
            Decision::Fenced => Wording::Fenced,
            Decision::StaleEpoch { .. } => Wording::Stale,
            Decision::NumberTaken { free } => {
                Wording::NumberTaken(free.map(|numbers| numbers[0]))
            }
            Decision::NotOpen(_) => Wording::NotOpen,
            Decision::Short { .. } => Wording::Short,
            Decision::Retry => Wording::Retry,
        };
        prop_assert_eq!(decided, in_the_words_of_the_model(number, &found));
    }

    #[test]
    fn other_numbers_are_free_distinct_and_as_many_as_were_asked_for(
        numbers in btree_set(1..=6_u8, 1..=4),
        found in found(),
    ) {
        let numbers: Vec<u8> = numbers.into_iter().collect();
        let found = FoundRows { limit: 6, ..found };
        let admission = admission(&numbers);
        let decision = decide_queued(&admission, &found);
        if let Decision::NumberTaken { free: Some(free) } = decision {
            prop_assert_eq!(free.len(), numbers.len());
            prop_assert!(free.is_sorted_by(|one, next| one < next));
            prop_assert!(free.iter().all(|number| !found.taken.contains(number)));
            let mut again = admission.clone();
            again.numbers = free;
            let again = decide_queued(&again, &found);
            // Its own variable: the macro would read braces in a condition as a format's.
            let still_taken = matches!(again, Decision::NumberTaken { .. });
            prop_assert!(!still_taken);
        }
    }
}
