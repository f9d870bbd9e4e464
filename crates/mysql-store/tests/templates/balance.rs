//! The balance of templates: total, stock, epoch, last movement and held coupons, as of one moment.

use chrono::TimeDelta;
use coupon::TemplateId;
use mysql_store::{
    balance::{Asked, Balance, balances},
    connect,
};

use crate::{
    coupons::returns::{held, holding},
    harness::{EPOCH, TEMPLATE, now},
};

const NOWHERE: TemplateId = TemplateId(99);

#[tokio::test]
async fn a_balance_counts_held_coupons_where_it_is_asked_to() {
    let mut store = holding("balance", 9).await;
    store.land(&[held("a", &[1, 2], now() + TimeDelta::minutes(5))]).await;
    let pool = connect::pool(&store.url, 1).await.unwrap();
    let asked = |with_held| Asked { template: TEMPLATE, with_held };
    let nowhere = Asked { template: NOWHERE, with_held: true };
    let balance = Balance { total: 9, stock: 7, epoch: EPOCH, movement: 1, held: Some(2) };
    let found = balances(&pool, &[asked(true), nowhere]).await.unwrap();
    assert_eq!((found.len(), found.get(&TEMPLATE)), (1, Some(&balance)));
    let found = balances(&pool, &[asked(false)]).await.unwrap();
    assert_eq!(found.get(&TEMPLATE), Some(&Balance { held: None, ..balance }));
    assert!(balances(&pool, &[]).await.unwrap().is_empty());
}
