//! The table row by row, and compared with the wording of the model, `Protocol::decide` in crates/model.

use chrono::DateTime;
use proptest::{collection::btree_set, option, prelude::*, sample::select};

use super::*;
use crate::{AcceptAfter, Admission, Claim, ClaimId, PayloadHash, RequestId, TemplateId, UserId};

const ID: i64 = 7;
const EPOCH: i64 = 3;

fn claim(numbers: &[u8]) -> QueuedClaim {
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
    QueuedClaim {
        admission: Admission { claim, epoch: Epoch(EPOCH), numbers: numbers.to_vec() },
        accept_after: AcceptAfter::Topic,
        admitted_at: DateTime::UNIX_EPOCH,
        left_after: Some(8),
    }
}

fn row(id: i64, state: ClaimState) -> Option<ClaimRow> {
    Some(ClaimRow { id: ClaimId(id), state })
}

fn stock(epoch: i64, open: Open, stock: i64) -> Option<QueuedStock> {
    Some(QueuedStock { queued_epoch: Epoch(epoch), open, stock })
}

/// Everything that can be in the way, except a row under the key.
fn all_wrong() -> QueuedRows {
    QueuedRows {
        by_key: None,
        fenced: true,
        taken: vec![1, 2, 3, 4],
        limit: 5,
        stock: stock(EPOCH + 1, Open::Nothing, 0),
        template_state: TemplateState::Ended,
    }
}

#[test]
fn the_first_rule_that_fits_decides_in_the_order_of_the_table() {
    use QueuedDecision::{
        Elsewhere, Fenced, Landed, NotOpen, NumberTaken, Rejected, Retry, Short, TooLate,
    };
    let unfenced = QueuedRows { fenced: false, ..all_wrong() };
    let current = QueuedRows { stock: stock(EPOCH, Open::Nothing, 0), ..unfenced.clone() };
    let free = QueuedRows { taken: vec![3], ..current.clone() };
    let paused = QueuedRows { template_state: TemplateState::Paused, ..free.clone() };
    let accepted = |left| QueuedRows { stock: stock(EPOCH, Open::Accepted, left), ..free.clone() };
    let open = |left| QueuedRows { stock: stock(EPOCH, Open::All, left), ..free.clone() };
    let under_key = |id, state| QueuedRows { by_key: row(id, state), ..all_wrong() };
    let cases = [
        (under_key(ID, ClaimState::Landed), Landed),
        (under_key(ID + 1, ClaimState::Landed), Elsewhere),
        (under_key(ID, ClaimState::Rejected), Rejected),
        (under_key(ID + 1, ClaimState::Rejected), Elsewhere),
        (all_wrong(), Fenced),
        (unfenced.clone(), TooLate { now: Epoch(EPOCH + 1) }),
        (
            QueuedRows { stock: stock(EPOCH - 1, Open::All, 9), ..unfenced.clone() },
            NumberTaken { free: None },
        ),
        (QueuedRows { stock: None, ..unfenced }, TooLate { now: Epoch::UNKNOWN }),
        (current.clone(), NumberTaken { free: None }),
        (QueuedRows { taken: vec![2, 4], ..current }, NumberTaken { free: Some(vec![1, 3]) }),
        (free.clone(), NotOpen(RejectReason::Ended)),
        (paused, NotOpen(RejectReason::Paused)),
        (accepted(1), Short { left: 1 }),
        (open(0), Short { left: 0 }),
        (accepted(2), Retry),
        (open(2), Retry),
    ];
    for (found, decision) in cases {
        assert_eq!(decide_queued(&claim(&[1, 2]), &found), decision, "{found:?}");
    }
}

#[test]
fn a_template_without_a_limit_has_no_numbers_to_take() {
    let mut unlimited = claim(&[1]);
    unlimited.admission.numbers.clear();
    let found = QueuedRows {
        fenced: false,
        taken: Vec::new(),
        limit: 0,
        stock: stock(EPOCH, Open::All, 1),
        ..all_wrong()
    };
    assert_eq!(decide_queued(&unlimited, &found), QueuedDecision::Retry);
}

#[test]
fn only_what_is_decided_for_good_has_a_reason() {
    let reasons = [
        (QueuedDecision::NumberTaken { free: None }, RejectReason::LimitReached),
        (QueuedDecision::NotOpen(RejectReason::Ended), RejectReason::Ended),
        (QueuedDecision::Short { left: 0 }, RejectReason::SoldOut),
        (QueuedDecision::Short { left: 1 }, RejectReason::InsufficientStock),
    ];
    for (decision, reason) in reasons {
        assert_eq!(decision.reject_reason(), Some(reason));
        assert!(decision.is_unanswered());
    }
    let free = QueuedDecision::NumberTaken { free: Some(vec![2]) };
    for decision in [free, QueuedDecision::Retry] {
        assert_eq!(decision.reject_reason(), None);
        assert!(decision.is_unanswered());
    }
    let too_late = QueuedDecision::TooLate { now: Epoch(4) };
    for decision in [QueuedDecision::Landed, QueuedDecision::Fenced, too_late] {
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
fn in_the_words_of_the_model(number: u8, found: &QueuedRows) -> Wording {
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

fn found() -> impl Strategy<Value = QueuedRows> {
    let states = select(vec![ClaimState::Landed, ClaimState::Void, ClaimState::Rejected]);
    let by_key = option::of((ID..ID + 2, states));
    let opens = select(vec![Open::Nothing, Open::Accepted, Open::All]);
    let template =
        select(vec![TemplateState::Published, TemplateState::Paused, TemplateState::Ended]);
    let taken = btree_set(1..=4_u8, 0..=4);
    let stocks = (EPOCH - 1..EPOCH + 2, opens, -1..3_i64);
    (by_key, any::<bool>(), taken, 1..=4_u32, stocks, template).prop_map(
        |(by_key, fenced, taken, limit, (epoch, open, left), template_state)| QueuedRows {
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
        let decided = match decide_queued(&claim(&[number]), &found) {
            QueuedDecision::Landed => Wording::Landed,
            QueuedDecision::Rejected => Wording::Rejected,
            QueuedDecision::Elsewhere => Wording::Elsewhere,
            QueuedDecision::Fenced => Wording::Fenced,
            QueuedDecision::TooLate { .. } => Wording::Stale,
            QueuedDecision::NumberTaken { free } => {
                Wording::NumberTaken(free.map(|numbers| numbers[0]))
            }
            QueuedDecision::NotOpen(_) => Wording::NotOpen,
            QueuedDecision::Short { .. } => Wording::Short,
            QueuedDecision::Retry => Wording::Retry,
        };
        prop_assert_eq!(decided, in_the_words_of_the_model(number, &found));
    }

    #[test]
    fn other_numbers_are_free_distinct_and_as_many_as_were_asked_for(
        numbers in btree_set(1..=6_u8, 1..=4),
        found in found(),
    ) {
        let numbers: Vec<u8> = numbers.into_iter().collect();
        let found = QueuedRows { limit: 6, ..found };
        let claim = claim(&numbers);
        let decision = decide_queued(&claim, &found);
        if let QueuedDecision::NumberTaken { free: Some(free) } = decision {
            prop_assert_eq!(free.len(), numbers.len());
            prop_assert!(free.is_sorted_by(|one, next| one < next));
            prop_assert!(free.iter().all(|number| !found.taken.contains(number)));
            let mut again = claim.clone();
            again.admission.numbers = free;
            let again = decide_queued(&again, &found);
            // Its own variable: the macro would read braces in a condition as a format's.
            let still_taken = matches!(again, QueuedDecision::NumberTaken { .. });
            prop_assert!(!still_taken);
        }
    }
}
