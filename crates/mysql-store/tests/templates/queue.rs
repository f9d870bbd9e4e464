//! The queue of a template's accepted claims: its epoch, its end, and what a pause leaves open.

use chrono::{DateTime, TimeDelta};
use coupon::{AcceptedClaims, ClaimMode, Epoch, Open, Template, TemplateId, TemplateState, Window};
use mysql_store::{
    MySqlConnection,
    stock::{self, QueueFacts},
    template,
    template_edit::{self, Edited},
};

use crate::harness::{EPOCH, Store, TEMPLATE, draft, now};

const NOWHERE: TemplateId = TemplateId(99);

async fn facts(connection: &mut MySqlConnection) -> QueueFacts {
    stock::queue_facts(connection, TEMPLATE).await.unwrap().unwrap()
}

/// Edits [`TEMPLATE`].
async fn edit(connection: &mut MySqlConnection, change: impl FnOnce(Template) -> Template) {
    let before = template::get(connection, TEMPLATE).await.unwrap().unwrap();
    let after = change(before.clone());
    let edited = template_edit::edit(connection, &before, &after, false, now()).await.unwrap();
    assert_eq!(edited, Edited::Done);
}

#[tokio::test]
async fn a_template_was_ever_queued_from_its_first_other_mode_on_and_for_good() {
    let mut store = Store::with_template("ever queued", 10).await;
    let new = QueueFacts {
        ever_queued: false,
        queue_closed: false,
        epoch: EPOCH,
        queued_epoch: EPOCH,
        open: Open::All,
    };
    let connection = &mut store.connection;
    assert_eq!(facts(connection).await, new);
    assert_eq!(stock::queue_facts(connection, NOWHERE).await.unwrap(), None);
    for claim_mode in [ClaimMode::Spill, ClaimMode::Queued, ClaimMode::Direct] {
        edit(connection, |before| Template { claim_mode, ..before }).await;
        let stored = template::get(connection, TEMPLATE).await.unwrap().unwrap();
        assert_eq!(stored.claim_mode, claim_mode);
        assert_eq!(facts(connection).await, QueueFacts { ever_queued: true, ..new });
    }
    let queued = Template { claim_mode: ClaimMode::Queued, ..draft(TemplateId(11)) };
    store.publish_as(&queued, 1).await;
    let of_queued = stock::queue_facts(&mut store.connection, queued.id).await.unwrap();
    assert_eq!(of_queued, Some(QueueFacts { ever_queued: true, ..new }));
}

#[tokio::test]
async fn a_raised_epoch_and_a_new_window_leave_the_epoch_of_queued_claims_as_it_is() {
    let mut store = Store::with_queue("two epochs", 10).await;
    let raised = stock::next_epoch(&mut store.another().await, TEMPLATE).await.unwrap();
    assert_eq!(raised, Some(Epoch(2)));
    let connection = &mut store.connection;
    edit(connection, |mut before| {
        before.window.ends_at += TimeDelta::hours(1);
        before
    })
    .await;
    let after = facts(connection).await;
    assert_eq!((after.epoch, after.queued_epoch), (Epoch(3), EPOCH));
}

#[tokio::test]
async fn the_epoch_of_queued_claims_follows_only_the_last_rebuild() {
    let mut store = Store::with_queue("queued epoch", 10).await;
    let mut other = store.another().await;
    let first = stock::next_epoch(&mut other, TEMPLATE).await.unwrap().unwrap();
    let second = stock::next_epoch(&mut other, TEMPLATE).await.unwrap().unwrap();
    let connection = &mut store.connection;
    assert!(!stock::set_queued_epoch(connection, TEMPLATE, first).await.unwrap(), "overtaken");
    assert_eq!(facts(connection).await.queued_epoch, EPOCH);
    for _ in 0..2 {
        assert!(stock::set_queued_epoch(connection, TEMPLATE, second).await.unwrap());
    }
    assert_eq!(facts(connection).await.queued_epoch, second);
    assert!(!stock::set_queued_epoch(connection, NOWHERE, second).await.unwrap());
}

#[tokio::test]
async fn a_drain_is_ended_once_under_the_epoch_that_waits_and_only_where_something_may_be_queued() {
    let mut store = Store::with_queue("end drain", 10).await;
    let mut other = store.another().await;
    let connection = &mut store.connection;
    assert!(!stock::end_drain(connection, TEMPLATE, EPOCH).await.unwrap(), "nothing waits");
    let first = stock::next_epoch(&mut other, TEMPLATE).await.unwrap().unwrap();
    let second = stock::next_epoch(&mut other, TEMPLATE).await.unwrap().unwrap();
    assert!(!stock::end_drain(connection, TEMPLATE, first).await.unwrap(), "overtaken");
    assert_eq!(facts(connection).await.queued_epoch, EPOCH);
    assert!(stock::end_drain(connection, TEMPLATE, second).await.unwrap());
    assert!(!stock::end_drain(connection, TEMPLATE, second).await.unwrap(), "it was ended");
    assert_eq!(facts(connection).await.queued_epoch, second);
    assert!(!stock::end_drain(connection, NOWHERE, second).await.unwrap());

    let mut direct = Store::with_template("end no drain", 10).await;
    let connection = &mut direct.connection;
    let epoch = stock::next_epoch(connection, TEMPLATE).await.unwrap().unwrap();
    assert!(!stock::end_drain(connection, TEMPLATE, epoch).await.unwrap(), "never queued");
}

#[tokio::test]
async fn a_pause_and_an_end_leave_open_what_was_accepted_if_anything_may_have_been() {
    use AcceptedClaims::{Land, Reject};
    use TemplateState::{Ended, Paused, Published};
    let mut queued = Store::with_queue("pause queued", 10).await;
    let mut direct = Store::with_template("pause direct", 10).await;
    let steps = [
        (Paused, Land, Open::Accepted),
        (Published, Land, Open::All),
        (Paused, Reject, Open::Nothing),
        (Published, Reject, Open::All),
        (Ended, Land, Open::Accepted),
        (Ended, Reject, Open::Nothing),
    ];
    for (state, accepted, open) in steps {
        queued.change(state, accepted).await;
        assert_eq!(facts(&mut queued.connection).await.open, open, "{}", state.word());
        direct.change(state, accepted).await;
        let never_queued = if open == Open::All { Open::All } else { Open::Nothing };
        assert_eq!(facts(&mut direct.connection).await.open, never_queued, "{}", state.word());
    }
}

#[tokio::test]
async fn a_queue_is_closed_once_under_the_epoch_of_the_last_rebuild() {
    let mut store = Store::with_queue("close queue", 10).await;
    store.change(TemplateState::Ended, AcceptedClaims::Land).await;
    let raised = stock::next_epoch(&mut store.another().await, TEMPLATE).await.unwrap().unwrap();
    let connection = &mut store.connection;
    assert!(!stock::close_queue(connection, TEMPLATE, EPOCH).await.unwrap(), "overtaken");
    assert!(!facts(connection).await.queue_closed);
    assert!(stock::close_queue(connection, TEMPLATE, raised).await.unwrap());
    let after = Epoch(raised.0 + 1);
    let closed = QueueFacts {
        ever_queued: true,
        queue_closed: true,
        epoch: after,
        queued_epoch: after,
        open: Open::Nothing,
    };
    assert_eq!(facts(connection).await, closed);
    assert!(!stock::close_queue(connection, TEMPLATE, raised).await.unwrap(), "it was closed");
    assert!(!stock::set_queued_epoch(connection, TEMPLATE, raised).await.unwrap());
    assert_eq!(facts(connection).await, closed);
}

#[tokio::test]
async fn a_queue_that_was_closed_after_its_window_opens_again_with_another_one() {
    let mut store = Store::with_queue("reopened", 10).await;
    assert!(stock::close_queue(&mut store.connection, TEMPLATE, EPOCH).await.unwrap());
    // What was accepted has its answer, so there is nothing to leave open.
    store.change(TemplateState::Paused, AcceptedClaims::Land).await;
    let connection = &mut store.connection;
    assert_eq!(facts(connection).await.open, Open::Nothing);
    let longer = |mut before: Template| {
        before.window.ends_at += TimeDelta::hours(1);
        before
    };
    edit(connection, longer).await;
    let reopened = facts(connection).await;
    assert_eq!((reopened.queue_closed, reopened.open), (false, Open::Nothing), "still paused");
    store.change(TemplateState::Published, AcceptedClaims::Land).await;
    let connection = &mut store.connection;
    let open = facts(connection).await;
    assert_eq!((open.queue_closed, open.open), (false, Open::All));
    assert!(stock::close_queue(connection, TEMPLATE, open.epoch).await.unwrap());
    edit(connection, longer).await;
    let reopened = facts(connection).await;
    assert_eq!((reopened.queue_closed, reopened.open), (false, Open::All));
    assert!(reopened.epoch > reopened.queued_epoch, "its next gate begins with a rebuild");
}

#[tokio::test]
async fn queues_to_be_closed_are_those_after_their_end_or_window_that_are_not_closed_yet() {
    let mut store = Store::new("unclosed queues").await;
    let ended_at = DateTime::from_timestamp(1_577_836_800, 0).unwrap();
    let over = Window { starts_at: ended_at - TimeDelta::hours(2), ends_at: ended_at };
    let queued = |id| Template { claim_mode: ClaimMode::Queued, ..draft(TemplateId(id)) };
    // By id: within its window; over; ended; over and never queued; closed; a draft.
    store.publish_as(&queued(1), 1).await;
    store.publish_as(&Template { window: over, ..queued(2) }, 1).await;
    store.publish_as(&queued(3), 1).await;
    store.publish_as(&Template { window: over, ..draft(TemplateId(4)) }, 1).await;
    store.publish_as(&Template { window: over, ..queued(5) }, 1).await;
    let connection = &mut store.connection;
    let sixth = Template { window: over, ..queued(6) };
    template::create(connection, &sixth, 1, "test", now()).await.unwrap();
    let third = template::get(connection, TemplateId(3)).await.unwrap().unwrap();
    let ended = template::change_state(connection, &third, TemplateState::Ended, now()).await;
    assert!(ended.unwrap());
    assert!(stock::close_queue(connection, TemplateId(5), EPOCH).await.unwrap());
    let unclosed = stock::unclosed_queues(connection, ended_at).await.unwrap();
    assert_eq!(unclosed, [TemplateId(2), TemplateId(3)]);
    let earlier = ended_at - TimeDelta::milliseconds(1);
    let unclosed = stock::unclosed_queues(connection, earlier).await.unwrap();
    assert_eq!(unclosed, [TemplateId(3)]);
    // By a clock that is far ahead of the server's, the first one is over too.
    let ahead = now() + TimeDelta::days(365);
    let unclosed = stock::unclosed_queues(connection, ahead).await.unwrap();
    assert_eq!(unclosed, [TemplateId(2), TemplateId(3)]);
}
