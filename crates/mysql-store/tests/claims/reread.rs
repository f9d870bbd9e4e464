//! The reread after a rollback.

use coupon::{
    ClaimRow, ClaimState, Epoch, FoundRows, LandingMode, Open, StockRow, TemplateId, TemplateState,
    UserId,
};
use mysql_store::{connect, fence, landing};

use crate::harness::{
    EPOCH, Store, TEMPLATE, USER, execute, id_of, landing, landing_of, now, waits_for_a_table,
};

#[tokio::test]
async fn a_reread_finds_for_each_admission_what_stands_in_its_way() {
    let mut store = Store::with_template("reread", 10).await;
    let landed = landing("landed", &[1]);
    store.land(std::slice::from_ref(&landed)).await;
    let fenced = landing("fenced", &[2]);
    let connection = &mut store.connection;
    fence::place(connection, TEMPLATE, USER, fenced.landed.id, now()).await.unwrap();
    let same_key = landing("landed", &[3]);
    let same_number = landing("other", &[4, 1]);
    let other_user = landing_of(TEMPLATE, UserId(71), "landed", &[1]);
    let nowhere = landing_of(TemplateId(99), USER, "landed", &[1]);
    let asked = [landed.clone(), fenced, same_key, same_number, other_user, nowhere];
    let found = landing::reread(connection, LandingMode::Direct, &asked).await.unwrap();

    let free = FoundRows {
        by_key: None,
        fenced: false,
        // The user's numbers, whatever the admission's own are.
        taken: vec![1],
        limit: 5,
        stock: Some(StockRow { epoch: EPOCH, queued_epoch: EPOCH, open: Open::All, stock: 9 }),
        template_state: TemplateState::Published,
    };
    let by_key = Some(ClaimRow { id: landed.landed.id, state: ClaimState::Landed });
    let nothing = FoundRows {
        taken: Vec::new(),
        limit: 0,
        stock: None,
        template_state: TemplateState::Ended,
        ..free.clone()
    };
    let expected = [
        FoundRows { by_key, ..free.clone() },
        FoundRows { fenced: true, ..free.clone() },
        FoundRows { by_key, ..free.clone() },
        free.clone(),
        FoundRows { taken: Vec::new(), ..free },
        nothing,
    ];
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_reread_sees_the_stock_row_as_it_is_now() {
    let mut store = Store::with_template("reread stock", 10).await;
    let sql = "update template_stock set epoch = 4, open = 0, stock = 2";
    execute(&mut store.connection, sql).await;
    let found = landing::reread(&mut store.connection, LandingMode::Direct, &[landing("a", &[1])])
        .await
        .unwrap();
    let stock = found[0].stock.unwrap();
    assert_eq!((stock.epoch, stock.open, stock.stock), (Epoch(4), Open::Nothing, 2));
}

#[tokio::test]
async fn a_claim_that_lands_during_the_reread_is_seen() {
    let mut store = Store::with_template("reread last", 10).await;
    let mine = landing("a", &[1]);
    let mut locker = store.another().await;
    let mut reader = store.another().await;
    let reader_id = id_of(&mut reader).await;
    execute(&mut locker, "lock tables user_coupon write").await;
    let asked = mine.clone();
    let reading = tokio::spawn(async move {
        landing::reread(&mut reader, LandingMode::Direct, &[asked]).await.unwrap()
    });
    waits_for_a_table(&mut store.connection, reader_id).await;
    // A whole landing would wait for the same lock, so only its claim row is written.
    let claim = &mine.admission.claim;
    let insert = format!(
        "insert into claim (template_id, user_id, request_id, id, quantity, state, payload_hash, \
         valid_from, valid_until, created_at) values ({}, {}, 'a', {}, 1, 1, repeat(x'00', 16), \
         now(), now(), now())",
        claim.template_id, claim.user_id, claim.id
    );
    execute(&mut store.connection, &insert).await;
    execute(&mut locker, "unlock tables").await;
    let found = reading.await.unwrap();
    assert_eq!(found[0].by_key.map(|row| row.id), Some(claim.id));
}

#[tokio::test]
async fn a_thousand_admissions_are_reread_in_their_order() {
    let mut store = Store::with_template("reread many", 2_000).await;
    let all: Vec<_> = (0..1_000).map(|n| landing_of(TEMPLATE, UserId(n), "a", &[1])).collect();
    let even: Vec<_> = all.iter().step_by(2).cloned().collect();
    store.land(&even).await;
    let mut lander = connect::lander(&store.url).await.unwrap();
    let found = landing::reread(&mut lander, LandingMode::Direct, &all).await.unwrap();
    for (n, (asked, found)) in all.iter().zip(found).enumerate() {
        let landed = (n % 2 == 0).then_some(asked.landed.id);
        assert_eq!(found.by_key.map(|row| row.id), landed);
        assert_eq!(found.taken.contains(&1), n % 2 == 0);
    }
}
