//! An upgrade under load, in the order of docs/operate/backup-upgrade.md: programs of an earlier commit and of this build
//! work together. `./dev soak versions` builds the earlier ones.

mod load;

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::{ArgAction, Parser};
use coupon::{TemplateId, UserId};
use devstack::{Platform, PlatformOptions, Process, Scope, TestServers};
use mysql_store::{connect, verify};
use pipeline_tests::{
    Mode, World, assert_no_panic, clients_of,
    held_sale::{HeldSale, Told},
    histories,
    promises::{Ends, Promises},
};
use runtime::Clock;
use shopper::{Run, Wish};
use verifier::{Sampler, Verdict};

use self::load::{Heard, Load};
use super::stack::program;

/// How an earlier program refuses a schema that it does not know.
const REFUSAL: &str = "the schema is newer than this program";

/// Modes of the held sales, one for each part of the upgrade: the tailers, the other workers, the apis.
const HELD: [Mode; 3] = [("direct", "topic"), ("queued", "topic"), ("queued", "gate")];

/// Modes of the templates that an old and a new api sell out together.
const SCARCE: [Mode; 2] = [("direct", "topic"), ("queued", "topic")];

/// Coupons of each of these.
const SCARCE_STOCK: i64 = 200;

/// Users who want one: twice as many as there are.
const SCARCE_USERS: i64 = 2 * SCARCE_STOCK;

/// Ids of users that no wave of the load reaches.
const SCARCE_FROM: i64 = 1_000_000_000;
const HELD_FROM: i64 = 2_000_000_000;
/// More than the users of a held sale.
const HELD_APART: i64 = 1_000;

/// What `./dev soak versions` says about the earlier programs.
#[derive(Parser)]
struct Earlier {
    /// Their folder.
    #[arg(long, env = "OLD_PROGRAMS")]
    old_programs: Option<PathBuf>,
    /// Whether they read in a migration's row which programs can work with it. Those from before 2026-11-29 do not, and
    /// start on no newer schema.
    #[arg(long, env = "OLD_READS_MARKS", action = ArgAction::Set, default_value_t = true)]
    old_reads_marks: bool,
}

/// The programs of one version.
struct Version {
    folder: PathBuf,
}

/// The two versions of a run.
struct Versions {
    old: Version,
    /// Whether the old programs read in a migration's row which programs can work with it.
    old_reads_marks: bool,
    new: Version,
}

/// What an upgrade leaves.
struct Upgraded {
    world: World,
    /// Leads, as the tailer that was replaced first.
    standby: Process,
    sampler: Sampler,
    sales: Vec<Sale>,
    /// What the users of the scarce templates were told.
    scarce: Run,
}

/// A held sale that is over.
struct Sale {
    held: HeldSale,
    told: Told,
}

#[tokio::test]
#[ignore = "needs the programs of an earlier version; ./dev soak versions"]
async fn two_versions_under_load_keep_every_promise() {
    let versions = Versions::of_the_environment();
    let scope = TestServers::shared().scope("two versions");
    let options = PlatformOptions { apis: 2, ..PlatformOptions::of_test(&scope) };
    let mut platform = Platform::prepare(scope.endpoints.clone(), options).unwrap();
    platform.processes().for_each(|process| versions.old.put_into(process));
    let old_api = versions.old.folder.join("api");
    platform.migrate_with(&old_api).await.unwrap_or_else(|error| panic!("{error}"));
    platform.run().await.unwrap_or_else(|error| panic!("{error}"));
    let clock = Clock::system();
    let load = Load::publish(&clients_of(&platform, &clock), &clock).await;
    let upgrade = async {
        let upgraded = upgrade(platform, scope, &versions, &load).await;
        load.end();
        upgraded
    };
    let (heard, upgraded) = tokio::join!(load.run(), upgrade);
    check(upgraded, heard, &load).await;
}

impl Versions {
    fn of_the_environment() -> Self {
        let earlier = Earlier::try_parse_from(["versions"]);
        let Earlier { old_programs, old_reads_marks } =
            earlier.unwrap_or_else(|error| panic!("{error}"));
        let Some(folder) = old_programs else {
            panic!("there is no earlier version to upgrade from: run `./dev soak versions`")
        };
        let new = program("api").parent().map(Path::to_path_buf).unwrap();
        Self { old: Version { folder }, old_reads_marks, new: Version { folder: new } }
    }

    /// Returns whether the old programs can start on the schema of now, if `newest` is the last migration that they know.
    async fn old_starts(&self, url: &str, newest: i64) -> bool {
        let newer = format!("select count(*) from _sqlx_migrations where version > {newest}");
        let unmarked = format!(
            "{newer} and (description not like '%readable from %' \
             or cast(substring_index(description, 'readable from ', -1) as unsigned) > {newest})"
        );
        let in_the_way = if self.old_reads_marks { unmarked } else { newer };
        number(url, &in_the_way).await == 0
    }
}

impl Version {
    /// Makes a process run this version from its next start on.
    fn put_into(&self, process: &mut Process) {
        // A second process of a program has a number behind its name.
        let numbered = |c: char| c == '-' || c.is_ascii_digit();
        let name = process.name().trim_end_matches(numbered).to_owned();
        process.set_program(self.folder.join(name));
    }

    /// Ends a process in order, and starts this version in its place.
    async fn replace(&self, process: &mut Process) {
        end(process).await;
        self.put_into(process);
        process.start().await.unwrap_or_else(|error| panic!("{error}"));
        say(&format!("{} runs from {}", process.name(), self.folder.display()));
    }

    /// Replaces processes one after another, while claims go on.
    async fn replace_each<const N: usize>(&self, processes: [&mut Process; N], load: &Load) {
        for process in processes {
            self.replace(process).await;
            load.pass().await;
        }
    }
}

/// Ends a process with success; none may have ended by itself. One that was refused at its start does not run.
async fn end(process: &mut Process) {
    let status = process.stop().await.unwrap();
    let is_fine = status.is_none_or(|status| status.success());
    assert!(is_fine, "{} ended with {status:?}", process.name());
}

async fn number(url: &str, sql: &str) -> i64 {
    verify::number(&mut connect::single(url).await.unwrap(), sql).await.unwrap()
}

#[expect(clippy::print_stdout, reason = "a run of minutes says where it is")]
fn say(line: &str) {
    println!("{line}");
}

/// Upgrades a platform of old processes. The rights of ops/mysql-grants.sql are not granted: the test's user has all.
async fn upgrade(platform: Platform, scope: Scope, versions: &Versions, load: &Load) -> Upgraded {
    let new = &versions.new;
    let mut standby = platform.another_tailer("cdc-tailer-2").unwrap();
    versions.old.put_into(&mut standby);
    standby.start().await.unwrap_or_else(|error| panic!("{error}"));
    load.pass().await;

    let url = scope.endpoints.database_url.clone();
    let newest = number(&url, "select max(version) from _sqlx_migrations").await;
    let new_api = new.folder.join("api");
    platform.migrate_with(&new_api).await.unwrap_or_else(|error| panic!("{error}"));
    let old_starts = versions.old_starts(&url, newest).await;
    say(&format!("migrated from {newest}; old programs start on it: {old_starts}"));
    let mut world = World::around(platform, scope).await;
    let sampler = Sampler::start(world.sources.pool.clone());
    load.pass().await;

    let mut sales = Vec::new();
    for (number, mode) in (0..).zip(HELD) {
        let first_user = HELD_FROM + number * HELD_APART;
        sales.push(HeldSale::begin(&world, mode, first_user).await);
    }
    let mut told = Vec::new();
    let during = sales[0].run(&world);
    let tailers = [&mut standby, &mut world.platform.cdc_tailer];
    let (told_first, ()) = tokio::join!(during, new.replace_each(tailers, load));
    told.push(told_first);

    let during = sales[1].run(&world);
    let platform = &mut world.platform;
    let workers = [
        &mut platform.relay,
        &mut platform.lander,
        &mut platform.sync_consumer,
        &mut platform.expiry_worker,
    ];
    let (told_second, ()) = tokio::join!(during, new.replace_each(workers, load));
    told.push(told_second);

    let during = sales[2].run(&world);
    let apis = replace_apis(&mut world, versions, load, old_starts);
    let (told_third, scarce) = tokio::join!(during, apis);
    told.push(told_third);

    let sales = sales.into_iter().zip(told).map(|(held, told)| Sale { held, told }).collect();
    Upgraded { world, standby, sampler, sales, scarce }
}

/// Replaces an api, takes that back, and replaces both. Meanwhile an old and a new api sell templates out. Returns what
/// the users of these were told.
async fn replace_apis(
    world: &mut World,
    versions: &Versions,
    load: &Load,
    old_starts: bool,
) -> Run {
    let new = &versions.new;
    new.replace_each([&mut world.platform.apis[0]], load).await;
    let scarce = sell_out(world).await;

    let first = &mut world.platform.apis[0];
    if old_starts {
        versions.old.replace_each([&mut *first], load).await;
    } else {
        end(first).await;
        versions.old.put_into(first);
        let refusal = first.start().await.unwrap_err().to_string();
        assert!(refusal.contains(REFUSAL), "{refusal}");
        say(&format!("{} is refused the newer schema", first.name()));
    }
    for api in &mut world.platform.apis {
        new.replace_each([api], load).await;
    }
    scarce
}

/// Publishes templates at one version, and sells them out at both: each user claims at both apis at once.
async fn sell_out(world: &World) -> Run {
    let mut templates: Vec<TemplateId> = Vec::new();
    for (mode, after) in SCARCE {
        templates.push(world.template(SCARCE_STOCK, |new| new.in_mode(mode, after)).await);
    }
    let users = SCARCE_FROM..SCARCE_FROM + SCARCE_USERS;
    let wish = |user: i64| {
        let of_user =
            |template: &TemplateId| Wish { copies: 2, ..Wish::one(*template, UserId(user)) };
        templates.iter().map(of_user).collect::<Vec<_>>()
    };
    let run = world.crowd().run(users.flat_map(wish).collect()).await.unwrap();
    assert_eq!(run.given_up, 0, "every user has a final answer");
    for template in templates {
        assert_eq!(world.count(template).await.all(), SCARCE_STOCK, "all of it is sold");
    }
    run
}

/// Checks every promise that either version gave.
async fn check(upgraded: Upgraded, heard: Vec<Heard>, load: &Load) {
    let Upgraded { world, mut standby, sampler, sales, scarce } = upgraded;
    for process in world.platform.apis.iter().chain([&standby]) {
        assert!(process.pid().is_some(), "{} runs", process.name());
    }
    let mut promises = Promises::default();
    for Sale { held, told } in sales {
        let paid = held.check(&world, &told).await;
        assert!(paid > 0, "somebody pays");
        promises.claims.extend(told.promises.claims);
    }
    let mut runs = load.repeat_first().await;
    runs.push(scarce);
    for Heard { template, runs: of_template, redeemed } in heard {
        assert_eq!(world.count(template).await.used, redeemed, "template {template}");
        runs.extend(of_template);
    }
    promises.claims.extend(Promises::of(&runs).claims);
    let accepted = promises.claims.len();
    assert_eq!(promises.kept(&world).await, Ends::all_succeeded(accepted));
    let history = histories(runs);
    let report = world.assert_sound(Some(&history)).await;
    let sampled = sampler.stop().await;
    assert!(matches!(sampled.verdict, Verdict::Holds { .. }), "{sampled}");
    assert_lists_are_complete(&world, load).await;
    say(&format!(
        "{} requests, {accepted} of them answered with 202\n{report}",
        history.records.len()
    ));
    end(&mut standby).await;
    assert_no_panic(&fs::read_to_string(standby.log()).unwrap());
    world.end().await;
}

/// Each reader's list has at each api what MySQL has.
async fn assert_lists_are_complete(world: &World, load: &Load) {
    let mut mysql = world.mysql().await;
    for user in load.readers() {
        let unused =
            format!("select count(*) from user_coupon where user_id = {user} and status = 0");
        let unused = verify::number(&mut mysql, &unused).await.unwrap();
        for api in &world.apis {
            let listed = api.shopper(user).unwrap().all_coupons().await.unwrap();
            assert_eq!(i64::try_from(listed.len()).unwrap(), unused, "user {user}: {listed:?}");
        }
    }
}
