//! A short campaign against views; `./dev soak views` runs longer ones.

use devstack::{Flavor, Options, Servers, if_installed, project_root};
use pipeline_tests::view_campaign;

const ROUNDS: u32 = 2;

testkit::on_each_flavor! {
    campaign:
    views_that_are_damaged_and_replayed_while_processes_die_are_mysqls,
    views_of_a_mysql_that_are_damaged_and_replayed_while_processes_die_are_its_own,
}

#[expect(clippy::print_stdout, reason = "a failure must say its seed")]
async fn campaign(flavor: Flavor) {
    let dir = project_root().join(format!(".dev/test/view-campaign-{}", flavor.name()));
    let options = Options { flavor, ..Options::default() };
    let what = "views under faults, on MySQL";
    let Some(mut servers) = if_installed(Servers::start(&dir, &options).await, what) else {
        return;
    };
    // A random seed, which a failing round reports.
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let totals = view_campaign::run_on(&mut servers, ROUNDS, seed, |line| println!("{line}")).await;
    println!("{totals:?}");
    assert!(totals.damages > 0 && totals.lists > 0 && totals.uses > 0, "{totals:?}");
    servers.stop().await.unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
}
