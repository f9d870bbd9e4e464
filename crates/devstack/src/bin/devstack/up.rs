//! `devstack up` and `down`: a whole platform that keeps running, for manual use.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use devstack::{
    EnvFile, Flavor, Options, Platform, PlatformOptions, REHEARSAL, Replication, Servers,
    StackReplica, Tie, records, rehearse,
};

use crate::servers::{ended_line, wipe_folder};

/// Record names of the processes of a platform with one api.
const PLATFORM: [&str; 6] =
    ["api", "cdc-tailer", "claim-lander", "expiry-worker", "outbox-relay", "sync-consumer"];
/// Secrets of a stack.
const KEYS: [&str; 3] = ["JWT_SECRET", "RECEIPT_SECRET", "OPERATOR_KEY"];
/// Bytes of a generated key: 192 bits, infeasible to guess.
const KEY_BYTES: usize = 24;

/// What the command line says about the servers; by default they are as in the folder.
pub(crate) struct Wanted {
    pub(crate) flavor: Option<Flavor>,
    pub(crate) replica: Option<Replication>,
    /// Whether small sales are held.
    pub(crate) rehearse: bool,
}

/// Starts servers and platform detached, unless all of them already run.
pub(crate) async fn up(dir: &Path, env_file: &Path, wanted: Wanted) -> Result<()> {
    end_promotion(dir).await?;
    let flavor = flavor_of(dir, wanted.flavor)?;
    let has = StackReplica::of(dir)?.map(|replica| replica.replication());
    let replica = wanted.replica.or(has);
    let running = records::running(dir)?;
    let rehearses = running.iter().any(|name| name == REHEARSAL);
    let more = usize::from(has.is_some()) + usize::from(rehearses);
    let processes = PLATFORM.len() + records::SERVERS + more;
    let is_whole = running.len() == processes && env_file.exists();
    if is_whole && replica == has {
        println!("It runs already, in {}.", dir.display());
        let env = EnvFile::read(env_file)?;
        if wanted.rehearse && !rehearses {
            rehearse(dir, &env)?;
        }
        return print_next_steps(dir, &env);
    }
    if !running.is_empty() {
        if is_whole {
            println!("It runs with other settings of replication; starting all of it again.");
        } else {
            println!("Only part of it runs ({}); starting all of it again.", running.join(", "));
        }
        records::end_all(dir).await?;
    }
    let began = Instant::now();
    let with = replica.map(|replica| format!(" with a replica ({})", replica.name()));
    let with = with.unwrap_or_default();
    println!("starting {flavor}{with}, two Redis and Kafka in {}", dir.display());
    let options = Options { tie: Tie::Detached, flavor, replica, ..Options::default() };
    let mut servers = Servers::start(dir, &options).await?;
    println!("migrating, and starting {}", PLATFORM.join(", "));
    let keys = keys(dir)?;
    let options = PlatformOptions {
        tie: Tie::Detached,
        jwt_secret: keys.get("JWT_SECRET")?.to_owned(),
        receipt_secret: keys.get("RECEIPT_SECRET")?.to_owned(),
        operator_key: keys.get("OPERATOR_KEY")?.to_owned(),
        ..PlatformOptions::new(dir)
    };
    let mut platform = Platform::start(servers.endpoints(), options).await?;
    let env = env_of(&platform, env_file);
    env.write()?;
    platform.let_go();
    servers.let_go();
    if wanted.rehearse {
        rehearse(dir, &env)?;
    }
    println!("It runs, after {:.1} s.", began.elapsed().as_secs_f64());
    print_next_steps(dir, &env)
}

/// Ends a failover that was cut short: the promoted replica has the stack's data.
async fn end_promotion(dir: &Path) -> Result<()> {
    let Some(replica) = StackReplica::of(dir)?.filter(StackReplica::is_promoted) else {
        return Ok(());
    };
    println!("A failover was cut short; its replica is the primary from now on.");
    records::end_all(dir).await?;
    Ok(replica.move_data()?)
}

/// Returns the database server that the stack in `dir` has or will have. Its gates, views and topics are
/// derived from one server's data and would be wrong beside another's.
fn flavor_of(dir: &Path, wanted: Option<Flavor>) -> Result<Flavor> {
    let has_data = |flavor: &Flavor| dir.join(flavor.name()).exists();
    let there = [Flavor::Mariadb, Flavor::Mysql].into_iter().find(has_data);
    match (wanted, there) {
        (Some(wanted), Some(there)) if wanted != there => bail!(
            "the stack in {} has its data in {there}: end it with `./dev down --wipe` to begin anew on {wanted}, or \
             give another --dir",
            dir.display()
        ),
        (wanted, there) => Ok(wanted.or(there).unwrap_or_default()),
    }
}

/// Stops all processes of the stack.
pub(crate) async fn down(dir: &Path, env_file: &Path, wipe: bool) -> Result<()> {
    let ended = records::end_all(dir).await?;
    println!("{}", ended_line(&ended));
    // Addresses without a listener would mislead.
    if env_file.exists() {
        fs::remove_file(env_file)
            .with_context(|| format!("could not remove {}", env_file.display()))?;
    }
    if wipe {
        wipe_folder(dir)?;
        println!("removed {}", dir.display());
    }
    Ok(())
}

/// Returns the stack's secrets: generated once and kept with its data, so that tokens and receipts survive a
/// restart. A stack of an earlier version gets those that it lacks.
fn keys(dir: &Path) -> Result<EnvFile> {
    let path = dir.join("keys");
    let mut keys = if path.exists() { EnvFile::read(path)? } else { EnvFile::new(path) };
    let missing: Vec<&str> = KEYS.into_iter().filter(|name| keys.get(name).is_err()).collect();
    for name in &missing {
        keys.set(name, &random_key()?);
    }
    if !missing.is_empty() {
        keys.write()?;
    }
    Ok(keys)
}

fn random_key() -> Result<String> {
    let mut bytes = [0; KEY_BYTES];
    File::open("/dev/urandom")
        .and_then(|mut random| random.read_exact(&mut bytes))
        .context("could not read /dev/urandom")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn env_of(platform: &Platform, path: &Path) -> EnvFile {
    let mut env = EnvFile::new(path);
    env.set("API_URL", platform.api_url());
    env.set_endpoints(&platform.endpoints);
    env.set("OPERATOR_KEY", &platform.options.operator_key);
    env.set("JWT_SECRET", &platform.options.jwt_secret);
    for (variable, process) in [
        ("API_ADMIN_URL", &platform.apis[0]),
        ("OUTBOX_RELAY_ADMIN_URL", &platform.relay),
        ("CLAIM_LANDER_ADMIN_URL", &platform.lander),
        ("CDC_TAILER_ADMIN_URL", &platform.cdc_tailer),
        ("SYNC_CONSUMER_ADMIN_URL", &platform.sync_consumer),
        ("EXPIRY_WORKER_ADMIN_URL", &platform.expiry_worker),
    ] {
        env.set(variable, &format!("http://{}", process.address()));
    }
    env
}

fn print_next_steps(dir: &Path, env: &EnvFile) -> Result<()> {
    let file = env.path().display();
    println!();
    for variable in [
        "API_URL",
        "DATABASE_URL",
        "GATE_REDIS_URL",
        "VIEW_REDIS_URL",
        "KAFKA_BROKERS",
        "API_ADMIN_URL",
        "OUTBOX_RELAY_ADMIN_URL",
        "CLAIM_LANDER_ADMIN_URL",
        "CDC_TAILER_ADMIN_URL",
        "SYNC_CONSUMER_ADMIN_URL",
        "EXPIRY_WORKER_ADMIN_URL",
    ] {
        println!("  {variable:<24} {}", env.get(variable)?);
    }
    println!();
    println!("The console: {}/console", env.get("API_URL")?);
    println!("  sign in with             {}", env.get("OPERATOR_KEY")?);
    if records::running(dir)?.iter().any(|name| name == REHEARSAL) {
        let dir = dir.display();
        println!("  a small sale begins in it every few minutes: {dir}/{REHEARSAL}.log");
    }
    println!();
    println!("Next:");
    println!("  set -a; . {file}; set +a        these and the keys, as variables");
    println!("  target/debug/coupon --help         steers it: docs/operator-cli.md");
    println!("  curl -s -H \"Authorization: Bearer $(./dev token 42)\" $API_URL/v1/me/coupons");
    println!("  curl -s $API_ADMIN_URL/metrics     what the api counts; the others have it too");
    println!("  tail -f {}/*.log", dir.display());
    println!("  ./dev verify                       the invariants, checked on this stack");
    if StackReplica::of(dir)?.is_some() {
        println!("  ./dev failover                     kills the primary; its replica takes over");
    }
    println!("  ./dev down                         ends it; --wipe forgets its data");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_keeps_the_server_that_has_its_data_and_says_how_to_begin_anew() {
        let dir =
            devstack::project_root().join(format!("target/tmp/flavor-{}", std::process::id()));
        let flavor = |wanted| flavor_of(&dir, wanted);
        assert_eq!(flavor(None).unwrap(), Flavor::Mariadb);
        assert_eq!(flavor(Some(Flavor::Mysql)).unwrap(), Flavor::Mysql);
        fs::create_dir_all(dir.join(Flavor::Mysql.name())).unwrap();
        assert_eq!(flavor(None).unwrap(), Flavor::Mysql);
        assert_eq!(flavor(Some(Flavor::Mysql)).unwrap(), Flavor::Mysql);
        let refused = flavor(Some(Flavor::Mariadb)).unwrap_err().to_string();
        assert!(
            refused.contains("has its data in MySQL") && refused.contains("--wipe"),
            "{refused}"
        );
        fs::remove_dir_all(&dir).unwrap();
    }
}
