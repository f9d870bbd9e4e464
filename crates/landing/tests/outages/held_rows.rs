//! How a locked row of one template, or a server that takes no writes, affects other claims.

use std::{sync::Arc, time::Instant};

use coupon::{Claim, Template, TemplateId, UserId};
use landing::claims::Answer;
use mysql_store::connect;
use sqlx::Connection;
use testkit::until_true;

use crate::{
    harness::{Process, Rows, Setup, TEMPLATE, USER, World, claim, execute},
    private,
};

/// Number of templates besides [`TEMPLATE`]: enough that the same lander lands some of them.
const OTHERS: i64 = 8;

async fn template(world: &World, id: TemplateId) -> Arc<Template> {
    let mut connection = world.connection().await;
    Arc::new(mysql_store::template::get(&mut connection, id).await.unwrap().unwrap())
}

fn is_landed(answer: &Answer) -> bool {
    matches!(answer, Answer::Landed { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_stock_row_keeps_no_other_template_waiting_and_lands_when_it_is_free() {
    let world = World::open("held row", 100, 5).await;
    let process = Process::start(&world, "a").await;
    let mut others = Vec::new();
    for id in (1..=OTHERS).map(|number| TemplateId(TEMPLATE.0 + number)) {
        world.publish(id, 100, 5).await;
        world.rebuild_gate_of(id).await;
        others.push(template(&world, id).await);
    }
    let mut holder = world.connection().await;
    let mut hold = holder.begin().await.unwrap();
    let sql = format!("select * from template_stock where template_id = {TEMPLATE} for update");
    execute(&mut hold, &sql).await;

    let waiting: Vec<_> =
        (1..=3).map(|user| process.begin(&claim(UserId(user), "held", 1))).collect();
    // Three waves, so that some claims come while the locked template is aside already. All land while the row is
    // locked.
    for wave in ["one", "two", "three"] {
        let claims = others.iter().map(|template| {
            let claim = Claim { template_id: template.id, ..claim(USER, wave, 1) };
            process.claims.claim(Arc::clone(template), claim)
        });
        let answers = futures::future::join_all(claims).await;
        assert!(answers.iter().all(is_landed), "{wave}: {answers:?}");
        let held = waiting.iter().filter(|answer| !answer.is_finished()).count();
        assert_eq!(held, waiting.len(), "{wave}");
    }
    hold.rollback().await.unwrap();
    for answer in waiting {
        let answer = answer.await.unwrap();
        assert!(is_landed(&answer), "{answer:?}");
    }
    // The template lands with the others again, and the stock rows match what landed.
    process.land(&claim(UserId(4), "after", 1)).await;
    let landed = 4 + 3 * OTHERS;
    assert_eq!(world.rows().await, Rows { landed, fences: 0, coupons: landed });
    assert_eq!(world.number("select sum(total - stock) from template_stock").await, landed);
}

async fn status(world: &World, sql: &str) -> i64 {
    let mut connection = connect::single(&world.url).await.unwrap();
    let text: String =
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
    text.parse().unwrap()
}

mod full {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_server_that_takes_no_writes_is_asked_with_pauses_and_the_batch_lands_when_it_does() {
        let servers = private::servers().await;
        let world = private::world(&servers, "takes_no_writes", 10, 2).await;
        // The test's own user may write even if the server is read-only.
        world.execute("drop user if exists lander").await;
        world.execute("create user lander identified by 'lander-secret'").await;
        world.execute("grant select, insert, update on takes_no_writes.* to lander").await;
        let url = world.url.split_once('@').map(|(_, server)| server).unwrap().to_owned();
        let database_url = format!("mysql://lander:lander-secret@{url}");
        let process =
            Process::start_with(&world, |setup: &mut Setup| setup.database_url = database_url)
                .await;
        process.land(&claim(UserId(1), "before", 1)).await;

        let pool = connect::pool(&world.url, 1).await.unwrap();
        let of_pool = async || -> i64 {
            let mut pooled = connect::acquire(&pool).await.unwrap();
            sqlx::query_scalar("select cast(connection_id() as signed)")
                .fetch_one(&mut *pooled)
                .await
                .unwrap()
        };
        let first = of_pool().await;
        assert_eq!(of_pool().await, first);
        world.execute("set global read_only = 1").await;
        of_pool().await;
        assert_ne!(of_pool().await, first, "a demoted server's connection is closed");
        let connections = "select variable_value from information_schema.global_status \
                           where variable_name = 'CONNECTIONS'";
        let asked = "select count(*) from information_schema.processlist where user = 'lander'";
        assert!(world.number(asked).await >= 1);
        let before = status(&world, connections).await;
        let began = Instant::now();
        let answer = process.begin(&claim(USER, "while", 1));
        until_true(async || began.elapsed().as_millis() >= 1_500).await;
        let tries = status(&world, connections).await - before;
        println!("{tries} connections in {:?}", began.elapsed());
        assert!(tries < 40, "{tries} connections in {:?}", began.elapsed());
        assert!(!answer.is_finished());
        world.execute("set global read_only = 0").await;
        let answer = answer.await.unwrap();
        assert!(is_landed(&answer), "{answer:?}");
        assert_eq!(world.rows().await, Rows { landed: 2, fences: 0, coupons: 2 });
    }
}
