//! What a reconciler found: one stands of each kind, template, and user or claim.

use chrono::TimeDelta;
use coupon::{
    Epoch, FindingAbout, FindingId, FindingKind, FindingState, MerchantId, TemplateId, UserId,
};
use mysql_store::{
    MySqlConnection,
    finding::{self, Filter, Finding, Found},
    finding_decision::{self, Decided, Judged, RECONCILER},
    reconcile_walk::{self, ReconcileWalk},
};

use crate::harness::{MERCHANT, Store, TEMPLATE, next_id, now, read};

const OTHERS: MerchantId = MerchantId(7);

fn found(kind: FindingKind, about: FindingAbout, coupons: i64) -> Found {
    Found {
        merchant_id: MERCHANT,
        kind,
        template: Some(TEMPLATE),
        about,
        epoch: Some(Epoch(2)),
        version: None,
        expected: "10".to_owned(),
        seen: (10 + coupons).to_string(),
        coupons,
        money: Some(coupons * 500),
        line: format!("template 10: stock {}, movements 10 - landed 0", 10 + coupons),
    }
}

fn drift(coupons: i64) -> Found {
    found(FindingKind::Account, FindingAbout::Template, coupons)
}

async fn recorded(connection: &mut MySqlConnection, found: &Found) -> Finding {
    finding::record(connection, FindingId(next_id()), found, now()).await.unwrap()
}

fn decided<'a>(by: &'a str, reason: &'a str) -> Decided<'a> {
    Decided { by, reason, at: now() }
}

fn judged(finding: &Finding) -> Judged {
    Judged { epoch: finding.found.epoch, coupons: finding.found.coupons }
}

async fn state(connection: &mut MySqlConnection, id: FindingId) -> FindingState {
    finding::get(connection, id).await.unwrap().unwrap().state
}

#[tokio::test]
async fn what_is_found_again_is_the_same_finding_and_what_is_found_elsewhere_another() {
    let mut store = Store::new("findings").await;
    let connection = &mut store.connection;
    let first = recorded(connection, &drift(2)).await;
    assert_eq!((&first.found, first.state, first.looks), (&drift(2), FindingState::Open, 1));
    let again = recorded(connection, &drift(3)).await;
    assert_eq!((again.id, again.looks, &again.found), (first.id, 2, &drift(3)));
    let of_user = |user: i64| FindingAbout::User(UserId(user));
    let one = recorded(connection, &found(FindingKind::NumberLeaked, of_user(1), 1)).await;
    let other = recorded(connection, &found(FindingKind::NumberLeaked, of_user(2), 1)).await;
    let kind = recorded(connection, &found(FindingKind::NumberMissing, of_user(1), 1)).await;
    assert!(first.id < one.id && one.id < other.id && other.id < kind.id);
    let long = Found { line: "ü".repeat(900), expected: "é".repeat(300), ..drift(3) };
    let cut = recorded(connection, &long).await.found;
    assert_eq!((cut.line.chars().count(), cut.expected.chars().count()), (500, 200));
}

#[tokio::test]
async fn an_accepted_finding_stands_until_it_is_about_something_else() {
    let mut store = Store::new("accepted findings").await;
    let connection = &mut store.connection;
    let id = recorded(connection, &drift(2)).await.id;
    assert!(
        finding_decision::accept(connection, id, decided("key:7", "an old import")).await.unwrap()
    );
    assert!(!finding_decision::accept(connection, id, decided("key:8", "again")).await.unwrap());
    // A sale moves the stock, and keeps the drift.
    let moved = Found { expected: "4".to_owned(), seen: "6".to_owned(), ..drift(2) };
    let accepted = recorded(connection, &moved).await;
    assert_eq!((accepted.id, accepted.state), (id, FindingState::Accepted));
    assert_eq!(accepted.decided_by.as_deref(), Some("key:7"));
    assert_eq!(accepted.reason.as_deref(), Some("an old import"));
    let changed = recorded(connection, &drift(5)).await;
    assert_eq!((changed.id, changed.state), (id, FindingState::Open));
    assert_eq!((changed.decided_by, changed.reason, changed.decided_at), (None, None, None));
}

#[tokio::test]
async fn a_repair_ends_a_finding_once_and_only_as_its_dry_run_showed_it() {
    let mut store = Store::new("repaired findings").await;
    let connection = &mut store.connection;
    let seen = recorded(connection, &drift(2)).await;
    let later = recorded(connection, &drift(3)).await;
    let by = decided("key:7", "recounted");
    assert!(!finding_decision::end_repair(connection, seen.id, judged(&seen), by).await.unwrap());
    assert_eq!(state(connection, seen.id).await, FindingState::Open);
    assert!(finding_decision::end_repair(connection, seen.id, judged(&later), by).await.unwrap());
    assert!(!finding_decision::end_repair(connection, seen.id, judged(&later), by).await.unwrap());
    assert!(!finding_decision::accept(connection, seen.id, by).await.unwrap());
    assert_eq!(state(connection, seen.id).await, FindingState::Repaired);
    // The same fault again is another finding.
    let again = recorded(connection, &drift(3)).await;
    assert!(again.id > seen.id && again.looks == 1, "{again:?}");
    assert!(
        finding_decision::begin_repair(connection, again.id, judged(&again), by).await.unwrap()
    );
    assert!(
        !finding_decision::begin_repair(connection, again.id, judged(&again), by).await.unwrap()
    );
    assert_eq!(state(connection, again.id).await, FindingState::Repairing);
    assert!(finding_decision::end_repair(connection, again.id, judged(&again), by).await.unwrap());
}

#[tokio::test]
async fn a_finding_is_overtaken_only_by_a_look_that_began_after_it_was_last_found() {
    let mut store = Store::new("overtaken findings").await;
    let connection = &mut store.connection;
    let id = recorded(connection, &drift(2)).await.id;
    let before = now() - TimeDelta::seconds(1);
    let after = now() + TimeDelta::seconds(1);
    assert!(!finding_decision::overtake(connection, id, before, after).await.unwrap());
    assert!(finding_decision::overtake(connection, id, after, after).await.unwrap());
    assert!(!finding_decision::overtake(connection, id, after, after).await.unwrap());
    let ended = finding::get(connection, id).await.unwrap().unwrap();
    assert_eq!(
        (ended.state, ended.decided_by.as_deref()),
        (FindingState::Overtaken, Some(RECONCILER))
    );
}

#[tokio::test]
async fn findings_are_listed_the_newest_first_by_merchant_template_kind_and_state() {
    let mut store = Store::new("listed findings").await;
    let connection = &mut store.connection;
    let ours = recorded(connection, &drift(2)).await.id;
    let theirs = Found {
        merchant_id: OTHERS,
        template: Some(TemplateId(11)),
        ..found(FindingKind::GateStock, FindingAbout::Template, -1)
    };
    let theirs = recorded(connection, &theirs).await.id;
    let view = found(FindingKind::View, FindingAbout::User(UserId(1)), 0);
    let view = recorded(connection, &Found { template: None, ..view }).await.id;
    assert!(
        finding_decision::accept(connection, ours, decided("platform", "known")).await.unwrap()
    );
    let all = Filter { with_platforms: true, ..Filter::default() };
    let accepted = Some(FindingState::Accepted);
    for (filter, expected) in [
        (all, vec![view, theirs, ours]),
        (Filter { merchant: Some(MERCHANT), ..all }, vec![view, ours]),
        (Filter { merchant: Some(MERCHANT), ..Filter::default() }, vec![ours]),
        (Filter { template: Some(TemplateId(11)), ..all }, vec![theirs]),
        (Filter { kind: Some(FindingKind::View), ..all }, vec![view]),
        (Filter { state: accepted, ..all }, vec![ours]),
        (Filter { state: accepted, merchant: Some(OTHERS), ..all }, vec![]),
    ] {
        let page = finding::page(connection, &filter, None, 10).await.unwrap();
        let ids: Vec<FindingId> = read(page.findings).iter().map(|finding| finding.id).collect();
        assert_eq!((ids, page.down_to), (expected, None), "{filter:?}");
    }
    let page = finding::page(connection, &all, Some(theirs), 10).await.unwrap();
    assert_eq!(read(page.findings)[0].id, ours);
}

#[tokio::test]
async fn a_walk_goes_on_where_it_was() {
    let mut store = Store::new("walks").await;
    let connection = &mut store.connection;
    assert_eq!(reconcile_walk::get(connection, "views").await.unwrap(), None);
    let begun = ReconcileWalk {
        template: TEMPLATE,
        after_id: 70,
        looked: 500,
        begun_at: now(),
        passed_at: None,
    };
    reconcile_walk::put(connection, "views", &begun).await.unwrap();
    assert_eq!(reconcile_walk::get(connection, "views").await.unwrap(), Some(begun.clone()));
    let ended = ReconcileWalk { passed_at: Some(now()), looked: 900, ..begun };
    reconcile_walk::put(connection, "views", &ended).await.unwrap();
    assert_eq!(reconcile_walk::get(connection, "views").await.unwrap(), Some(ended));
}
