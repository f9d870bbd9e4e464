//! Stock rows that another session keeps locked, such as a console that was left open.

use mysql_store::{connect, verify};

use crate::harness::{Harness, claim};

/// Locks rows in as many partitions as landers are at work; one more partition is free.
#[tokio::test(flavor = "multi_thread")]
async fn locked_stock_rows_in_some_partitions_keep_no_other_partition_waiting() {
    let test = Harness::new("lander locked rows").await;
    let templates = test.templates_on_all_partitions(10).await;
    let [one, two, three, free] = templates[..] else { panic!("{templates:?}") };
    let mut console = connect::single(&test.scope.endpoints.database_url).await.unwrap();
    let lock = format!(
        "begin; select stock from template_stock where template_id in ({one}, {two}, {three}) for update"
    );
    verify::execute(&mut console, &lock).await.unwrap();
    let lander = test.start();
    test.queue(&[claim(one, 1), claim(two, 2), claim(three, 3)]).await;
    test.queue(&[claim(free, 4), claim(free, 5)]).await;
    let landed = "select count(*) from user_coupon";
    testkit::until(async || test.number(landed).await, |landed| *landed == 2).await;
    verify::execute(&mut console, "rollback").await.unwrap();
    test.caught_up().await;
    assert_eq!(test.counts().await, (5, 0, 5));
    lander.stop().await.unwrap();
}
