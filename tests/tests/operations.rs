//! The files in ops/ and compose.yaml: what they name is there, the tools they are for accept them, and a
//! platform on servers that are set by them keeps its promises.
//!
//! A tool that this machine lacks is named and left out; `ops/install.sh --for-tests` brings what Debian has.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::ErrorKind,
    path::PathBuf,
    process::{Command, Output},
};

use coupon::UserId;
use devstack::{
    Endpoints, Flavor, Options, OwnView, Servers, TestServers, if_installed, not_checked,
    project_root,
};
use mysql_store::{connect, verify};
use pipeline_tests::World;
use redis_gate::GateRedis;
use shopper::NewTemplate;

use crate::metrics::{documented, histogram_of};

/// What every metric of ours begins with.
const METRIC_STEMS: [&str; 5] =
    ["api_", "coupon_", "cdc_tailer_", "sync_consumer_", "expiry_worker_"];
/// The processes, as their binaries are called.
const PROCESSES: [&str; 4] = ["api", "cdc-tailer", "sync-consumer", "expiry-worker"];
/// What systemd calls well protected, of 10 (`systemd-analyze security`).
const EXPOSURE_MAX: f64 = 2.0;

fn text(path: &str) -> String {
    fs::read_to_string(project_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a tool; absent, and said: this machine does not have it.
fn tool(name: &str, command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            not_checked(&format!("what {name} would check, which is not on this machine"));
            None
        }
        Err(error) => panic!("{name}: {error}"),
    }
}

fn assert_accepted(output: &Output) {
    let said = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{}", said.join("\n"));
}

/// The metrics that a text names, histograms by their stem.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let known = documented();
    let is_known = |name: &str| known.values().any(|metrics| metrics.contains_key(name));
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| METRIC_STEMS.iter().any(|stem| word.starts_with(stem)));
    ours.map(|word| histogram_of(word).filter(|name| is_known(name)).unwrap_or(word).to_owned())
        .collect()
}

#[test]
fn alerts_name_only_what_is_exported_and_the_dashboard_shows_all_of_it() {
    let known: BTreeSet<String> =
        documented().into_values().flat_map(BTreeMap::into_keys).collect();
    let alerts = metrics_in(&text("ops/alerts.yaml"));
    assert!(alerts.len() > 20, "{alerts:?}");
    let unknown: Vec<&String> = alerts.difference(&known).collect();
    assert!(unknown.is_empty(), "nobody exports {unknown:?}");
    let dashboard = text("ops/grafana/coupon.json");
    serde_json::from_str::<serde_json::Value>(&dashboard).unwrap();
    let differing: Vec<String> =
        metrics_in(&dashboard).symmetric_difference(&known).cloned().collect();
    assert!(differing.is_empty(), "on the dashboard or exported, not both: {differing:?}");
}

#[test]
fn each_alert_says_what_to_do_and_has_its_paragraph() {
    let rules = text("ops/alerts.yaml");
    let operate = text("docs/operate.md");
    let paragraphs: Vec<&str> =
        operate.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut alerts = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        for part in ["expr: ", "severity: ", "summary: ", "action: "] {
            assert!(rule.contains(part), "{name} has no {part}");
        }
        let link = format!("runbook_url: docs/operate.md#{}\n", name.to_lowercase());
        assert!(format!("{rule}\n").contains(&link), "{name} leads nowhere");
        alerts.push(name);
    }
    assert!(alerts.len() > 20);
    assert_eq!(paragraphs, alerts, "docs/operate.md has one paragraph an alert, in their order");
    let mut promtool = Command::new("promtool");
    promtool.current_dir(project_root().join("ops")).args(["check", "config", "prometheus.yml"]);
    if let Some(output) = tool("promtool", &mut promtool) {
        assert_accepted(&output);
    }
}

#[test]
fn compose_is_accepted_mounts_what_is_there_and_demands_its_secrets() {
    let compose = text("compose.yaml");
    for mounted in compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")) {
        let file = mounted.split(':').next().unwrap();
        assert!(project_root().join(file).is_file(), "{file} is mounted and not there");
    }
    // Not the `.env` that somebody may have beside compose.yaml.
    let nothing = own_folder("compose").join("env");
    fs::write(&nothing, "").unwrap();
    let config = |secrets: &[&str]| {
        let mut command = Command::new("docker-compose");
        command.current_dir(project_root()).arg("--env-file").arg(&nothing).arg("config");
        command.envs(secrets.iter().map(|name| (name, "a-secret-of-this-test")));
        tool("docker-compose", &mut command)
    };
    let secrets = ["MYSQL_PASSWORD", "REDIS_PASSWORD", "JWT_SECRET", "OPERATOR_KEY"];
    let Some(output) = config(&secrets) else { return };
    assert_accepted(&output);
    let config_text = String::from_utf8(output.stdout).unwrap();
    let services = config_text.split("\nvolumes:").next().unwrap();
    let services: Vec<&str> =
        services.split("\n  ").filter(|part| !part.starts_with(' ')).collect();
    let names: Vec<&str> =
        services.iter().filter_map(|part| part.split_once(':')).map(|it| it.0).collect();
    for name in PROCESSES.iter().chain(&["mysql", "redis-gate", "redis-view", "kafka", "migrate"]) {
        assert!(names.contains(name), "{name} is none of {names:?}");
    }
    let health_checks = config_text.matches("\n    healthcheck:").count();
    assert_eq!(health_checks, 9, "every service is looked after, or says that it is not");
    for missing in secrets {
        let rest: Vec<&str> = secrets.into_iter().filter(|name| *name != missing).collect();
        let refused = config(&rest).unwrap();
        assert!(!refused.status.success(), "it starts without {missing}");
    }
}

/// What a process can be told, by `--help`.
fn variables_of(process: &str) -> BTreeSet<String> {
    let binary = built(process);
    let help = Command::new(&binary).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let variables = help.split("[env: ").skip(1);
    variables.map(|rest| rest.split(['=', ']']).next().unwrap().to_owned()).collect()
}

/// The binary beside this test's.
fn built(process: &str) -> PathBuf {
    let own = env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join(process)
}

#[test]
fn every_setting_in_ops_is_one_that_the_process_knows() {
    let all: BTreeSet<String> = PROCESSES.iter().flat_map(|name| variables_of(name)).collect();
    for process in PROCESSES {
        let known = variables_of(process);
        let own = text(&format!("ops/systemd/{process}.env"));
        let common = text("ops/systemd/platform.env");
        let set = |text: &str| -> Vec<String> {
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
        };
        for variable in set(&own) {
            assert!(known.contains(&variable), "{process} does not know {variable}");
        }
        for variable in set(&common) {
            assert!(all.contains(&variable), "nobody knows {variable}");
        }
        let given: BTreeSet<String> = set(&own).into_iter().chain(set(&common)).collect();
        assert!(given.contains("ADMIN_LISTEN") && given.contains("DATABASE_URL"), "{process}");
    }
}

#[test]
fn the_units_are_right_and_well_protected() {
    let folder = own_folder("units");
    let binary = built("api").display().to_string();
    let units = ["coupon@api.service", "coupon-migrate.service"];
    for (unit, file) in units.into_iter().zip(["coupon@.service", "coupon-migrate.service"]) {
        let unit_text = text(&format!("ops/systemd/{file}"));
        let unit_text = unit_text.replace("/usr/local/bin/%i", &binary);
        let unit_text = unit_text.replace("/usr/local/bin/api", &binary);
        fs::write(folder.join(unit), unit_text).unwrap();
    }
    let analyze = |arguments: &[&str]| {
        let mut command = Command::new("systemd-analyze");
        tool("systemd-analyze", command.current_dir(&folder).args(arguments))
    };
    for unit in units.map(|unit| format!("./{unit}")) {
        let Some(verified) = analyze(&["verify", &unit]) else { return };
        assert_accepted(&verified);
        assert!(verified.stderr.is_empty(), "{}", String::from_utf8_lossy(&verified.stderr));
        let security = analyze(&["security", "--offline=true", &unit]).unwrap();
        let security = String::from_utf8(security.stdout).unwrap();
        let exposure = security.split("Overall exposure level for").nth(1).unwrap();
        let exposure = exposure.split(": ").nth(1).unwrap().split(' ').next().unwrap();
        let exposure: f64 = exposure.parse().unwrap();
        assert!(exposure <= EXPOSURE_MAX, "{unit}: {exposure}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// A folder of this test; what it held is overwritten.
fn own_folder(name: &str) -> PathBuf {
    let folder = project_root().join(".dev/test/operations").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// `ops/mysql.cnf` as arguments, but for the sizes, which are for larger machines.
fn mysql_settings() -> Vec<String> {
    let settings = text("ops/mysql.cnf");
    let settings = settings.lines().filter(|line| !line.starts_with('#'));
    let settings = settings.filter_map(|line| line.split_once(" = "));
    let settings =
        settings.filter(|(name, _)| !name.contains("innodb-") || !name.ends_with("-size"));
    settings.map(|(name, value)| format!("--{name}={value}")).collect()
}

#[tokio::test]
async fn a_platform_on_servers_that_are_set_by_ops_keeps_its_promises() {
    on_servers_set_by_ops(Flavor::Mariadb).await;
}

#[tokio::test]
async fn a_platform_on_a_mysql_that_is_set_by_ops_keeps_its_promises() {
    on_servers_set_by_ops(Flavor::Mysql).await;
}

async fn on_servers_set_by_ops(flavor: Flavor) {
    let folder = own_folder(flavor.name());
    let options = Options { flavor, database_arguments: mysql_settings(), ..Options::default() };
    let started = Servers::start(&folder, &options).await;
    let Some(servers) = if_installed(started, "MySQL as ops sets it") else { return };
    let redis = async |role: &str| {
        let file = project_root().join("ops").join(format!("redis-{role}.conf"));
        OwnView::by_file(&format!("{role}-by-file-{}", flavor.name()), &file).await.unwrap()
    };
    let (gate, view) = (redis("gate").await, redis("view").await);
    assert_set(&gate.url(), &[("maxmemory-policy", "noeviction"), ("appendonly", "yes")]);
    assert_set(&view.url(), &[("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")]);
    let refused = GateRedis::connect(&view.url()).await.err().unwrap();
    assert!(refused.to_string().contains("noeviction"), "{refused}");

    let own = servers.endpoints();
    let mut connection = connect::single(&own.database_url).await.unwrap();
    let grants = text("ops/mysql-grants.sql").replace("'coupon'", "'shop'");
    let grants: String = grants.lines().filter(|line| !line.starts_with("--")).collect();
    for statement in [
        "create user 'shop'@'%' identified by 'its password'",
        r"grant all privileges on `t\_%`.* to 'shop'@'%'",
        grants.trim_end_matches(';'),
    ] {
        verify::execute(&mut connection, statement).await.unwrap();
    }
    let address = own.database_url.split_once('@').unwrap().1;
    let servers_of_shop = TestServers::at(Endpoints {
        database_url: format!("mysql://shop:its%20password@{address}"),
        gate_redis_url: gate.url(),
        view_redis_url: view.url(),
        ..own.clone()
    });
    let world = World::start_on(&servers_of_shop, "by ops", |options| options).await;
    let template = world.template(2, |new| NewTemplate { valid_for_ms: 500, ..new }).await;
    world.warm_views([1, 2]).await;
    for user in [1, 2, 3] {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        let status = shopper.claim(template, None, 1).await.unwrap().status;
        assert_eq!(status, if user < 3 { 201 } else { 409 });
    }
    world.until(template, |counts| counts.expired == 2).await;
    assert_ready(&world);
    world.assert_sound(None).await;
    world.end().await;
    drop(servers);
    fs::remove_dir_all(folder).unwrap();
}

/// The health check of the containers, on a process that is ready and on a port where nobody is.
fn assert_ready(world: &World) {
    let ready = |port: u16| {
        let script = project_root().join("ops/ready");
        Command::new(script)
            .args(["127.0.0.1", &port.to_string()])
            .output()
            .unwrap()
            .status
            .success()
    };
    assert!(ready(world.platform.apis[0].address().port()));
    assert!(!ready(1));
}

fn assert_set(url: &str, settings: &[(&str, &str)]) {
    let ask = |arguments: &[&str]| {
        let output = Command::new("redis-cli").args(["-u", url]).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for (name, value) in settings {
        assert_eq!(ask(&["config", "get", name]), format!("{name}\n{value}\n"));
    }
    assert!(ask(&["flushall"]).contains("unknown command"));
}
