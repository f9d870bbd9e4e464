//! What cannot be read or landed.

use chrono::DateTime;
use coupon::{QueuedClaim, RequestId, TemplateId};
use topic::{HEADER_TRACE_PARENT, decode_claim};

use crate::harness::{Harness, claim};

const TEMPLATE: TemplateId = TemplateId(10);

/// One character more than its column takes.
const TOO_LONG: usize = 56;

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_or_landed_is_put_aside_and_the_rest_lands() {
    let test = Harness::new("lander poison").await;
    test.template(TEMPLATE, 10).await;
    let mut refused = claim(TEMPLATE, 3);
    refused.admission.claim.trace_parent = Some("x".repeat(TOO_LONG));
    let unknown = claim(TemplateId(99), 4);
    // A year that no column takes, so the message cannot be read as a claim.
    let mut absurd = claim(TEMPLATE, 6);
    absurd.admitted_at = DateTime::from_timestamp_millis(8_210_266_876_799_999).unwrap();
    test.queue(&[claim(TEMPLATE, 1)]).await;
    for partition in 0..4 {
        test.send_raw(partition, b"{\"v\":1,").await;
    }
    test.queue(&[claim(TEMPLATE, 2), refused.clone(), unknown.clone(), claim(TEMPLATE, 5)]).await;
    test.queue(&[absurd]).await;
    let lander = test.start();
    test.caught_up().await;
    assert_eq!(test.counts().await, (3, 1, 3));
    let failed = "select count(*) from claim where state = 3 and reason = 6";
    assert_eq!(test.number(failed).await, 1);

    let letters = test.dead_letters().await;
    assert_eq!(letters.len(), 7);
    let mut claims: Vec<QueuedClaim> = letters
        .iter()
        .filter_map(|letter| decode_claim(letter.payload.as_deref().unwrap()).ok())
        .collect();
    claims.sort_by_key(|claim| claim.admission.claim.user_id);
    assert_eq!(claims, [refused, unknown]);
    for letter in &letters {
        assert_eq!(letter.header("source-topic").unwrap(), test.names.claims().as_bytes());
        assert!(letter.header("source-partition").is_some());
        assert!(letter.header("source-offset").is_some());
        assert!(!letter.header("reason").unwrap().is_empty(), "{letter:?}");
    }
    let parents = letters.iter().filter_map(|letter| letter.header(HEADER_TRACE_PARENT));
    assert_eq!(parents.collect::<Vec<_>>(), ["x".repeat(TOO_LONG).as_bytes()]);
    lander.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_behind_a_poisoned_one_of_the_same_user_land() {
    let test = Harness::new("lander behind poison").await;
    test.template(TEMPLATE, 10).await;
    let mut refused = claim(TEMPLATE, 1);
    refused.admission.claim.trace_parent = Some("x".repeat(TOO_LONG));
    // It asks for the number that the refused one would have taken.
    let mut next = claim(TEMPLATE, 1);
    next.admission.claim.request_id = RequestId::from_client("b").unwrap();
    test.queue(&[refused, next]).await;
    let lander = test.start();
    test.caught_up().await;
    assert_eq!(test.counts().await, (1, 1, 1));
    assert_eq!(test.number("select count(*) from user_coupon where claim_no = 1").await, 1);
    lander.stop().await.unwrap();
}
