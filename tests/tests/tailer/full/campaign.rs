//! A short kill campaign of the tailer; `./dev soak tailer` runs longer ones.

use devstack::{Flavor, OwnBroker, TestServers};
use pipeline_tests::tail_campaign;

use crate::tailer::full::servers::start;

const ROUNDS: u32 = 3;

#[tokio::test(flavor = "multi_thread")]
async fn tailers_killed_and_stopped_under_load_publish_exactly_what_the_server_has_committed() {
    campaign(Flavor::Mariadb, ROUNDS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two minutes; ./dev soak tailer --flavor mysql"]
async fn tailers_killed_and_stopped_under_load_publish_exactly_what_a_mysql_has_committed() {
    campaign(Flavor::Mysql, ROUNDS).await;
}

#[expect(clippy::print_stdout, reason = "a failure must say its seed")]
async fn campaign(flavor: Flavor, rounds: u32) {
    let Some(mut own) = start("campaign", flavor, &[]).await else { return };
    let name = format!("campaign-{}", flavor.name());
    let mut scope = TestServers::shared().scope(&name);
    scope.endpoints.database_url = own.url();
    let mut broker = OwnBroker::start(&format!("{name}-broker")).await.unwrap();
    scope.endpoints.kafka_brokers = broker.brokers();
    // A random seed, which a failing round reports.
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let say = |line| println!("{line}");
    let broker = &mut broker.server;
    let database = &mut own.server;
    let totals = tail_campaign::run(scope, broker, database, rounds, seed, say).await;
    println!("{totals}");
    assert!(totals.changes > 0 && totals.duplicates > 0, "no fault met the load: {totals:?}");
}
