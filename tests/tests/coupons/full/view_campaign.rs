//! A short campaign against views; `./dev soak views` runs longer ones, and on MySQL with `--flavor mysql`.

use devstack::{Options, Servers, project_root};
use pipeline_tests::view_campaign;

const ROUNDS: u32 = 2;

#[tokio::test]
async fn views_that_are_damaged_and_replayed_while_processes_die_are_mysqls() {
    let dir = project_root().join(".dev/test/view-campaign");
    let mut servers = Servers::start(&dir, &Options::default()).await.unwrap();
    // A random seed, which a failing round reports.
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let totals = view_campaign::run_on(&mut servers, ROUNDS, seed, |line| println!("{line}")).await;
    println!("{totals:?}");
    assert!(totals.damages > 0 && totals.lists > 0 && totals.uses > 0, "{totals:?}");
    servers.stop().await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
