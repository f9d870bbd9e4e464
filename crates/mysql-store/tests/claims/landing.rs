//! The landing transaction: everything lands, or nothing does and the reason is returned.

use coupon::{
    ClaimId, CouponId, Epoch, LandingMode, RequestId, TemplateId, TemplateState, UserId,
    expiry_shard,
};
use mysql_store::{
    MySqlConnection, claim, connect, fence,
    landing::{self, Attempt, Landing},
    template, user_coupon,
};
use sqlx::{AssertSqlSafe, Row};

use crate::harness::{
    EPOCH, MERCHANT, Store, TEMPLATE, USER, execute, landing, landing_of, next_id, now, set_id,
};

#[tokio::test]
async fn a_landing_writes_claims_coupons_and_stock_together() {
    let mut store = Store::with_template("landed", 10).await;
    let landings = [landing("a", &[1, 2]), landing_of(TEMPLATE, UserId(131), "a", &[1])];
    assert_eq!(store.land(&landings).await, Attempt::Landed);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (7, (2, 3)));
    let connection = &mut store.connection;
    for Landing { landed, admission, .. } in &landings {
        let request = &admission.claim.request_id;
        let stored = claim::landed_under_key(connection, TEMPLATE, landed.user_id, request).await;
        assert_eq!(stored.unwrap().as_ref(), Some(landed));
    }
    let coupon = landings[1].landed.coupons[0];
    let coupon = user_coupon::get(connection, UserId(131), coupon.id).await.unwrap().unwrap();
    let shard = expiry_shard(coupon.user_id);
    assert_eq!((coupon.version, coupon.expiry_shard, coupon.merchant_id), (1, shard, MERCHANT));
    assert_eq!((coupon.claimed_at, coupon.changed_at), (now(), now()));
    assert_eq!(coupon.trace_parent.as_deref(), Some("00-trace-01"));
}

#[tokio::test]
async fn a_claim_is_read_without_what_its_user_was_given_before_and_since() {
    /// Coupons of one user of a template without a limit: this many before the claim, and as many after it. Their ids
    /// are their numbers.
    const BEFORE: i64 = 3_000;
    let mut store = Store::with_template("many before", 10).await;
    let id = 1 << 50;
    for first in [id / 2, id * 2] {
        let many = format!(
            "insert into user_coupon (id, template_id, user_id, claim_no, claim_id, merchant_id, status, version, \
             expiry_shard, claimed_at, changed_at, valid_from, valid_until) \
             with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 1000) \
             select {first} + a.n * 10 + b.n, {TEMPLATE}, {USER}, {first} + a.n * 10 + b.n, a.n, 1, 0, 1, \
             {USER} % 64, now(3), now(3), now(3), now(3) from numbers a join numbers b on b.n <= {BEFORE} / 1000"
        );
        execute(&mut store.connection, &many).await;
    }
    let mut landing = landing("a", &[1, 2]);
    set_id(&mut landing, ClaimId(id));
    for (coupon, claim_no) in landing.landed.coupons.iter_mut().zip([id + 1, id + 2]) {
        (coupon.id, coupon.claim_no) = (CouponId(claim_no), claim_no);
    }
    // Ids from a process whose clock is far behind are much lower. Their coupons are found too.
    let mut late = landing_of(TEMPLATE, USER, "b", &[1]);
    set_id(&mut late, ClaimId(id + 3));
    let behind = id / 2;
    (late.landed.coupons[0].id, late.landed.coupons[0].claim_no) = (CouponId(behind), behind);
    let landings = [landing, late];
    assert_eq!(store.land(&landings).await, Attempt::Landed);
    let before = rows_read(&mut store.connection).await;
    let landed = &landings[0].landed;
    let stored = claim::landed_under_key(
        &mut store.connection,
        TEMPLATE,
        USER,
        &landings[0].admission.claim.request_id,
    )
    .await
    .unwrap();
    assert_eq!(stored.as_ref(), Some(landed));
    // Includes the reads of the counter itself.
    let read = rows_read(&mut store.connection).await - before;
    assert!(read < 50, "{read} rows were read");
    let late = &landings[1].landed;
    let stored = claim::landed_under_key(
        &mut store.connection,
        TEMPLATE,
        USER,
        &landings[1].admission.claim.request_id,
    )
    .await
    .unwrap();
    assert_eq!(stored.as_ref(), Some(late));
}

/// Returns the number of rows that this connection's statements have read by an index so far.
async fn rows_read(connection: &mut MySqlConnection) -> u64 {
    let rows = sqlx::raw_sql("show session status like 'Handler_read_%'");
    let rows = rows.fetch_all(connection).await.unwrap();
    let of = |row: &sqlx::mysql::MySqlRow| {
        let name: String = row.try_get_unchecked(0).unwrap();
        let count: String = row.try_get_unchecked(1).unwrap();
        (!name.contains("_rnd")).then(|| count.parse::<u64>().unwrap())
    };
    rows.iter().filter_map(of).sum()
}

#[tokio::test]
async fn a_guard_that_is_short_closed_or_of_another_epoch_rolls_everything_back() {
    let mut store = Store::with_template("guard refused", 2).await;
    let short = vec![landing("a", &[1, 2]), landing_of(TEMPLATE, UserId(71), "a", &[1])];
    let mut stale = vec![landing("a", &[1])];
    stale[0].admission.epoch = Epoch(EPOCH.0 - 1);
    let mut early = vec![landing("a", &[1])];
    early[0].admission.epoch = Epoch(EPOCH.0 + 1);
    for refused in [short, stale, early] {
        assert_eq!(store.land(&refused).await, Attempt::GuardRefused);
        assert_eq!((store.left(TEMPLATE).await, store.counts().await), (2, (0, 0)));
    }
    let published = template::get(&mut store.connection, TEMPLATE).await.unwrap().unwrap();
    let next = TemplateState::Paused;
    assert!(template::change_state(&mut store.connection, &published, next, now()).await.unwrap());
    assert_eq!(store.land(&[landing("a", &[1])]).await, Attempt::GuardRefused);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (2, (0, 0)));
}

#[tokio::test]
async fn the_last_coupon_lands_and_none_after_it() {
    let mut store = Store::with_template("last coupon", 2).await;
    assert_eq!(store.land(&[landing("a", &[1, 2])]).await, Attempt::Landed);
    let next = [landing_of(TEMPLATE, UserId(71), "a", &[1])];
    assert_eq!(store.land(&next).await, Attempt::GuardRefused);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (0, (1, 2)));
}

#[tokio::test]
async fn one_taken_key_id_or_number_rolls_the_whole_batch_back() {
    let mut store = Store::with_template("taken", 10).await;
    let first = landing("a", &[1]);
    assert_eq!(store.land(std::slice::from_ref(&first)).await, Attempt::Landed);
    let mut id = landing("b", &[2]);
    set_id(&mut id, first.landed.id);
    let mut coupon_id = landing("b", &[2]);
    coupon_id.landed.coupons[0].id = first.landed.coupons[0].id;
    let cases = [
        (first.clone(), Attempt::ClaimTaken),
        (landing("a", &[2]), Attempt::ClaimTaken),
        (id, Attempt::ClaimTaken),
        (landing("b", &[1]), Attempt::NumberTaken),
        (coupon_id, Attempt::CouponIdTaken),
    ];
    for (taken, attempt) in cases {
        let innocent = landing_of(TEMPLATE, UserId(71), "a", &[1]);
        assert_eq!(store.land(&[innocent.clone(), taken]).await, attempt);
        assert_eq!((store.left(TEMPLATE).await, store.counts().await), (9, (1, 1)));
    }
}

#[tokio::test]
async fn several_templates_land_by_one_statement_whatever_their_count() {
    let mut store = Store::new("several templates").await;
    for id in 1..=5 {
        store.publish(TemplateId(id), 10).await;
    }
    // From one demand to a padded eight; the order of the batch does not matter.
    for count in 1..=5_i64 {
        let user = UserId(count);
        let landings: Vec<Landing> = (1..=count)
            .rev()
            .flat_map(|id| [("a", 1), ("b", 2)].map(|(key, n)| (id, key, n)))
            .map(|(id, key, number)| landing_of(TemplateId(id), user, key, &[number]))
            .collect();
        assert_eq!(store.land(&landings).await, Attempt::Landed, "{count}");
    }
    for id in 1..=5 {
        assert_eq!(store.left(TemplateId(id)).await, 10 - 2 * (6 - id));
    }
}

#[tokio::test]
async fn one_template_that_refuses_refuses_all_of_the_batch() {
    let mut store = Store::new("one refuses").await;
    for (id, stock) in [(1, 10), (2, 0), (3, 10)] {
        store.publish(TemplateId(id), stock).await;
    }
    let all = [1, 2, 3].map(|id| landing_of(TemplateId(id), USER, "a", &[1]));
    assert_eq!(store.land(&all).await, Attempt::GuardRefused);
    let missing = [1, 4].map(|id| landing_of(TemplateId(id), USER, "a", &[1]));
    assert_eq!(store.land(&missing).await, Attempt::GuardRefused);
    let mut epochs = [landing_of(TemplateId(1), USER, "a", &[1]), landing("b", &[2])];
    epochs[1].admission.claim.template_id = TemplateId(1);
    epochs[1].landed.template_id = TemplateId(1);
    epochs[1].admission.epoch = Epoch(EPOCH.0 + 1);
    assert_eq!(store.land(&epochs).await, Attempt::GuardRefused, "two epochs of one template");
    let mut stale = [1, 3].map(|id| landing_of(TemplateId(id), USER, "a", &[1]));
    stale[1].admission.epoch = Epoch(EPOCH.0 - 1);
    assert_eq!(store.land(&stale).await, Attempt::GuardRefused, "of an older epoch");
    execute(&mut store.connection, "update template_stock set open = 0 where template_id = 3")
        .await;
    let closed = [1, 3].map(|id| landing_of(TemplateId(id), USER, "a", &[1]));
    assert_eq!(store.land(&closed).await, Attempt::GuardRefused);
    assert_eq!(store.counts().await, (0, 0));
    for (id, stock) in [(1, 10), (2, 0), (3, 10)] {
        assert_eq!(store.left(TemplateId(id)).await, stock);
    }
}

#[tokio::test]
async fn a_full_batch_of_a_thousand_coupons_lands() {
    let mut store = Store::with_template("full batch", 1_000).await;
    let landings: Vec<Landing> =
        (0..200).map(|user| landing_of(TEMPLATE, UserId(user), "a", &[1, 2, 3, 4, 5])).collect();
    assert_eq!(store.land(&landings).await, Attempt::Landed);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (0, (200, 1_000)));
}

#[tokio::test]
async fn request_ids_that_differ_in_case_or_trailing_bytes_are_different_requests() {
    let mut store = Store::with_template("request ids", 10).await;
    for (number, key) in (1..).zip([b"key".as_slice(), b"KEY", b"key ", b"key\0", b"key~"]) {
        let mut landing = landing("x", &[number]);
        landing.admission.claim.request_id = RequestId::from_stored(key);
        assert_eq!(store.land(std::slice::from_ref(&landing)).await, Attempt::Landed, "{key:?}");
        let request = &landing.admission.claim.request_id;
        let stored = claim::landed_under_key(&mut store.connection, TEMPLATE, USER, request).await;
        assert_eq!(stored.unwrap(), Some(landing.landed));
    }
}

#[tokio::test]
async fn a_connection_can_land_on_after_an_attempt_that_failed_midway() {
    let mut store = Store::with_template("after an error", 10).await;
    let mut unfit = landing("a", &[1]);
    unfit.admission.claim.trace_parent = Some("x".repeat(56));
    let error =
        landing::land(&mut store.connection, LandingMode::Direct, &[unfit]).await.unwrap_err();
    assert!(!error.is_conflict() && !error.is_unavailable() && error.duplicate_key().is_none());
    // They run on the same connection and, at the same time, on another one.
    let mut other = connect::lander(&store.url).await.unwrap();
    let attempt =
        landing::land(&mut other, LandingMode::Direct, &[landing("a", &[1])]).await.unwrap();
    assert_eq!(attempt, Attempt::Landed);
    assert_eq!(store.land(&[landing("b", &[2])]).await, Attempt::Landed);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (8, (2, 2)));
}

#[tokio::test]
async fn the_guard_join_reads_the_demands_first_and_the_stock_by_its_key() {
    let mut store = Store::new("guard join").await;
    for id in 1..=20 {
        store.publish(TemplateId(id), 10).await;
    }
    execute(&mut store.connection, "analyze table template_stock").await;
    let modes = [LandingMode::Direct, LandingMode::Queued];
    for (mode, count) in modes.into_iter().flat_map(|mode| [(mode, 2), (mode, 16)]) {
        // MySQL's own default is a tree.
        let join = landing::guard_join(mode, count);
        let sql = format!("explain format=traditional {join}");
        let mut explain = sqlx::query(AssertSqlSafe(sql));
        for id in 1..=count as i64 {
            explain = explain.bind(id).bind(EPOCH.0).bind(1_i64).bind(1_i64);
        }
        let plan: Vec<(String, Option<String>, Option<String>)> = explain
            .fetch_all(&mut store.connection)
            .await
            .unwrap()
            .iter()
            .map(|row| {
                let text = |column| row.try_get_unchecked::<Option<String>, _>(column).unwrap();
                (text("table").unwrap_or_default(), text("type"), text("key"))
            })
            .collect();
        let place = |name: &str| plan.iter().position(|(table, ..)| table.starts_with(name));
        let demand = place("<derived");
        let stock = place("stock").unwrap();
        assert!(demand.unwrap() < stock, "{plan:?}");
        let (_, kind, key) = &plan[stock];
        assert_eq!(
            (kind.as_deref(), key.as_deref()),
            (Some("eq_ref"), Some("PRIMARY")),
            "{plan:?}"
        );
    }
}

#[tokio::test]
async fn without_a_limit_a_user_may_land_any_number_of_coupons() {
    let mut store = Store::with_template("unlimited", 10).await;
    for key in ["a", "b", "c"] {
        let mut landing = landing(key, &[1]);
        landing.admission.numbers.clear();
        let id = next_id();
        landing.landed.coupons[0].claim_no = id;
        landing.landed.coupons[0].id.0 = id;
        assert_eq!(store.land(&[landing]).await, Attempt::Landed);
    }
    assert_eq!(store.counts().await, (3, 3));
}

#[tokio::test]
async fn a_fenced_admission_can_never_land_and_its_key_still_can() {
    let mut store = Store::with_template("fenced", 10).await;
    let fenced = landing("a", &[1]);
    let id = fenced.landed.id;
    let fence = fence::place(&mut store.connection, TEMPLATE, USER, id, now()).await.unwrap();
    assert_eq!(fence, fence::Fence::Stands);
    assert_eq!(store.land(std::slice::from_ref(&fenced)).await, Attempt::ClaimTaken);
    assert_eq!((store.left(TEMPLATE).await, store.counts().await), (10, (1, 0)));
    let mut again = fenced;
    set_id(&mut again, ClaimId(next_id()));
    assert_eq!(store.land(&[again]).await, Attempt::Landed);
}
