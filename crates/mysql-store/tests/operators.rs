//! Merchants, their keys, and the audit log.

use chrono::TimeDelta;
use coupon::{ApiKeyId, AuditId, MerchantId, Scope, Scopes, TemplateState};
use mysql_store::{
    Listed, MySqlConnection,
    api_key::{self, ApiKey, Created},
    audit::{self, By, Entry, Filter, Named},
    connect,
    merchant::{self, Merchant, PLATFORM},
    template, verify,
};

use crate::harness::{MERCHANT, Store, TEMPLATE, draft, next_id, now, read};

const SHOP: MerchantId = MerchantId(7);

/// Largest number of keys per merchant.
const LIVE_MAX: u32 = 20;

async fn with_shop(name: &str) -> Store {
    let mut store = Store::new(name).await;
    let shop = Merchant { id: SHOP, name: "Ein Laden 店".to_owned(), created_at: now() };
    merchant::create(&mut store.connection, &shop).await.unwrap();
    let page = read(merchant::page(&mut store.connection, None, 10).await.unwrap());
    assert_eq!((&page[0], page[1].id, page.len()), (&shop, PLATFORM, 2));
    let before = read(merchant::page(&mut store.connection, Some(SHOP), 10).await.unwrap());
    assert_eq!(before, page[1..]);
    store
}

fn key() -> ApiKey {
    ApiKey {
        id: ApiKeyId(next_id()),
        merchant_id: SHOP,
        name: "till".to_owned(),
        scopes: Scopes::of([Scope::Read, Scope::Operate]).unwrap(),
        created_at: now(),
        expires_at: Some(now() + TimeDelta::days(1)),
        revoked_at: None,
        last_used_at: None,
    }
}

async fn create(connection: &mut MySqlConnection, key: &ApiKey) -> Created {
    api_key::create(connection, key, &[7; 32], LIVE_MAX).await.unwrap()
}

#[tokio::test]
async fn a_key_comes_back_as_it_was_made_and_belongs_to_a_merchant() {
    let mut store = with_shop("api keys").await;
    let connection = &mut store.connection;
    let first = key();
    let second = ApiKey { expires_at: None, ..key() };
    for key in [&first, &second] {
        assert_eq!(create(connection, key).await, Created::Done);
        let stored = api_key::get(connection, key.id).await.unwrap();
        assert_eq!(stored, Some((key.clone(), [7; 32])));
    }
    let nobodys = ApiKey { merchant_id: MerchantId(8), ..key() };
    assert_eq!(create(connection, &nobodys).await, Created::NoMerchant);
    assert_eq!(api_key::get(connection, nobodys.id).await.unwrap(), None);
    assert_eq!(listed(connection, SHOP, 10).await, [second.clone(), first]);
    assert_eq!(listed(connection, SHOP, 1).await, [second]);
    assert_eq!(listed(connection, PLATFORM, 10).await, []);
}

async fn listed(connection: &mut MySqlConnection, of: MerchantId, limit: u32) -> Vec<ApiKey> {
    read(api_key::list(connection, of, now(), limit).await.unwrap())
}

#[tokio::test]
async fn a_list_of_keys_leaves_out_ended_ones_before_any_that_is_accepted() {
    let mut store = with_shop("keys listed").await;
    let connection = &mut store.connection;
    let soon = now() + TimeDelta::milliseconds(1);
    let accepted = [
        ApiKey { expires_at: None, ..key() },
        ApiKey { revoked_at: Some(soon), ..key() },
        ApiKey { expires_at: Some(soon), ..key() },
    ];
    for key in &accepted {
        create(connection, key).await;
    }
    let ended = [
        ApiKey { revoked_at: Some(now()), ..key() },
        ApiKey { expires_at: None, revoked_at: Some(now()), ..key() },
        ApiKey { expires_at: Some(now()), ..key() },
    ];
    for key in &ended {
        create(connection, key).await;
    }
    let newest_first = |keys: &[ApiKey]| keys.iter().rev().cloned().collect::<Vec<_>>();
    let accepted = newest_first(&accepted);
    let ended = newest_first(&ended);
    assert_eq!(listed(connection, SHOP, 3).await, accepted);
    assert_eq!(listed(connection, SHOP, 4).await, [&accepted[..], &ended[..1]].concat());
    assert_eq!(listed(connection, SHOP, 10).await, [accepted, ended].concat());
}

#[tokio::test]
async fn a_key_ends_at_the_earliest_of_its_ends() {
    let mut store = with_shop("key ends").await;
    let connection = &mut store.connection;
    let made = key();
    create(connection, &made).await;
    let hour = TimeDelta::hours(1);
    let tick = TimeDelta::milliseconds(1);
    let day = made.expires_at.unwrap();
    assert!(made.is_live(day - tick) && !made.is_live(day));
    // First to be replaced within an hour, then to end at once; a later end does not bring the key
    // back.
    for (at, news) in [(now() + hour, true), (now(), true), (now(), false), (now() + hour, false)] {
        assert_eq!(api_key::revoke(connection, made.id, at).await.unwrap(), news);
        let stored = api_key::lock(connection, made.id).await.unwrap().unwrap();
        assert!(stored.is_live(now() - tick));
        assert_eq!(stored.is_live(now()), at > now() && news, "{at}");
    }
    assert!(!api_key::revoke(connection, ApiKeyId(1), now()).await.unwrap());
}

/// The library reads a zero date as NULL: a key that never expires.
#[tokio::test]
async fn a_zero_date_makes_its_row_unreadable_and_never_means_no_end() {
    let mut store = with_shop("zero dates").await;
    let connection = &mut store.connection;
    let damaged = key();
    let sound = key();
    create(connection, &damaged).await;
    create(connection, &sound).await;
    verify::execute(connection, "set session sql_mode = ''").await.unwrap();
    for column in ["expires_at", "revoked_at", "last_used_at"] {
        let set = |value: &str| {
            format!("update api_key set {column} = {value} where id = {}", damaged.id)
        };
        verify::execute(connection, &set("'0000-00-00 00:00:00'")).await.unwrap();
        let read = api_key::get(connection, damaged.id).await;
        assert!(read.is_err(), "{column}: {read:?}");
        verify::execute(connection, &set("null")).await.unwrap();
        assert!(api_key::get(connection, damaged.id).await.unwrap().is_some(), "{column}");
    }
    assert!(api_key::get(connection, sound.id).await.unwrap().is_some());
}

#[tokio::test]
async fn a_merchant_has_a_bounded_number_of_keys_that_are_accepted() {
    let mut store = with_shop("key limit").await;
    let connection = &mut store.connection;
    let ended =
        [ApiKey { expires_at: Some(now()), ..key() }, ApiKey { revoked_at: Some(now()), ..key() }];
    for key in &ended {
        assert_eq!(create(connection, key).await, Created::Done);
    }
    let keys: Vec<ApiKey> = (0..LIVE_MAX).map(|_| key()).collect();
    for key in &keys {
        assert_eq!(create(connection, key).await, Created::Done);
    }
    assert_eq!(create(connection, &key()).await, Created::TooMany);
    assert_eq!(create(connection, &ApiKey { merchant_id: PLATFORM, ..key() }).await, Created::Done);
    assert!(api_key::revoke(connection, keys[0].id, now()).await.unwrap());
    assert_eq!(create(connection, &key()).await, Created::Done);
}

#[tokio::test]
async fn a_use_of_a_key_is_written_once_in_a_while_whoever_writes_it() {
    let mut store = with_shop("key uses").await;
    let connection = &mut store.connection;
    let used = key();
    let other = key();
    for key in [&used, &other] {
        create(connection, key).await;
    }
    let minute = TimeDelta::minutes(1);
    for (seconds, written) in [(0, 0), (1, 0), (59, 0), (60, 60), (61, 60), (30, 60)] {
        let at = now() + TimeDelta::seconds(seconds);
        api_key::note_uses(connection, &[used.id, ApiKeyId(1)], at, minute).await.unwrap();
        let (stored, _) = api_key::get(connection, used.id).await.unwrap().unwrap();
        assert_eq!(stored.last_used_at, Some(now() + TimeDelta::seconds(written)), "{seconds}");
    }
    api_key::note_uses(connection, &[], now(), minute).await.unwrap();
    assert_eq!(api_key::get(connection, other.id).await.unwrap().unwrap().0.last_used_at, None);
}

fn entry(id: i64, target: &str) -> Entry {
    Entry {
        id: AuditId(id),
        merchant_id: MERCHANT,
        key_id: None,
        action: "template.publish".to_owned(),
        target: target.to_owned(),
        before: None,
        after: Some("{\"name\":\"券 \\\"\"}".to_owned()),
        trace_id: Some("0".repeat(31) + "1"),
        at: now(),
    }
}

#[tokio::test]
async fn the_record_is_read_newest_first_by_merchant_and_target() {
    let mut store = Store::new("record").await;
    let connection = &mut store.connection;
    let written = [
        entry(1, "templates/1"),
        Entry { merchant_id: SHOP, ..entry(2, "templates/1") },
        Entry { key_id: Some(ApiKeyId(5)), trace_id: None, ..entry(3, "templates/2") },
        Entry { before: Some("{}".to_owned()), after: None, ..entry(4, "templates/1") },
    ];
    for entry in &written {
        audit::record(connection, entry).await.unwrap();
    }
    let [one, _, three, four] = &written;
    let all = audit::page(connection, &Filter::of(MERCHANT), None, 10).await.unwrap();
    let named =
        [four, three, one].map(|entry| Listed::Row(Named { entry: entry.clone(), key_name: None }));
    assert_eq!(all, audit::Page { lines: named.to_vec(), down_to: None });
    let at = now();
    let after = now() + TimeDelta::milliseconds(1);
    for (filter, ids) in [
        (Filter { by: By::Platform, ..Filter::of(MERCHANT) }, vec![4, 1]),
        (Filter { by: By::Key(ApiKeyId(5)), ..Filter::of(MERCHANT) }, vec![3]),
        (Filter { by: By::Key(ApiKeyId(6)), ..Filter::of(MERCHANT) }, vec![]),
        (Filter { from: Some(at), to: Some(after), ..Filter::of(MERCHANT) }, vec![4, 3, 1]),
        (Filter { to: Some(at), ..Filter::of(MERCHANT) }, vec![]),
        (Filter { from: Some(after), ..Filter::of(MERCHANT) }, vec![]),
    ] {
        let page = audit::page(connection, &filter, None, 10).await.unwrap();
        let found: Vec<i64> = read(page.lines).iter().map(|line| line.entry.id.0).collect();
        assert_eq!(found, ids, "{filter:?}");
    }
    let mut ids = async |merchant, target, before: Option<i64>, limit| -> Vec<i64> {
        let filter = Filter { target, ..Filter::of(merchant) };
        let page = audit::page(connection, &filter, before.map(AuditId), limit).await;
        read(page.unwrap().lines).iter().map(|line| line.entry.id.0).collect()
    };
    assert_eq!(ids(MERCHANT, None, Some(4), 1).await, [3]);
    assert_eq!(ids(MERCHANT, Some("templates/1"), None, 10).await, [4, 1]);
    assert_eq!(ids(MERCHANT, Some("templates/1"), Some(4), 10).await, [1]);
    assert_eq!(ids(SHOP, None, None, 10).await, [2]);
    assert_eq!(ids(SHOP, Some("templates/2"), None, 10).await, [0; 0]);
}

/// A key that has done nothing for long would otherwise be searched for in the whole record.
#[tokio::test]
async fn a_page_looks_at_a_bounded_part_of_the_record_and_says_how_far() {
    let mut store = Store::new("long record").await;
    let connection = &mut store.connection;
    let most = i64::from(audit::SCANNED_MAX);
    let first = Entry { key_id: Some(ApiKeyId(5)), ..entry(1, "templates/1") };
    let others = (2..=most + 2).map(|id| entry(id, "templates/1"));
    let all: Vec<Entry> = std::iter::once(first).chain(others).collect();
    audit::record_all(connection, &all).await.unwrap();
    for target in [None, Some("templates/1")] {
        let filter = Filter { by: By::Key(ApiKeyId(5)), target, ..Filter::of(MERCHANT) };
        let none = audit::page(connection, &filter, None, 10).await.unwrap();
        assert_eq!(none, audit::Page { lines: Vec::new(), down_to: Some(AuditId(3)) });
        let rest = audit::page(connection, &filter, none.down_to, 10).await.unwrap();
        assert_eq!((rest.lines.len(), rest.down_to), (1, None));
        let bounded = Filter { ids: AuditId(0)..AuditId(3), ..filter };
        assert_eq!(audit::page(connection, &bounded, None, 10).await.unwrap(), rest);
    }
    let full = audit::page(connection, &Filter::of(MERCHANT), None, 10).await.unwrap();
    assert_eq!((full.lines.len(), full.down_to), (10, Some(AuditId(most - 7))));
}

#[tokio::test]
async fn the_end_of_an_action_outside_mysql_is_added_to_its_line_once() {
    let mut store = Store::new("record of a repair").await;
    let connection = &mut store.connection;
    let [began, other] = [1, 2].map(|id| Entry { after: None, ..entry(id, "templates/1") });
    for entry in [&began, &other] {
        audit::record(connection, entry).await.unwrap();
    }
    for after in ["{\"epoch\":2}", "{\"epoch\":3}"] {
        audit::complete(connection, began.id, after).await.unwrap();
    }
    let lines = audit::page(connection, &Filter::of(MERCHANT), None, 10).await.unwrap();
    let lines: Vec<Entry> = read(lines.lines).into_iter().map(|line| line.entry).collect();
    assert_eq!(lines, [other, Entry { after: Some("{\"epoch\":2}".to_owned()), ..began }]);
}

#[tokio::test]
async fn an_action_that_cannot_be_recorded_is_not_done() {
    let mut store = Store::new("action and record").await;
    let sent = draft(TEMPLATE);
    template::create(&mut store.connection, &sent, 5, "test", now()).await.unwrap();
    let pool = connect::pool(&store.url, 2).await.unwrap();
    // In the second round, the audit log already has an entry with this id.
    for (version, state) in [(1, TemplateState::Published), (2, TemplateState::Paused)] {
        let before = template::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
        assert_eq!(before.version, version);
        let mut transaction = connect::begin(&pool).await.unwrap();
        assert_eq!(
            template::hold_version(&mut transaction, TEMPLATE).await.unwrap(),
            Some(version)
        );
        let changed = template::change_state(&mut transaction, &before, state, now()).await;
        assert!(changed.unwrap());
        let recorded = audit::record(&mut transaction, &entry(1, "templates/1")).await;
        assert_eq!(recorded.is_ok(), version == 1);
        if recorded.is_ok() {
            connect::commit(transaction).await.unwrap();
        }
    }
    let after = template::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    assert_eq!((after.version, after.state), (2, TemplateState::Published));
}
