//! The files in ops/ and compose.yaml: the names in them exist, their tools accept them, and a platform on servers
//! configured by them keeps all invariants.
//!
//! Missing tools are reported and skipped; `ops/install.sh --for-tests` installs those that Debian has.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    io::ErrorKind,
    path::PathBuf,
    process::{Command, Output},
};

use chrono::TimeDelta;
use coupon::{TemplateId, UserId};
use devstack::{
    Endpoints, Flavor, INIT_CONNECT, Options, OwnRedis, Servers, TestServers, if_installed,
    imposed, not_checked, project_root,
};
use mysql_store::{connect, migrate, verify};
use pipeline_tests::{World, until};
use redis_gate::GateRedis;
use reqwest::Method;
use serde_json::{Value, json};
use shopper::{Api, Claimed, NewTemplate};
use testkit::MERCHANT;
use topic::{PaymentMessage, Producer, ProducerOptions};

use crate::platform::{
    full::metrics::{documented, histogram_of},
    metrics_page::tables,
};

/// Prefixes of all our metrics.
const METRIC_STEMS: [&str; 8] = [
    "api_",
    "coupon_",
    "outbox_relay_",
    "claim_lander_",
    "cdc_tailer_",
    "sync_consumer_",
    "expiry_worker_",
    "process_",
];
/// Binary names of the processes.
const PROCESSES: [&str; 6] =
    ["api", "outbox-relay", "claim-lander", "cdc-tailer", "sync-consumer", "expiry-worker"];
/// Highest accepted exposure, of 10 (`systemd-analyze security`): "well protected".
const EXPOSURE_MAX: f64 = 2.0;

fn text(path: &str) -> String {
    fs::read_to_string(project_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a tool; if it is not installed, reports that and returns `None`.
fn tool(name: &str, command: &mut Command) -> Option<Output> {
    devstack::full_only("runs a tool that only the full tier installs");
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

/// Returns the metrics named in a text, histograms by their stem.
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
fn a_metric_to_worry_about_has_an_alert_or_names_the_one_that_tells_of_it() {
    let rules = text("ops/alerts.yaml");
    let expressions: String = rules.lines().filter(|line| line.contains(" expr: ")).collect();
    let watched = metrics_in(&expressions);
    let alerts = alerts_in(&rules);
    for metric in tables().into_iter().flat_map(|(_, table)| table) {
        let (name, Some(worry)) = (metric.name, metric.worry) else { continue };
        let named = worry.split('[').skip(1).filter_map(|link| link.split(']').next());
        let named: Vec<&str> = named.collect();
        assert!(watched.contains(name) || !named.is_empty(), "nobody tells of {name}");
        assert!(named.iter().all(|alert| alerts.contains(alert)), "{name}: {worry}");
    }
}

fn alerts_in(rules: &str) -> Vec<&str> {
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect()
}

#[test]
fn each_alert_says_what_to_do_and_has_its_paragraph() {
    let rules = text("ops/alerts.yaml");
    let runbook = text("docs/operate/runbook.md");
    let paragraphs: Vec<&str> =
        runbook.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    let mut alerts = Vec::new();
    for rule in rules.split("- alert: ").skip(1) {
        let name = rule.lines().next().unwrap();
        for part in ["expr: ", "severity: ", "summary: ", "action: "] {
            assert!(rule.contains(part), "{name} has no {part}");
        }
        let link =
            format!("runbook_url: '{{{{ $externalLabels.runbook }}}}#{}'\n", name.to_lowercase());
        assert!(format!("{rule}\n").contains(&link), "{name} leads nowhere");
        alerts.push(name);
    }
    assert!(alerts.len() > 20);
    assert_eq!(paragraphs, alerts, "the runbook has one section an alert, in their order");
    let tests = text("ops/alerts.test.yaml");
    let tested: Vec<&str> =
        tests.lines().filter_map(|line| line.strip_prefix("  - name: ")).skip(1).collect();
    assert_eq!(tested, alerts, "each alert has a unit test, in their order");
    let prometheus = text("ops/prometheus.yml");
    assert!(prometheus.contains("    runbook: https://"), "links lead nowhere");
    let checks: [(&str, &[&str]); 3] = [
        ("promtool", &["test", "rules", "alerts.test.yaml", "faults.test.yaml"]),
        ("promtool", &["check", "config", "prometheus.yml"]),
        ("amtool", &["check-config", "alertmanager.yml"]),
    ];
    for (name, arguments) in checks {
        let mut command = Command::new(name);
        command.current_dir(project_root().join("ops")).args(arguments);
        if let Some(output) = tool(name, &mut command) {
            assert_accepted(&output);
        }
    }
}

/// Returns the configuration as compose resolves it, without any local environment file.
fn compose_config() -> Option<String> {
    let nothing = own_folder("compose").join("env");
    fs::write(&nothing, "").unwrap();
    let mut command = Command::new("docker-compose");
    command.current_dir(project_root()).arg("--env-file").arg(&nothing);
    command.args(["--profile", "by-hand", "config"]);
    let output = tool("docker-compose", &mut command)?;
    assert_accepted(&output);
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Returns the services of a resolved configuration, each with its lines.
fn services_of(config: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut services: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut inside = false;
    let mut name = "";
    for line in config.lines() {
        if !line.starts_with(' ') {
            inside = line == "services:";
        } else if inside {
            match line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) {
                Some(own) => name = own.trim_end_matches(':'),
                None => services.entry(name).or_default().push(line.trim()),
            }
        }
    }
    services
}

#[test]
fn compose_is_accepted_and_mounts_what_is_there() {
    let compose = text("compose.yaml");
    for mounted in compose.lines().filter_map(|line| line.trim().strip_prefix("- ./")) {
        let file = mounted.split(':').next().unwrap();
        assert!(project_root().join(file).is_file(), "{file} is mounted and not there");
    }
    let Some(config) = compose_config() else { return };
    let services = services_of(&config);
    let others = ["mysql", "mysql-users", "mysql-grants", "redis-gate", "redis-view", "kafka"];
    for name in PROCESSES.iter().chain(&others).chain(&["migrate", "verify"]) {
        assert!(services.contains_key(name), "{name} is not there");
    }
    for (name, lines) in &services {
        let is_looked_after = lines.iter().any(|line| line.starts_with("healthcheck:"));
        assert!(is_looked_after, "{name} is looked after, or says that it is not");
        let image = lines.iter().find_map(|line| line.strip_prefix("image: ")).unwrap();
        assert!(image == "coupon-platform" || is_pinned(image), "{name}: {image}");
    }
    for from in text("ops/Dockerfile").lines().filter_map(|line| line.strip_prefix("FROM ")) {
        let image = from.split(' ').next().unwrap();
        assert!(is_pinned(image), "{image} is not one image for ever");
    }
}

#[test]
fn kustomize_accepts_the_base_and_the_overlay_to_copy() {
    for folder in ["base", "production"] {
        let mut kubectl = Command::new("kubectl");
        kubectl.current_dir(project_root().join("ops/kubernetes")).args(["kustomize", folder]);
        if let Some(output) = tool("kubectl", &mut kubectl) {
            assert_accepted(&output);
        }
    }
}

/// Returns whether a reference names a version for people and a digest for the machine: `name:1.2.3@sha256:…`.
fn is_pinned(image: &str) -> bool {
    let Some((named, digest)) = image.split_once("@sha256:") else { return false };
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_digest
        && named.split_once(':').is_some_and(|(_, version)| version.contains(char::is_numeric))
}

/// The secrets of each container, and of each pod.
pub(crate) const SECRETS: [(&str, &[&str]); 8] = [
    (
        "api",
        &[
            "database_url_api",
            "gate_redis_url",
            "jwt_secret",
            "operator_key",
            "receipt_secret",
            "view_redis_url",
        ],
    ),
    ("outbox-relay", &["database_url_relay", "gate_redis_url"]),
    ("claim-lander", &["database_url_lander", "gate_redis_url"]),
    ("cdc-tailer", &["database_url_tailer"]),
    ("sync-consumer", &["database_url_consumer", "gate_redis_url", "view_redis_url"]),
    ("expiry-worker", &["database_url_worker"]),
    ("migrate", &["database_url_migrate"]),
    ("verify", &["database_url_verify", "gate_redis_url", "view_redis_url"]),
];

#[test]
fn each_container_has_the_secrets_that_it_needs_by_file_and_no_other() {
    let folder = own_folder("secrets");
    fs::remove_dir_all(&folder).unwrap();
    let make = || {
        let mut script = Command::new(project_root().join("ops/make-secrets.sh"));
        assert_accepted(&script.arg(&folder).output().unwrap());
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
        files
            .map(|file| (file.clone(), fs::read_to_string(file).unwrap()))
            .collect::<BTreeMap<_, _>>()
    };
    let made = make();
    assert_eq!(make(), made, "what is there stays");
    let secret = |name: &str| made[&folder.join(name)].trim().to_owned();
    let keys = [
        "mysql_root",
        "mysql_api",
        "mysql_lander",
        "redis_password",
        "jwt_secret",
        "receipt_secret",
        "operator_key",
    ];
    let distinct: BTreeSet<String> = keys.iter().map(|name| secret(name)).collect();
    assert_eq!(distinct.len(), keys.len());
    assert!(secret("database_url_api").contains(&secret("mysql_api")));

    let Some(config) = compose_config() else { return };
    assert!(!made.values().any(|secret| config.contains(secret.trim())));
    for file in config.lines().filter_map(|line| line.trim().strip_prefix("file: ")) {
        let file = file.rsplit('/').next().unwrap();
        assert!(folder.join(file).is_file(), "nobody makes {file}");
    }
    let services = services_of(&config);
    for (service, own) in SECRETS {
        let lines = &services[service];
        let mut names = BTreeSet::new();
        let mut mounted = BTreeSet::new();
        for (at, line) in lines.iter().enumerate() {
            let Some(source) = line.strip_prefix("- source: ") else { continue };
            let target = lines.get(at + 1).and_then(|next| next.strip_prefix("target: "));
            names.insert(source);
            mounted.insert(format!("/run/secrets/{}", target.unwrap_or(source)));
        }
        assert_eq!(names, own.iter().copied().collect(), "{service}");
        let is_name = |name: &str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
        let variables = lines.iter().filter_map(|line| line.split_once(": "));
        // The image's build takes one argument.
        let is_set = |name: &str| is_name(name) && name != "BUILD_COMMIT";
        let variables: Vec<_> = variables.filter(|(name, _)| is_set(name)).collect();
        let files = variables.iter().filter(|(name, _)| name.ends_with("_FILE"));
        let files: BTreeSet<String> = files.map(|(_, file)| (*file).to_owned()).collect();
        assert_eq!(files, mounted, "{service} reads what it is given");
        let process = if service == "migrate" { "api" } else { service };
        let known = variables_of(process);
        for (name, _) in variables {
            let setting = name.strip_suffix("_FILE").unwrap_or(name);
            let is_of_another =
                service == "verify" && ["ADMIN_LISTEN", "LOG_FORMAT"].contains(&name);
            assert!(known.contains(setting) || is_of_another, "{service} does not know {name}");
        }
    }
}

/// Returns the environment variables in a process's `--help`.
fn variables_of(process: &str) -> BTreeSet<String> {
    let binary = built(process);
    let help = Command::new(&binary).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let variables = help.split("[env: ").skip(1);
    variables.map(|rest| rest.split(['=', ']']).next().unwrap().to_owned()).collect()
}

/// Path of a binary beside this test's.
fn built(process: &str) -> PathBuf {
    let own = env::current_exe().unwrap();
    own.ancestors().nth(2).unwrap().join(process)
}

/// Returns the names of the settings in a file of ops/systemd.
fn set_in(file: &str) -> Vec<String> {
    let text = text(&format!("ops/systemd/{file}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect()
}

#[test]
fn every_setting_in_ops_is_one_that_the_process_knows() {
    let all: BTreeSet<String> = PROCESSES.iter().flat_map(|name| variables_of(name)).collect();
    for variable in set_in("platform.env") {
        assert!(all.contains(&variable), "nobody knows {variable}");
    }
    for process in PROCESSES {
        let known = variables_of(process);
        let own = set_in(&format!("{process}.env"));
        for variable in &own {
            assert!(known.contains(variable), "{process} does not know {variable}");
        }
        for needed in ["ADMIN_LISTEN", "DATABASE_URL"] {
            assert!(own.iter().any(|variable| variable == needed), "{process} lacks {needed}");
        }
    }
}

/// A process without its file must not run with another's rights, least of all with those of a migration.
#[test]
fn a_unit_does_not_start_without_the_file_that_names_its_user() {
    let shared = set_in("platform.env");
    assert!(!shared.contains(&"DATABASE_URL".to_owned()), "every process would have that user");
    assert_eq!(set_in("migrate.env"), ["DATABASE_URL"]);
    for (unit, own) in [("coupon@.service", "%i"), ("coupon-migrate.service", "migrate")] {
        let unit_text = text(&format!("ops/systemd/{unit}"));
        let files = unit_text.lines().filter_map(|line| line.strip_prefix("EnvironmentFile="));
        let wanted = ["platform", own].map(|name| format!("/etc/coupon/{name}.env"));
        assert_eq!(files.collect::<Vec<_>>(), wanted, "{unit}: each must be there");
    }
}

/// Returns the packages that a line of the image's build installs, by one of them.
fn packages_with(package: &str) -> BTreeSet<String> {
    let dockerfile = text("ops/Dockerfile");
    let lines = dockerfile.lines().filter_map(|line| line.split_once("--no-install-recommends "));
    let mut lists = lines.map(|(_, list)| list.trim_end_matches(" \\").split(' '));
    let list = lists.find(|list| list.clone().any(|one| one == package));
    list.unwrap_or_else(|| panic!("nothing installs {package}")).map(str::to_owned).collect()
}

#[test]
fn the_guide_names_the_packages_that_the_image_has() {
    let guide = text("docs/operate/install.md");
    let named = |before: &str| -> BTreeSet<String> {
        let (_, rest) = guide.split_once(before).unwrap_or_else(|| panic!("{before} is missing"));
        let list = rest.split(['`', '#']).next().unwrap();
        list.split_whitespace().map(str::to_owned).collect()
    };
    assert_eq!(named("the build needs `"), packages_with("libssl-dev"));
    assert_eq!(named("\napt-get install "), packages_with("libssl3"));
}

#[test]
fn the_image_holds_what_operators_need_and_compose_keeps_it_running() {
    let dockerfile = text("ops/Dockerfile");
    for copied in ["cp ops/ready ops/sign-token /out/", "COPY ops/mysql-grants.sql "] {
        assert!(dockerfile.contains(copied), "the image lacks {copied}");
    }
    assert!(dockerfile.contains("strip --strip-debug /out/*"), "it is several times as large");
    let compose = text("compose.yaml");
    assert!(compose.contains("args: {BUILD_COMMIT: \"${BUILD_COMMIT:-unknown}\"}"));
    assert!(!compose.contains("restart: on-failure"), "SIGTERM ends with 0, also at a reboot");
}

/// What ops/redis-*.conf takes from a client, no page may ask for.
#[test]
fn operators_are_told_no_command_that_our_redis_does_not_have() {
    let mut taken = BTreeSet::new();
    for role in ["gate", "view"] {
        let settings = text(&format!("ops/redis-{role}.conf"));
        let renamed = settings.lines().filter_map(|line| line.strip_prefix("rename-command "));
        taken.extend(renamed.map(|rest| rest.split(' ').next().unwrap().to_owned()));
    }
    assert!(taken.contains("FLUSHALL"), "{taken:?}");
    for page in fs::read_dir(project_root().join("docs/operate")).unwrap() {
        let page = page.unwrap().path();
        let text = fs::read_to_string(&page).unwrap();
        let mut words = text.split(|letter: char| !letter.is_ascii_alphabetic());
        let asked = words.find(|word| taken.contains(*word));
        assert_eq!(asked, None, "{}", page.display());
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

/// Returns a folder of this test; existing files are overwritten.
fn own_folder(name: &str) -> PathBuf {
    let folder = project_root().join(".dev/test/operations").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// `ops/mysql.cnf` as arguments, without the sizes, which are for larger machines.
fn mysql_settings() -> Vec<String> {
    let settings = text("ops/mysql.cnf");
    let settings = settings.lines().filter(|line| !line.starts_with('#'));
    let settings = settings.filter_map(|line| line.split_once(" = "));
    let settings =
        settings.filter(|(name, _)| !name.contains("innodb-") || !name.ends_with("-size"));
    settings.map(|(name, value)| format!("--{name}={value}")).collect()
}

/// The users in `ops/mysql-grants.sql`, named after their processes.
const USERS: [&str; 8] =
    ["migrate", "api", "relay", "lander", "tailer", "consumer", "worker", "verify"];

testkit::on_each_flavor! {
    on_servers_set_by_ops:
    a_platform_on_servers_and_with_rights_that_are_set_by_ops_keeps_its_promises,
    a_platform_on_a_mysql_and_with_rights_that_are_set_by_ops_keeps_its_promises,
}

/// Runs an administrator's statements.
async fn administer(url: &str, statements: &[String]) {
    let mut connection = connect::single(url).await.unwrap();
    for statement in statements {
        let done = verify::execute(&mut connection, statement).await;
        done.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
}

/// Returns the database URL for one of its users.
fn url_of(url: &str, user: &str) -> String {
    let address = url.split_once('@').unwrap().1;
    format!("mysql://coupon_{user}:its%20password@{address}")
}

/// Creates users without privileges (except one to migrate), migrates, and grants the privileges in ops.
async fn migrated_by_ops(endpoints: &Endpoints, administrator: &str) {
    let mut statements = Vec::new();
    for user in USERS {
        statements.push(format!("create user 'coupon_{user}'@'%' identified by 'its password'"));
    }
    let database = endpoints.database();
    statements.push(format!("grant all on `{database}`.* to 'coupon_migrate'@'%'"));
    administer(administrator, &statements).await;
    migrate::run(&url_of(&endpoints.database_url, "migrate")).await.unwrap();
    let grants = text("ops/mysql-grants.sql").replace(" coupon.", &format!(" {database}."));
    let grants: String = grants.lines().filter(|line| !line.starts_with("--")).collect();
    let grants = grants.split(';').filter(|statement| !statement.is_empty()).map(str::to_owned);
    administer(administrator, &grants.collect::<Vec<_>>()).await;
}

/// The database server also gives every new session what somebody else's SQL may like and ours cannot bear.
async fn on_servers_set_by_ops(flavor: Flavor) {
    let folder = own_folder(flavor.name());
    let options = Options { flavor, database_arguments: mysql_settings(), ..Options::default() };
    let started = Servers::start(&folder, &options).await;
    let Some(servers) = if_installed(started, "MySQL as ops sets it") else { return };
    let redis = async |role: &str| {
        let file = project_root().join("ops").join(format!("redis-{role}.conf"));
        OwnRedis::by_file(&format!("{role}-by-file-{}", flavor.name()), &file).await.unwrap()
    };
    let gate = redis("gate").await;
    let view = redis("view").await;
    assert_set(&gate.url(), &[("maxmemory-policy", "noeviction"), ("appendonly", "yes")]);
    assert_set(&view.url(), &[("maxmemory-policy", "allkeys-lru"), ("appendonly", "no")]);
    let refused = GateRedis::connect(&view.url()).await.err().unwrap();
    assert!(refused.to_string().contains("noeviction"), "{refused}");

    let own = servers.endpoints();
    let scope = TestServers::at(Endpoints {
        gate_redis_url: gate.url(),
        view_redis_url: view.url(),
        ..own.clone()
    })
    .scope("by ops");
    let defaults = imposed(flavor).map(|assignment| format!("set global {assignment}"));
    let defaults = defaults.chain([format!("set global init_connect = \"{INIT_CONNECT}\"")]);
    administer(&own.database_url, &defaults.collect::<Vec<_>>()).await;
    migrated_by_ops(&scope.endpoints, &own.database_url).await;
    let mut world = World::start_as(scope, |platform| {
        let url = platform.endpoints.database_url.clone();
        for (process, user) in [
            (&mut platform.apis[0], "api"),
            (&mut platform.relay, "relay"),
            (&mut platform.lander, "lander"),
            (&mut platform.cdc_tailer, "tailer"),
            (&mut platform.sync_consumer, "consumer"),
            (&mut platform.expiry_worker, "worker"),
        ] {
            // From a file, as in containers.
            let file = platform.options.dir.join(format!("url-of-{user}"));
            fs::write(&file, format!("{}\n", url_of(&url, user))).unwrap();
            process.set_env("DATABASE_URL", "");
            process.set_env("DATABASE_URL_FILE", &file.display().to_string());
        }
    })
    .await;
    walk_by_ops(&world).await;
    queue_by_ops(&mut world).await;
    let verified = Command::new(built("verify"))
        .envs(world.scope.endpoints.variables())
        .env("DATABASE_URL", url_of(&world.scope.endpoints.database_url, "verify"))
        .env("KEY_PREFIX", &world.scope.key_prefix)
        .env("TOPIC_PREFIX", &world.scope.topic_prefix)
        .output();
    assert_accepted(&verified.unwrap());
    assert_ready(&world);
    assert_signed_token_is_taken(&world).await;
    world.assert_sound(None).await;
    world.end().await;
    drop(servers);
    fs::remove_dir_all(folder).unwrap();
}

/// Uses the platform as shoppers and operators do, so that each process needs all its privileges.
async fn walk_by_ops(world: &World) {
    let api = world.api();
    let template = world.template(2, |new| NewTemplate { valid_for_ms: 1_500, ..new }).await;
    world.warm_views([1, 2]).await;
    for user in [1, 2, 3] {
        let shopper = api.shopper(UserId(user)).unwrap();
        let status = shopper.claim(template, None, 1).await.unwrap().status;
        assert_eq!(status, if user < 3 { 201 } else { 409 });
    }
    let path = format!("/v1/templates/{template}");
    let merchant = json!({ "name": "A shop" });
    let key = json!({ "name": "till", "scopes": ["redeem"] });
    let till = operate(api, Method::POST, "/v1/api-keys", &key).await;
    let edit = json!({ "version": 2, "valid_for_ms": 2_000, "issued_coupons": "follow" });
    let more = json!({ "delta": 1, "reason": "more" });
    for (method, path, body) in [
        (Method::POST, "/v1/merchants", &merchant),
        (Method::PATCH, &path, &edit),
        (Method::POST, &format!("{path}/stock-movements"), &more),
        (Method::POST, &format!("{path}/pause"), &Value::Null),
        (Method::POST, &format!("{path}/resume"), &Value::Null),
        (Method::POST, &format!("{path}/gate-rebuild"), &Value::Null),
        (Method::POST, &format!("{path}/clone"), &Value::Null),
        (Method::GET, &format!("{path}/coupons?status=unused"), &Value::Null),
        (Method::GET, "/v1/templates?sort=ends_at&include=stock", &Value::Null),
        (Method::POST, "/v1/users/1/view-rebuild", &Value::Null),
        (Method::GET, "/v1/expiry", &Value::Null),
        (Method::GET, "/v1/audit", &Value::Null),
        (Method::GET, "/v1/api-keys", &Value::Null),
        (Method::GET, "/v1/users/1/coupons", &Value::Null),
    ] {
        operate(api, method, path, body).await;
    }
    let copy = operate(api, Method::POST, &format!("{path}/clone"), &Value::Null).await;
    let copy = format!("/v1/templates/{}", copy["id"].as_str().unwrap());
    operate(api, Method::DELETE, &copy, &Value::Null).await;
    let redeemed = world.template(1, |new| new).await;
    let claimed = api.shopper(UserId(9)).unwrap().claim(redeemed, None, 1).await.unwrap();
    let claimed: Claimed = claimed.json().unwrap();
    let till = api.with_operator_key(till["key"].as_str().unwrap());
    let order = json!({ "user_id": "9", "order_ref": "order-1" });
    for verb in ["use", "unuse"] {
        let path = format!("/v1/coupons/{}/{verb}", claimed.coupons[0].id);
        let answer = till.send(till.operator(Method::POST, &path).json(&order)).await.unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    redeem_by_ops(world, &till).await;
    hold_by_ops(world, &till).await;
    world.until(template, |counts| counts.expired == 2).await;
}

/// Holds coupons, which are paid for by a call and by a message, cancelled, or lapse, and moves their validity.
async fn hold_by_ops(world: &World, till: &Api) {
    let api = world.api();
    let hour = TimeDelta::hours(1);
    let held = |new: NewTemplate| NewTemplate { lapses_allowed: Some(1), ..new.held_for(hour) };
    let template = world.template(9, held).await;
    let mut claims = Vec::new();
    for user in 1..=3 {
        let claimed = api.shopper(UserId(user)).unwrap().claim(template, Some("a"), 1).await;
        claims.push(claimed.unwrap().json::<Claimed>().unwrap().id);
    }
    let paid = till.confirm(claims[0], "pay-1", None).await.unwrap();
    assert_eq!(paid.status, 200, "{paid:?}");
    let payment = PaymentMessage {
        claim_id: claims[1],
        merchant_id: MERCHANT,
        payment_ref: "pay-2".to_owned(),
        coupons: None,
    };
    let producer = Producer::connect(&world.sources.brokers, ProducerOptions::default()).await;
    let topic = world.sources.topics.payments();
    let key = payment.key();
    let payload = payment.encode();
    producer.unwrap().send(&topic, None, key.as_bytes(), &payload, &[]).await.unwrap();
    world.until(template, |counts| counts.unused == 2).await;
    assert_eq!(till.cancel(claims[2], "refunded", None).await.unwrap().status, 200);
    assert_eq!(api.lift_ban(template, UserId(3), "none").await.unwrap().status, 200);
    let path = format!("/v1/templates/{template}");
    let edit = json!({ "version": 2, "valid_for_ms": 7_200_000, "issued_coupons": "follow" });
    operate(api, Method::PATCH, &path, &edit).await;
    let look =
        async || operate(api, Method::GET, &format!("{path}/validity-move"), &Value::Null).await;
    until(look, |moved| moved["state"] == "finished").await;
    operate(api, Method::GET, &format!("{path}/ledger"), &Value::Null).await;
    let brief = |new: NewTemplate| new.held_for(TimeDelta::seconds(1));
    let brief = world.template(1, brief).await;
    let lapses = api.shopper(UserId(4)).unwrap().claim(brief, Some("a"), 1).await.unwrap();
    assert_eq!(lapses.status, 201, "{lapses:?}");
    world.until(brief, |counts| counts.lapsed == 1).await;
}

/// Redeems orders, changes single coupons, grants, reports and exports.
async fn redeem_by_ops(world: &World, till: &Api) {
    let api = world.api();
    let template = world.template(9, |new| NewTemplate { per_user_limit: 0, ..new }).await;
    let shopper = api.shopper(UserId(9)).unwrap();
    let mut coupons = Vec::new();
    for number in 1..=4 {
        let claimed = shopper.claim(template, Some(&format!("key-{number}")), 1).await.unwrap();
        coupons.push(claimed.json::<Claimed>().unwrap().coupons[0].id);
    }
    let path = |at: usize, verb: &str| format!("/v1/coupons/{}/{verb}", coupons[at]);
    let order = |name: &str| {
        let coupons = [coupons[0].to_string()];
        json!({ "order_ref": name, "amount": 900, "currency": "EUR", "coupons": coupons })
    };
    let reason = json!({ "reason": "by ops" });
    for (path, body) in [
        (path(0, "validate"), json!({ "amount": 900, "currency": "EUR" })),
        (path(0, "lock"), json!({ "order_ref": "order-2", "for_ms": 60_000 })),
        ("/v1/redemptions".to_owned(), order("order-2")),
        ("/v1/redemptions/order-2/rollback".to_owned(), reason.clone()),
        ("/v1/redemptions/unknown/rollback".to_owned(), reason.clone()),
    ] {
        operate(till, Method::POST, &path, &body).await;
    }
    operate(till, Method::GET, "/v1/redemptions/order-2", &Value::Null).await;
    let later = world.clock.now() + chrono::TimeDelta::days(2);
    let extension = json!({ "valid_until": later, "reason": "by ops" });
    operate(api, Method::POST, &path(1, "extend"), &extension).await;
    operate(api, Method::POST, &path(2, "replace"), &reason).await;
    operate(api, Method::POST, &path(3, "revoke"), &reason).await;
    let owned = format!("/v1/templates/{template}");
    let grants = json!({ "user_ids": ["10", "x"], "reason": "by ops", "from_stock": false });
    let job = operate(api, Method::POST, &format!("{owned}/grants"), &grants).await;
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    let look = async || operate(api, Method::GET, &job, &Value::Null).await;
    until(look, |seen| seen["state"] == "finished").await;
    operate(api, Method::POST, &format!("{job}/cancel"), &reason).await;
    for list in ["report", "timeseries", "movements", "claims"] {
        operate(api, Method::GET, &format!("{owned}/{list}"), &Value::Null).await;
    }
    let export = api.operator(Method::GET, &format!("{owned}/coupons"));
    let export = api.send(export.header("accept", "text/csv")).await.unwrap();
    assert_eq!((export.status, export.body.lines().count()), (200, 7), "{export:?}");
}

/// Lands a queued claim and has another rejected, so that relay and lander need all their privileges.
async fn queue_by_ops(world: &mut World) {
    let template = world.template(2, |new| new.in_mode("queued", "gate")).await;
    queue(world, template, 1).await;
    world.until(template, |counts| counts.all() == 1).await;
    world.platform.lander.pause().unwrap();
    queue(world, template, 2).await;
    let pause = format!("/v1/templates/{template}/pause");
    operate(world.api(), Method::POST, &pause, &json!({ "accepted": "reject" })).await;
    world.platform.lander.resume().unwrap();
}

async fn queue(world: &World, template: TemplateId, user: i64) {
    let shopper = world.api().shopper(UserId(user)).unwrap();
    let answer = shopper.claim(template, None, 1).await.unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
}

async fn operate(api: &Api, method: Method, path: &str, body: &Value) -> Value {
    let request = api.operator(method, path).header("idempotency-key", "by-ops");
    let request = if body.is_null() { request } else { request.json(body) };
    let answer = api.send(request).await.unwrap();
    assert!((200..300).contains(&answer.status), "{path}: {answer:?}");
    answer.json().unwrap_or_default()
}

/// Runs the containers' health check on a ready process, and on a port without a listener.
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

/// Signs a user's token as in a container, and reads that user's list with it.
async fn assert_signed_token_is_taken(world: &World) {
    let mut script = Command::new(project_root().join("ops/sign-token"));
    let signed = script.arg("77").env("JWT_SECRET", &world.platform.options.jwt_secret).output();
    let signed = signed.unwrap();
    assert_accepted(&signed);
    let token = String::from_utf8(signed.stdout).unwrap();
    let request = world.api().anonymous(Method::GET, "/v1/me/coupons").bearer_auth(token.trim());
    assert_eq!(world.api().send(request).await.unwrap().status, 200);
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
