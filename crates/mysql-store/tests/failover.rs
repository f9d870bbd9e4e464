//! Another server answers than before: gates and views begin anew.

use crate::harness::{Store, TEMPLATE, USER, execute, id_of, now, waits_for_a_row};
use coupon::{ClaimId, Epoch, TemplateId};
use mysql_store::{
    look_up::ClaimFate,
    lost_claim::{self, LostClaim},
    primary_server::{Failover, Unsearched, may_be_of_lost_history, notice, searched, unsearched},
    stock, verify,
};

/// Makes the recorded server another one than that which answers.
const PROMOTED: &str = "update primary_server set server = 'another'";

const OTHER: TemplateId = TemplateId(11);

#[tokio::test]
async fn another_server_than_before_is_noticed_once_and_raises_every_epoch_far() {
    let mut store = Store::with_template("promoted", 10).await;
    store.publish(OTHER, 10).await;
    let connection = &mut store.connection;
    assert_eq!(notice(connection).await.unwrap(), None, "the first one");
    assert_eq!(notice(connection).await.unwrap(), None, "the same one");
    let ended = "update coupon_template set state = 3 where id = 11";
    let long_ago = "update coupon_template set claim_starts_at = '2026-01-01', \
                    claim_ends_at = '2026-01-02' where id = 11";
    execute(connection, ended).await;
    execute(connection, long_ago).await;
    execute(connection, PROMOTED).await;
    let mut one = store.another().await;
    let mut other = store.another().await;
    let (one, other) = tokio::join!(notice(&mut one), notice(&mut other));
    let noticed: Vec<Failover> = [one.unwrap(), other.unwrap()].into_iter().flatten().collect();
    assert_eq!(noticed.len(), 1, "{noticed:?}");
    assert_eq!(noticed[0].from, "another");
    let mut epoch = async |id| stock::get(&mut store.connection, id).await.unwrap().unwrap().epoch;
    let raised = epoch(TEMPLATE).await;
    let before = Epoch(1);
    assert!(may_be_of_lost_history(before, raised), "{raised}");
    assert!(may_be_of_lost_history(Epoch(5), before), "it is above MySQL's");
    assert!(!may_be_of_lost_history(before, Epoch(3)), "rebuilds raise it by one");
    assert_eq!(epoch(OTHER).await, before, "its gate is gone");
    assert_eq!(notice(&mut store.connection).await.unwrap(), None);
}

#[tokio::test]
async fn a_failover_says_since_when_commits_may_be_missing() {
    let mut store = Store::with_template("seen", 10).await;
    let connection = &mut store.connection;
    assert_eq!(notice(connection).await.unwrap(), None);
    execute(connection, "update primary_server set seen = '2026-01-01', since = seen").await;
    assert_eq!(unsearched(connection).await.unwrap(), None);
    assert_eq!(notice(connection).await.unwrap(), None, "seen today");
    execute(connection, PROMOTED).await;
    let seen_before = "update primary_server set seen = '2026-01-02'";
    execute(connection, seen_before).await;
    assert!(notice(connection).await.unwrap().is_some());
    assert_eq!(notice(connection).await.unwrap(), None);
    let Unsearched { since, seen } = unsearched(connection).await.unwrap().unwrap();
    assert_eq!(seen.to_rfc3339(), "2026-01-02T00:00:00+00:00", "until all is searched");
    assert!(since > seen, "{since}");
    searched(connection, since).await.unwrap();
    assert_eq!(unsearched(connection).await.unwrap(), None);
    let recorded = "select cast(unix_timestamp(seen) as signed) from primary_server";
    assert!(verify::number(connection, recorded).await.unwrap() >= since.timestamp());
}

/// The raise and the record are one transaction.
#[tokio::test]
async fn a_failover_is_not_recorded_unless_the_epochs_are_raised() {
    let mut store = Store::with_template("promoted and locked", 10).await;
    assert_eq!(notice(&mut store.connection).await.unwrap(), None);
    execute(&mut store.connection, PROMOTED).await;
    let mut lock = store.another().await;
    execute(&mut lock, "begin; select * from template_stock for update").await;
    let mut waits = store.another().await;
    let id = id_of(&mut waits).await;
    let noticing = tokio::spawn(async move { notice(&mut waits).await });
    waits_for_a_row(&mut store.connection, id).await;
    noticing.abort();
    assert!(noticing.await.unwrap_err().is_cancelled());
    execute(&mut lock, "rollback").await;
    let noticed = loop {
        match notice(&mut store.connection).await {
            Err(error) if error.is_conflict() => {}
            noticed => break noticed.unwrap(),
        }
    };
    assert!(noticed.is_some());
}

#[tokio::test]
async fn a_lost_claim_is_recorded_once_and_has_its_fate() {
    let mut store = Store::new("lost claim").await;
    let connection = &mut store.connection;
    let id = ClaimId(77);
    assert_eq!(lost_claim::get(connection, id).await.unwrap(), None);
    let lost = LostClaim { id, template: TEMPLATE, user: USER };
    assert!(lost_claim::record(connection, lost).await.unwrap());
    assert!(!lost_claim::record(connection, lost).await.unwrap());
    let fate = lost_claim::get(connection, id).await.unwrap().unwrap();
    let ClaimFate::Lost { id: of, template_id, user_id, at } = fate else { panic!("{fate:?}") };
    assert_eq!((of, template_id, user_id), (id, TEMPLATE, USER));
    assert!(at > now() - chrono::TimeDelta::days(36_500));
}
