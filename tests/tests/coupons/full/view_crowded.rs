//! One user who reads a list without results over many connections: all other users are answered meanwhile, since such
//! a read costs MySQL next to nothing.

use std::{
    ops::Range,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::{Duration, Instant},
};

use coupon::UserId;
use devstack::{Endpoints, Flavor, OwnDatabase, PlatformOptions, TestServers};
use futures::future::join_all;
use mysql_store::verify;
use pipeline_tests::World;
use reqwest::Method;
use shopper::CouponQuery;

use crate::coupons::full::view_hot::give;

/// Connections of the one user, as in the attack.
const CONNECTIONS: usize = 32;

/// Coupons of that user, none of which has ended.
const COUPONS: i64 = 20_000;

/// Most rows of coupons that a request reads, on average: many times what it needs, and few beside [`COUPONS`].
const ROWS_A_REQUEST_MAX: i64 = 100;

/// Templates that an operator creates meanwhile.
const OPERATORS_CALLS: i64 = 10;

/// Reads these users' lists, which are cold, one after another. A refusal is an error here.
async fn p99_of_lists(world: &World, users: Range<i64>) -> Duration {
    let mut took = Vec::new();
    for user in users {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let began = Instant::now();
        assert_eq!(shopper.all_coupons().await.unwrap().len(), 3);
        took.push(began.elapsed());
    }
    took.sort_unstable();
    took[(took.len() - 1) * 99 / 100]
}

/// Reads these users' lists while `ask` is called over many connections. Returns the lists' p99, and the calls.
async fn beside(
    world: &World,
    users: Range<i64>,
    ask: impl AsyncFn(),
    meanwhile: impl Future<Output = ()>,
) -> (Duration, u32) {
    let are_done = AtomicBool::new(false);
    let asking = (0..CONNECTIONS).map(|_| async {
        let mut asked = 0_u32;
        while !are_done.load(Ordering::Relaxed) {
            ask().await;
            asked += 1;
        }
        asked
    });
    let reading = async {
        let (took, ()) = tokio::join!(p99_of_lists(world, users), meanwhile);
        are_done.store(true, Ordering::Relaxed);
        took
    };
    let (asked, took) = tokio::join!(join_all(asking), reading);
    (took, asked.iter().sum())
}

/// Returns how many rows of coupons the server has read since its start.
async fn rows_read(world: &World) -> i64 {
    let sql = "select cast(ifnull(sum(rows_read), 0) as signed) from information_schema.table_statistics \
               where table_schema = database() and table_name = 'user_coupon'";
    verify::number(&mut world.mysql().await, sql).await.unwrap()
}

/// On a server of its own, which counts rows by table.
#[tokio::test]
async fn who_reads_over_thirty_two_connections_takes_neither_lists_nor_operators_from_others() {
    let own = OwnDatabase::start("crowded", Flavor::Mariadb, &["--userstat=ON"]).await.unwrap();
    let shared = TestServers::shared().endpoints().clone();
    let servers = TestServers::at(Endpoints { database_url: own.url(), ..shared });
    let world = World::start_on(&servers, "crowded", |options| {
        let options = PlatformOptions { queue: false, ..options };
        options.with_env("READS_PER_USER_MINUTE", "0").with_env("READS_PER_USER_SECOND", "0")
    })
    .await;
    let quiet = 100..140;
    let idle = 200..240;
    let others = 300..340;
    give(&world, 1..2, COUPONS).await;
    for some in [quiet.clone(), idle.clone(), others.clone()] {
        give(&world, some, 3).await;
    }
    let api = world.api();
    let greedy = api.shopper(UserId(1)).unwrap();
    let query = CouponQuery { status: Some("expired"), ..CouponQuery::default() };
    let alone = p99_of_lists(&world, quiet).await;
    // The cost on this machine of as many calls that ask for nothing.
    let nothing = async || {
        let answer = api.send(api.operator(Method::GET, "/nothing")).await.unwrap();
        assert_eq!(answer.status, 404);
    };
    let (beside_nothing, calls) = beside(&world, idle, nothing, async {}).await;
    let answered = AtomicU32::new(0);
    let read = async || {
        // The read itself may be refused.
        if let Ok(page) = greedy.coupons(&query).await {
            assert!(page.data.is_empty(), "none has ended");
            answered.fetch_add(1, Ordering::Relaxed);
        }
    };
    let operator = async {
        for stock in 1..=OPERATORS_CALLS {
            let template = world.template(stock, |new| new).await;
            assert_eq!(api.stock(template).await.unwrap().total, stock);
        }
    };
    let before = rows_read(&world).await;
    let lists = others.end - others.start;
    let (crowded, reads) = beside(&world, others, read, operator).await;
    let rows = rows_read(&world).await - before;
    // A duration depends on what else the machine does; a ratio shows how much the crowd takes.
    let ratio = |one: Duration, other: Duration| one.as_secs_f64() / other.as_secs_f64();
    println!(
        "others' cold lists: p99 {alone:?} alone, {beside_nothing:?} beside {calls} calls for nothing, {crowded:?} beside \
         {reads} reads of the crowd: {:.1} times alone, {:.1} times beside nothing; {rows} rows read",
        ratio(crowded, alone),
        ratio(crowded, beside_nothing)
    );
    assert!(answered.into_inner() > 0, "the load met nobody");
    let most = ROWS_A_REQUEST_MAX * (i64::from(reads) + lists);
    assert!((1..=most).contains(&rows), "{rows} rows for {reads} reads and {lists} lists");
    world.end().await;
}
