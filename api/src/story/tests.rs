//! Stories of made-up facts.

use chrono::TimeDelta;
use coupon::{
    AcceptAfter, ClaimId, CouponId, CouponStatus, MerchantId, RejectReason, TemplateId, UserId,
};
use mysql_store::user_coupon::UserCoupon;
use serde_json::{Value, json};
use topic::Source;

use super::{
    facts::{Admitted, Change, End, Facts, Known, Relayed, Seen},
    hop::Hop,
    hops::{late, tell},
    *,
};

/// Id of a coupon that was made at [`at`] 500.
const COUPON: CouponId = CouponId(2_123_985_068_924_862_464);

/// Returns a time in milliseconds, 500 of which are when [`COUPON`] was made.
fn at(ms: i64) -> DateTime<Utc> {
    made_at(COUPON.0) + TimeDelta::milliseconds(ms - 500)
}

fn coupon(status: CouponStatus) -> UserCoupon {
    UserCoupon {
        id: COUPON,
        template_id: TemplateId(1),
        user_id: UserId(42),
        claim_no: 1,
        claim_id: ClaimId(7),
        merchant_id: MerchantId(1),
        status,
        version: 1,
        expiry_shard: 0,
        claimed_at: at(0),
        changed_at: at(90_040),
        valid_from: at(0),
        valid_until: at(90_000),
        used_at: Some(at(60_000)).filter(|_| status == CouponStatus::Used),
        order_ref: Some("A-1".to_owned()).filter(|_| status == CouponStatus::Used),
        trace_parent: None,
        issued_no: None,
    }
}

fn change(read_ms: i64) -> Change {
    let second = at(read_ms).timestamp() * 1_000;
    Change {
        topic: "coupon.user_coupon".to_owned(),
        partition: 3,
        offset: 815,
        at: Some(at(read_ms + 2)),
        read_at: Some(at(read_ms)),
        source: Source {
            file: "binlog.000002".to_owned(),
            pos: 4_711,
            gtid: Some("0-1-42".to_owned()),
            ts_ms: second,
            ..Source::default()
        },
    }
}

/// A claim that took the queue and landed.
fn queued() -> Facts {
    let admitted = Admitted { at: at(1), stock: Some((100, 98)) };
    Facts {
        received_at: at(0),
        admitted: Known::Is(admitted),
        relayed: Known::Is(Relayed {
            topic: "coupon.claims".to_owned(),
            partition: 5,
            offset: 12,
            at: Some(at(9)),
            accept_after: AcceptAfter::Topic,
            admitted,
        }),
        end: End::Landed(vec![COUPON]),
        change: Known::Is(change(520)),
        seen: Known::Is(Seen::Listed),
        coupons: vec![coupon(CouponStatus::Used)],
    }
}

fn names(hops: &[Hop]) -> Vec<String> {
    hops.iter().map(|hop| format!("{} {}", hop.hop, hop.state)).collect()
}

fn took(hops: &[Hop], name: &str) -> (Option<i64>, Option<bool>) {
    let hop = hops.iter().find(|hop| hop.hop == name).unwrap();
    (hop.took_ms, hop.late)
}

#[test]
fn a_queued_claim_is_told_from_its_request_to_its_redemption() {
    let hops = tell(&queued(), at(100_000));
    let all = "received admitted relayed taken landed published visible armed redeemed";
    let all: Vec<String> = all.split(' ').map(|name| format!("{name} done")).collect();
    assert_eq!(names(&hops), all);
    assert_eq!(took(&hops, "received"), (None, None));
    assert_eq!(took(&hops, "admitted"), (Some(1), Some(false)));
    assert_eq!(took(&hops, "relayed"), (Some(8), Some(false)));
    assert_eq!(took(&hops, "taken"), (Some(491), Some(false)), "a queue is there to be waited in");
    assert_eq!(took(&hops, "landed"), (Some(20), Some(false)));
    assert_eq!(took(&hops, "published"), (Some(2), Some(false)));
    assert_eq!(late(&hops), Vec::<&str>::new());
    let json = serde_json::to_value(&hops).unwrap();
    assert_eq!((&json[1]["stock_from"], &json[1]["stock_to"]), (&json!(100), &json!(98)));
    assert_eq!((&json[2]["topic"], &json[2]["offset"]), (&json!("coupon.claims"), &json!(12)));
    assert_eq!(json[4]["binlog_position"], 4_711);
    assert_eq!((&json[8]["order_ref"], &json[8]["took_ms"]), (&json!("A-1"), &Value::Null));
}

#[test]
fn the_hop_that_took_longer_than_usual_is_late_and_no_other() {
    let slow = Facts { change: Known::Is(change(1_400)), ..queued() };
    assert_eq!(late(&tell(&slow, at(100_000))), ["landed"]);
    // Committed within its second, and read by the tailer three seconds later.
    let mut behind = change(520);
    (behind.read_at, behind.at) = (Some(at(3_520)), Some(at(3_521)));
    let second = DateTime::from_timestamp_millis(behind.source.ts_ms).unwrap();
    let committed = second + TimeDelta::milliseconds(999);
    assert_eq!(behind.committed_at(), Some(committed));
    let hops = tell(&Facts { change: Known::Is(behind), ..queued() }, at(100_000));
    assert!(late(&hops).contains(&"published"), "{hops:?}");
    // A gate's claim is answered before the topic has it.
    let mut of_gate = queued();
    if let Known::Is(relayed) = &mut of_gate.relayed {
        (relayed.accept_after, relayed.at) = (AcceptAfter::Gate, Some(at(400)));
    }
    assert_eq!(took(&tell(&of_gate, at(100_000)), "relayed"), (Some(399), None));
}

#[test]
fn a_claim_that_waited_for_a_minute_in_its_queue_is_late_there_whatever_became_of_it() {
    let mut early = queued();
    let admitted = Admitted { at: at(-57_000), stock: None };
    (early.received_at, early.admitted) = (at(-57_001), Known::Is(admitted));
    if let Known::Is(relayed) = &mut early.relayed {
        relayed.at = Some(at(-56_991));
    }
    let hops = tell(&early, at(100_000));
    assert_eq!(took(&hops, "taken"), (Some(57_491), Some(true)));
    assert_eq!(late(&hops), ["taken"]);
    let waits = tell(&Facts { end: End::UnderWay, ..early.clone() }, at(0));
    assert_eq!((late(&waits), took(&waits, "taken").0), (vec!["taken"], Some(56_991)));
    let end = End::Rejected { reason: RejectReason::SoldOut, at: at(900) };
    assert_eq!(late(&tell(&Facts { end, ..early.clone() }, at(100_000))), ["rejected"]);
    // Without its message nobody knows how much of the time was the wait.
    let relayed = Known::Unknown("Kafka cannot be read".to_owned());
    let hops = tell(&Facts { relayed, ..early }, at(100_000));
    assert_eq!(took(&hops, "taken").1, None);
}

#[test]
fn a_direct_claim_skips_the_queue_and_what_is_away_is_unknown() {
    let facts = Facts {
        relayed: Known::Never("it took the direct way"),
        change: Known::Unknown("Kafka cannot be read".to_owned()),
        seen: Known::Unknown("the view cannot be read".to_owned()),
        coupons: vec![coupon(CouponStatus::Expired)],
        ..queued()
    };
    let hops = tell(&facts, at(100_000));
    let all = [
        "received done",
        "admitted done",
        "relayed skipped",
        "taken skipped",
        "landed done",
        "published unknown",
        "visible unknown",
        "armed done",
        "expired done",
    ];
    assert_eq!(names(&hops), all);
    assert!(hops[4].at.is_none() && hops[4].why.is_some(), "{:?}", hops[4]);
    assert_eq!(took(&hops, "expired"), (Some(40), Some(true)), "since its deadline");
    assert_eq!(late(&hops), ["expired"]);
}

#[test]
fn a_claim_without_an_outcome_ends_with_the_hop_that_it_waits_for() {
    let waiting = Facts { end: End::UnderWay, ..queued() };
    let hops = tell(&waiting, at(5_009));
    assert_eq!(names(&hops)[3..], ["taken pending"]);
    assert_eq!(took(&hops, "taken"), (Some(5_000), Some(false)));

    let in_outbox = Facts { relayed: Known::NotYet("it is in the outbox"), ..waiting.clone() };
    let hops = tell(&in_outbox, at(5_001));
    assert_eq!(names(&hops)[2..], ["relayed pending"]);
    assert_eq!(took(&hops, "relayed"), (Some(5_000), Some(true)));

    let direct = Facts { relayed: Known::Never("direct"), ..waiting };
    let hops = tell(&direct, at(5_001));
    assert_eq!(names(&hops)[2..], ["relayed skipped", "landed pending"]);
    assert_eq!(took(&hops, "landed"), (Some(5_000), Some(true)));

    let unpublished = Facts {
        change: Known::NotYet("no event of it"),
        seen: Known::NotYet("the view does not know it"),
        ..queued()
    };
    let hops = tell(&unpublished, at(1_500));
    assert_eq!(took(&hops, "published"), (Some(1_000), Some(true)));
    assert_eq!(took(&hops, "visible"), (None, None), "it waits for its event");
    assert_eq!(late(&hops), ["published"]);
}

#[test]
fn a_claim_that_was_rejected_or_given_up_ends_so() {
    let end = End::Rejected { reason: RejectReason::SoldOut, at: at(900) };
    let hops = tell(&Facts { end, ..queued() }, at(100_000));
    assert_eq!(names(&hops)[3..], ["rejected done"]);
    assert_eq!(hops[3].traces.code, Some("SOLD_OUT"));
    let facts = Facts {
        admitted: Known::Unknown("nothing is recorded".to_owned()),
        relayed: Known::Never("direct"),
        end: End::GivenUp { at: at(10_000) },
        ..queued()
    };
    let all = ["received done", "admitted unknown", "relayed skipped", "given_up done"];
    assert_eq!(names(&tell(&facts, at(100_000))), all);
}

#[test]
fn an_unused_coupon_is_late_only_beyond_its_deadline() {
    let facts = Facts { coupons: vec![coupon(CouponStatus::Unused)], ..queued() };
    let last = |now_ms| tell(&facts, at(now_ms)).pop().unwrap();
    let before = last(80_000);
    assert_eq!((before.hop, before.state, before.late), ("expired", "pending", None));
    assert_eq!((last(90_010).took_ms, last(90_010).late), (Some(10), Some(false)));
    assert_eq!(last(95_000).late, Some(true));
}
