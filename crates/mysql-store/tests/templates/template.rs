//! Templates: they are stored as sent, and change by version.

use chrono::{DateTime, TimeDelta};
use coupon::{
    AcceptAfter, ClaimMode, Discount, DiscountKind, MerchantId, Open, Template, TemplateId,
    TemplateState, Validity, Window,
};
use mysql_store::{
    stock,
    template::{self, Watched},
    template_edit::{self, Edited},
};

use crate::harness::{MERCHANT, Store, TEMPLATE, draft, execute, now, number};

#[tokio::test]
async fn a_template_comes_back_as_it_was_sent() {
    let mut store = Store::new("template round trip").await;
    let percent = draft(TemplateId(1));
    let absolute = Template {
        validity: Validity::Absolute { from: now(), until: now() + TimeDelta::milliseconds(1) },
        discount: Discount {
            kind: DiscountKind::FreeShipping,
            cap: None,
            ..percent.discount.clone()
        },
        per_user_limit: 0,
        claim_mode: ClaimMode::Spill,
        accept_after: AcceptAfter::Replica,
        ..draft(TemplateId(2))
    };
    for sent in [percent, absolute] {
        template::create(&mut store.connection, &sent, 5, "test", now()).await.unwrap();
        let stored = template::get(&mut store.connection, sent.id).await.unwrap();
        assert_eq!(stored, Some(sent));
    }
    assert_eq!(template::get(&mut store.connection, TemplateId(3)).await.unwrap(), None);
}

#[tokio::test]
async fn a_change_of_state_needs_the_version_and_the_merchant_and_moves_the_guard() {
    let mut store = Store::new("change state").await;
    let connection = &mut store.connection;
    let sent = draft(TEMPLATE);
    template::create(connection, &sent, 5, "test", now()).await.unwrap();
    let steps = [
        (TemplateState::Published, true),
        (TemplateState::Paused, false),
        (TemplateState::Published, true),
        (TemplateState::Ended, false),
    ];
    for (version, (state, open)) in (1..).zip(steps) {
        let current = Template { version, ..sent.clone() };
        let others = Template { merchant_id: MerchantId(2), ..current.clone() };
        let stale = Template { version: version - 1, ..current.clone() };
        for refused in [others, stale] {
            assert!(!template::change_state(connection, &refused, state, now()).await.unwrap());
        }
        assert!(template::change_state(connection, &current, state, now()).await.unwrap());
        let stored = template::get(connection, TEMPLATE).await.unwrap().unwrap();
        assert_eq!((stored.state, stored.version), (state, version + 1));
        let stock = stock::get(connection, TEMPLATE).await.unwrap().unwrap();
        // It was never queued, so nothing was accepted.
        assert_eq!(stock.open, if open { Open::All } else { Open::Nothing });
    }
}

#[tokio::test]
async fn an_edit_writes_every_field_and_moves_the_guards_numbers_only_for_what_they_are_about() {
    let mut store = Store::with_template("edit", 5).await;
    let connection = &mut store.connection;
    let published = template::get(connection, TEMPLATE).await.unwrap().unwrap();
    let mut renamed = Template { name: "Neu".to_owned(), ..published.clone() };
    renamed.discount.minimum_spend += 1;
    renamed.discount.kind = DiscountKind::AmountOff;
    renamed.discount.cap = None;
    let mut longer = renamed.clone();
    longer.window.ends_at += TimeDelta::hours(1);
    let other = Validity::Absolute { from: now(), until: now() + TimeDelta::hours(3) };
    let valid = Template { validity: other, per_user_limit: 6, max_per_claim: 6, ..longer.clone() };
    // Epoch and terms of the guard row after each edit.
    for (edited, epoch, terms) in [(renamed, 1, 1), (longer, 2, 1), (valid, 2, 5)] {
        let before = template::get(connection, TEMPLATE).await.unwrap().unwrap();
        let done = template_edit::edit(connection, &before, &edited, false, now()).await.unwrap();
        assert_eq!(done, Edited::Done);
        let after = template::get(connection, TEMPLATE).await.unwrap().unwrap();
        assert_eq!(after, Template { version: before.version + 1, ..edited.clone() });
        assert_eq!(stock::get(connection, TEMPLATE).await.unwrap().unwrap().epoch.0, epoch);
        assert_eq!(number(connection, "select terms from template_stock").await, terms);
        let stale = template_edit::edit(connection, &before, &edited, false, now()).await.unwrap();
        assert_eq!(stale, Edited::Meanwhile);
    }
    // No shopper has seen the window of a draft.
    let id = TemplateId(11);
    template::create(connection, &draft(id), 5, "test", now()).await.unwrap();
    let mut later = draft(id);
    later.window.starts_at += TimeDelta::minutes(1);
    let done = template_edit::edit(connection, &draft(id), &later, false, now()).await.unwrap();
    assert_eq!(done, Edited::Done);
    assert_eq!(stock::get(connection, id).await.unwrap().unwrap().epoch.0, 1);
}

#[tokio::test]
async fn a_page_holds_one_merchants_templates_the_newest_first() {
    let mut store = Store::new("template page").await;
    let connection = &mut store.connection;
    for (id, merchant) in [(1, 1), (2, 2), (3, 1), (4, 1)] {
        let sent = Template { merchant_id: MerchantId(merchant), ..draft(TemplateId(id)) };
        template::create(connection, &sent, 5, "test", now()).await.unwrap();
    }
    let ids = |page: Vec<Template>| page.iter().map(|template| template.id.0).collect::<Vec<_>>();
    let first = template::page(connection, MERCHANT, None, 2).await.unwrap();
    assert_eq!(ids(first), [4, 3]);
    let second = template::page(connection, MERCHANT, Some(TemplateId(3)), 2).await.unwrap();
    assert_eq!(ids(second), [1]);
}

#[tokio::test]
async fn templates_beyond_draft_are_watched_from_before_their_window_to_its_end() {
    let mut store = Store::with_template("watched", 5).await;
    let connection = &mut store.connection;
    template::create(connection, &draft(TemplateId(11)), 5, "test", now()).await.unwrap();
    let window = draft(TEMPLATE).window;
    let tick = TimeDelta::milliseconds(1);
    for (opening_before, ending_after, count) in [
        (window.starts_at - tick, now(), 0),
        (window.starts_at, now(), 1),
        (now(), window.ends_at - tick, 1),
        (now(), window.ends_at, 0),
    ] {
        let watched = template::watched(connection, opening_before, ending_after).await.unwrap();
        let watched = watched.rows;
        assert_eq!(watched.len(), count);
        let stock = stock::get(connection, TEMPLATE).await.unwrap().unwrap();
        let right = |one: &Watched| one.template.id == TEMPLATE && one.stock == stock;
        assert!(watched.iter().all(right), "{watched:?}");
    }
}

#[tokio::test]
async fn templates_are_read_by_their_ids_and_by_what_changed_while_their_window_lasts() {
    let mut store = Store::new("changed templates").await;
    let connection = &mut store.connection;
    let hour = TimeDelta::hours(1);
    let ending = |ends_at| Window { starts_at: now() - hour, ends_at };
    let second = TimeDelta::seconds(1);
    let last = now() + hour;
    // Their windows, and the states that they get, each a second later.
    let published = vec![TemplateState::Published];
    let ended = vec![TemplateState::Published, TemplateState::Ended];
    let stories = [
        (1, last, published.clone()),
        (2, now(), published),
        (3, last, Vec::new()),
        (4, last, ended),
    ];
    for (id, ends_at, states) in stories {
        let sent = Template { window: ending(ends_at), ..draft(TemplateId(id)) };
        template::create(connection, &sent, 5, "test", now()).await.unwrap();
        for (version, state) in (1..).zip(states) {
            let current = Template { version, ..sent.clone() };
            let at = now() + second * i32::try_from(version).unwrap();
            assert!(template::change_state(connection, &current, state, at).await.unwrap());
        }
    }
    let at = |seconds: i32| now() + second * seconds;
    for (ending_after, changed_after, found) in [
        (now(), DateTime::UNIX_EPOCH, vec![1, 4]),
        (now() - second, DateTime::UNIX_EPOCH, vec![1, 2, 4]),
        (now(), at(1), vec![4]),
        (now(), at(2), vec![]),
        (last, DateTime::UNIX_EPOCH, vec![]),
    ] {
        let read = template::changed(connection, ending_after, changed_after).await.unwrap();
        let mut ids: Vec<i64> = read.rows.iter().map(|template| template.id.0).collect();
        ids.sort_unstable();
        assert_eq!(ids, found, "ending after {ending_after}, changed after {changed_after}");
    }

    let asked = [3, 9, 1, 4].map(TemplateId);
    let mut read = template::of_ids(connection, &asked).await.unwrap().rows;
    read.sort_by_key(|template| template.id);
    let states: Vec<_> = read.iter().map(|template| (template.id.0, template.state)).collect();
    let expected =
        [(1, TemplateState::Published), (3, TemplateState::Draft), (4, TemplateState::Ended)];
    assert_eq!(states, expected);
    assert!(template::of_ids(connection, &[]).await.unwrap().rows.is_empty());
}

/// A downgrade or a manual change may leave such a row.
#[tokio::test]
async fn a_row_that_cannot_be_read_keeps_no_other_template_from_being_read() {
    let mut store = Store::with_template("unreadable template", 5).await;
    let connection = &mut store.connection;
    let other = TemplateId(TEMPLATE.0 + 1);
    let sent = draft(other);
    template::create(connection, &sent, 5, "test", now()).await.unwrap();
    template::change_state(connection, &sent, TemplateState::Published, now()).await.unwrap();
    let newer = format!("update coupon_template set claim_mode = 99 where id = {TEMPLATE}");
    execute(connection, &newer).await;
    let of_ids = template::of_ids(connection, &[TEMPLATE, other]).await.unwrap();
    assert_eq!((of_ids.rows.len(), of_ids.unreadable), (1, vec![TEMPLATE]));
    let watched = template::watched(connection, now(), now()).await.unwrap();
    let ids: Vec<_> = watched.rows.iter().map(|one| one.template.id).collect();
    assert_eq!((ids, watched.unreadable), (vec![other], vec![TEMPLATE]));
    let changed = template::changed(connection, now(), DateTime::UNIX_EPOCH).await.unwrap();
    assert_eq!((changed.rows.len(), changed.unreadable), (1, vec![TEMPLATE]));
}
