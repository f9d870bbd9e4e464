//! "My coupons" on a cluster whose slots move and whose masters die: every answer is the same as on one server.

use devstack::{OwnCluster, TestServers};
use fastrand::Rng;
use pipeline_tests::{World, until};
use runtime::report;

use crate::coupons::view_readers::{ReaderProgress, USERS, beside_readers};

/// Number of slots that move from the second master, which has those from 5461 on; user 2's is 5649.
const SECONDS: u16 = 200;

/// Number of slots that move from the first master, which has those from 0 on; user 3's is 1584.
const FIRSTS: u16 = 1_600;

#[tokio::test]
async fn whatever_a_cluster_goes_through_each_answer_is_whole_and_shows_nothing_that_ended() {
    let cluster = OwnCluster::start("readers-cluster", &[]).await.unwrap();
    let servers = TestServers::shared().with_view(&cluster.url());
    let world = World::start_on(&servers, "readers cluster", |options| options).await;
    let seed = Rng::new().u64(..);
    println!("seed {seed}");
    let progress = ReaderProgress::default();
    let all = go_through(cluster, &progress);
    // Each user's first view is one rebuild; the cluster's events must cause more.
    let (cluster, answers) = beside_readers(&world, &progress, seed, USERS as f64, all).await;
    println!("{answers}");
    // The verifier's own connections broke too, and reconnect.
    let view = &world.sources.view;
    let users = async || view.users().await.map_err(|error| report(&error));
    until(users, Result::is_ok).await.unwrap();
    world.assert_sound(None).await;
    world.end().await;
    drop(cluster);
}

/// Slots move, a master dies and returns as a replica, and slots move again.
async fn go_through(mut cluster: OwnCluster, progress: &ReaderProgress) -> OwnCluster {
    progress.until_more_answers().await;
    cluster.reshard(1, 2, SECONDS).await.unwrap();
    progress.until_more_answers().await;
    cluster.nodes[1].server.kill().unwrap();
    progress.until_more_answers().await;
    cluster.nodes[1].server.start().await.unwrap();
    cluster.until_whole().await.unwrap();
    progress.until_more_answers().await;
    cluster.reshard(0, 2, FIRSTS).await.unwrap();
    progress.until_more_answers().await;
    cluster
}
