//! `devstack failover`: the primary of a running stack dies, and its replica takes over at the same address.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use devstack::StackReplica;

/// Kills the primary of the stack in `dir`, and promotes its replica. The platform's processes stay as they are.
pub(crate) async fn failover(dir: &Path, env_file: &Path) -> Result<()> {
    let Some(replica) = StackReplica::of(dir)? else {
        bail!(
            "the stack in {} has no replica that could take over: `./dev up --replica` gives it one",
            dir.display()
        );
    };
    let began = Instant::now();
    if replica.is_promoted() {
        println!("An earlier failover was cut short; ending it.");
    } else {
        if !replica.is_following()? {
            bail!(
                "the replica in {} does not run: `./dev up` starts all of the stack",
                dir.display()
            );
        }
        if replica.kill_primary()? {
            println!("killed the primary");
        } else {
            println!("the primary was dead already");
        }
        replica.promote()?;
        println!("the replica has applied all that it received, and follows nobody any more");
    }
    let address = replica.take_over().await?;
    let seconds = began.elapsed().as_secs_f64();
    println!("it is the primary now, at the old one's address {address}, after {seconds:.1} s");
    println!("the old primary's data are in {}", replica.replaced().display());
    print_next_steps(env_file);
    Ok(())
}

fn print_next_steps(env_file: &Path) {
    let file = env_file.display();
    println!();
    println!("Next:");
    println!("  set -a; . {file}; set +a        addresses and keys, as variables");
    println!("  target/debug/coupon health         gates that are not loaded: for a moment, all");
    println!("  curl -s $API_ADMIN_URL/metrics | grep coupon_mysql_failovers_total");
    println!("                                     1 once the api has noticed the other server");
    println!("  the table lost_claim               answered claims that it lacks, if any, in a");
    println!("                                     minute at most; semi-sync loses none");
    println!("  ./dev up --replica                 restarts the stack, with a new replica");
}
