//! One fault pages once and soon: what ops/alertmanager.yml holds back for each cause, and how long each step takes.
//! ops/faults.test.yaml tries what fires first.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use devstack::project_root;
use yaml_rust2::{Yaml, YamlLoader};

use crate::platform::full::metrics::{documented, histogram_of};

/// Most seconds from the death of a process to the page: a sale may last ten minutes.
const PAGES_WITHIN: u64 = 20;

/// Seconds after which a process says at the latest that a server is away: the pause between two checks, and the timeout
/// of one (`crates/runtime/src/watch.rs`).
const NOTICED_WITHIN: u64 = 2 + 5;

/// Alerts that say what is wrong. All others may follow from them.
const CAUSES: [&str; 2] = ["ProcessDown", "ServerAway"];

/// Labels that a matcher may name.
const LABELS: [&str; 4] = ["alertname", "process", "server", "severity"];

/// Servers by the words of docs/operate/monitoring.md.
const SERVERS: [(&str, &str); 4] =
    [("mysql", "MySQL"), ("gate", "the gate"), ("view", "the view"), ("kafka", "Kafka")];

/// Alerts that nothing holds back: each needs a step of its own, or tells of something lost.
const NEVER_HELD_BACK: &str = "ProcessDown ServerAway ClocksApart GateDisagreesWithMysql GateNotLoaded ClaimsLost \
     ClaimStatsLost OutboxFull QueuedClaimsFail TailerBinlogExpires ConsumerGap PaymentsFail";

/// What is held back while no process reaches a server, and a quarter of an hour longer.
const WITHOUT_SERVER: [(&str, &str); 4] = [
    (
        "mysql",
        "ReadinessLost ClaimsStuck AdmissionsAbandoned ClaimsShed LandingQueued LandingSlow \
         GateRebuildsFail ApiErrors ApiOverloaded JobStuck ApiPoolEmpty ApiConnectionsNearlyAll \
         QueuedClaimsLate OutboxNotRelayed RelayWorkersMissing RelayRetries ClaimLanderBehind \
         GateDrains QueuedClaimsUnknown TailerNoLeader TailerBehind TailerReconnects \
         ConsumerBehind LagUnknown ConsumerRetries ExpiryShardsUnowned ExpiryLate EndsLate \
         ExpirySweepFinds ExpiryRetries HoldsStayBehind PaymentsDelayed",
    ),
    (
        "gate",
        "ReadinessLost ClaimsStuck AdmissionsAbandoned ClaimsShed SettlingBehind GateRebuildsFail \
         ApiErrors ApiOverloaded JobStuck ApiConnectionsNearlyAll QueuedClaimsLate \
         OutboxNotRelayed RelayWorkersMissing RelayRetries ClaimLanderBehind GateDrains \
         QueuedClaimsUnknown ConsumerBehind LagUnknown ConsumerRetries ExpirySweepFinds \
         PaymentsDelayed",
    ),
    (
        "view",
        "ReadinessLost ApiPoolEmpty ConsumerBehind LagUnknown ConsumerRetries ViewTooSmall \
         ExpirySweepFinds",
    ),
    (
        "kafka",
        "ReadinessLost ApiErrors ApiOverloaded QueuedClaimsLate OutboxNotRelayed \
         RelayWorkersMissing RelayRetries ClaimAppendsFail ClaimLanderBehind GateDrains \
         QueuedClaimsUnknown TailerNoLeader TailerBehind TailerReconnects ConsumerBehind \
         LagUnknown ConsumerRetries ExpiryShardsUnowned ExpiryLate EndsLate ExpirySweepFinds \
         ExpiryRetries HoldsStayBehind PaymentsDelayed",
    ),
];

/// What is held back while no instance of a process is up, and a quarter of an hour longer.
const WITHOUT_PROCESS: [(&str, &str); 6] = [
    ("api", "ClaimsStuck AdmissionsAbandoned JobStuck"),
    (
        "outbox-relay",
        "QueuedClaimsLate OutboxNotRelayed RelayWorkersMissing RelayRetries GateDrains",
    ),
    ("claim-lander", "QueuedClaimsLate ClaimLanderBehind GateDrains LagUnknown PaymentsDelayed"),
    ("cdc-tailer", "TailerNoLeader TailerBehind TailerReconnects LagUnknown ExpirySweepFinds"),
    ("sync-consumer", "ConsumerBehind LagUnknown ConsumerRetries ExpirySweepFinds"),
    (
        "expiry-worker",
        "ExpiryShardsUnowned ExpiryLate EndsLate ExpirySweepFinds ExpiryRetries HoldsStayBehind",
    ),
];

fn names(list: &str) -> Vec<&str> {
    list.split_whitespace().collect()
}

/// The labels of an alert that fires; one that is absent is empty, as for Alertmanager.
#[derive(Debug, Clone, Default)]
struct Firing<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Firing<'a> {
    fn of(alert: &'a str) -> Self {
        Self(BTreeMap::from([("alertname", alert)]))
    }

    fn with(mut self, label: &'a str, value: &'a str) -> Self {
        self.0.insert(label, value);
        self
    }

    fn label(&self, name: &str) -> &str {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// A matcher such as `alertname =~ "One|Other"`. Of patterns ours have alternatives and nothing else.
#[derive(Debug)]
struct Matcher {
    label: String,
    values: Vec<String>,
}

impl Matcher {
    fn read(text: &str) -> Self {
        let (label, rest) = text.split_once('=').unwrap_or_else(|| panic!("{text} compares"));
        let pattern = rest.strip_prefix('~');
        let value = pattern.unwrap_or(rest).trim().trim_matches('"');
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-|".contains(letter);
        assert!(value.chars().all(is_plain), "teach this test what {text} matches");
        assert!(pattern.is_some() || !value.contains('|'), "{text} is no pattern");
        let values = value.split('|').map(str::to_owned).collect();
        Self { label: label.trim().to_owned(), values }
    }

    fn fits(&self, firing: &Firing<'_>) -> bool {
        self.values.iter().any(|value| value == firing.label(&self.label))
    }
}

fn fit(matchers: &[Matcher], firing: &Firing<'_>) -> bool {
    matchers.iter().all(|matcher| matcher.fits(firing))
}

/// One rule of `inhibit_rules`.
#[derive(Debug)]
struct Inhibition {
    sources: Vec<Matcher>,
    targets: Vec<Matcher>,
    equal: Vec<String>,
}

impl Inhibition {
    fn holds_back(&self, target: &Firing<'_>, source: &Firing<'_>) -> bool {
        let is_equal = |label: &String| source.label(label) == target.label(label);
        fit(&self.sources, source) && fit(&self.targets, target) && self.equal.iter().all(is_equal)
    }
}

/// One rule of ops/alerts.yaml.
#[derive(Debug)]
struct Rule {
    alert: String,
    expression: String,
    severity: String,
    /// Seconds.
    waits: u64,
    /// Seconds between two evaluations.
    every: u64,
}

impl Rule {
    /// Returns the processes whose metrics it reads.
    fn exporters(&self) -> BTreeSet<String> {
        let words =
            self.expression.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let words: Vec<&str> = words.collect();
        let reads = |name: &String| {
            words.iter().any(|word| word == name || histogram_of(word) == Some(name.as_str()))
        };
        let processes = documented().into_iter();
        let exporting = processes.filter(|(_, metrics)| metrics.keys().any(reads));
        exporting.map(|(process, _)| process).collect()
    }

    /// Returns whether its alerts name the instance that they are about.
    fn names_instance(&self) -> bool {
        let sums = ["max(", "min(", "sum(", "sum by (", "count by ("];
        self.expression.contains("by (instance)")
            || !sums.iter().any(|sum| self.expression.contains(sum))
    }
}

fn yaml(path: &str) -> Yaml {
    let text = fs::read_to_string(project_root().join(path));
    let text = text.unwrap_or_else(|error| panic!("{path}: {error}"));
    YamlLoader::load_from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}")).remove(0)
}

fn entries(list: &Yaml) -> &[Yaml] {
    list.as_vec().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Yaml) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value:?} is no text"))
}

/// Returns the seconds in `15m`, `5s` and so on; none in what is absent.
fn seconds(duration: &Yaml) -> u64 {
    let Some(duration) = duration.as_str() else { return 0 };
    let (number, unit) = duration.split_at(duration.len() - 1);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        other => panic!("{other} in {duration}"),
    };
    number.parse::<u64>().unwrap() * unit
}

fn matchers(list: &Yaml) -> Vec<Matcher> {
    entries(list).iter().map(|matcher| Matcher::read(text(matcher))).collect()
}

fn inhibitions(manager: &Yaml) -> Vec<Inhibition> {
    let rules = entries(&manager["inhibit_rules"]).iter();
    rules
        .map(|rule| Inhibition {
            sources: matchers(&rule["source_matchers"]),
            targets: matchers(&rule["target_matchers"]),
            equal: entries(&rule["equal"]).iter().map(|label| text(label).to_owned()).collect(),
        })
        .collect()
}

fn rules() -> Vec<Rule> {
    let prometheus = yaml("ops/prometheus.yml");
    let evaluation = seconds(&prometheus["global"]["evaluation_interval"]);
    let alerts = yaml("ops/alerts.yaml");
    let groups = entries(&alerts["groups"]).iter();
    let rules = groups.flat_map(|group| {
        let own = seconds(&group["interval"]);
        let every = if own == 0 { evaluation } else { own };
        entries(&group["rules"]).iter().map(move |rule| (every, rule))
    });
    rules
        .map(|(every, rule)| Rule {
            alert: text(&rule["alert"]).to_owned(),
            expression: text(&rule["expr"]).to_owned(),
            severity: text(&rule["labels"]["severity"]).to_owned(),
            waits: seconds(&rule["for"]),
            every,
        })
        .collect()
}

/// Returns the servers that a process needs or uses, by the table of docs/operate/monitoring.md.
fn servers_of(process: &str) -> Vec<&'static str> {
    let page = fs::read_to_string(project_root().join("docs/operate/monitoring.md")).unwrap();
    let row = page.lines().find(|line| line.starts_with(&format!("| {process} | ")));
    let row = row.unwrap_or_else(|| panic!("{process} needs no server"));
    let named = SERVERS.iter().filter(|(_, word)| row.contains(word));
    named.map(|(server, _)| *server).collect()
}

/// Returns the alerts that are held back while these fire, in the order of ops/alerts.yaml.
fn held_back<'a>(rules: &'a [Rule], by: &[Inhibition], firing: &[Firing<'_>]) -> Vec<&'a str> {
    let is_held = |rule: &&Rule| {
        let at_each = rule.exporters().into_iter().any(|exporter| {
            let target = Firing::of(&rule.alert);
            let target =
                if rule.names_instance() { target.with("instance", &exporter) } else { target };
            let mut pairs = by.iter().flat_map(|one| firing.iter().map(move |it| (one, it)));
            pairs.any(|(one, source)| one.holds_back(&target, source))
        });
        at_each && !CAUSES.contains(&rule.alert.as_str())
    };
    rules.iter().filter(is_held).map(|rule| rule.alert.as_str()).collect()
}

/// Each process is one instance, of the same name.
fn without_server(server: &'static str) -> Vec<Firing<'static>> {
    let processes = WITHOUT_PROCESS.map(|(process, _)| process).into_iter();
    let without = processes.filter(|process| servers_of(process).contains(&server));
    let firing = |process| {
        let of = |alert| Firing::of(alert).with("process", process).with("server", server);
        [of("ServerAway").with("instance", process), of("Aftermath")]
    };
    without.flat_map(firing).collect()
}

fn without_process(process: &'static str) -> Vec<Firing<'static>> {
    let down = Firing::of("ProcessDown").with("process", process).with("instance", process);
    vec![down, Firing::of("Aftermath").with("process", process)]
}

#[test]
fn each_cause_holds_back_what_follows_from_it_and_nothing_else() {
    let manager = yaml("ops/alertmanager.yml");
    let inhibitions = inhibitions(&manager);
    let rules = rules();
    let faults = WITHOUT_SERVER.map(|(server, follows)| (server, without_server(server), follows));
    let deaths =
        WITHOUT_PROCESS.map(|(process, follows)| (process, without_process(process), follows));
    for (cause, firing, follows) in faults.into_iter().chain(deaths) {
        let held = held_back(&rules, &inhibitions, &firing);
        assert_eq!(held, names(follows), "without {cause}");
        for alert in names(NEVER_HELD_BACK) {
            assert!(!held.contains(&alert), "{alert} would be missed without {cause}");
        }
    }
    for alert in names(NEVER_HELD_BACK) {
        assert!(rules.iter().any(|rule| rule.alert == alert), "{alert} is gone");
    }
}

/// One of three apis that lacks MySQL says nothing of the others' landings.
#[test]
fn one_instance_in_trouble_holds_back_what_that_instance_says_and_no_more() {
    let inhibitions = inhibitions(&yaml("ops/alertmanager.yml"));
    let rules = rules();
    let away = Firing::of("ServerAway").with("process", "api").with("server", "mysql");
    let away = away.with("instance", "api");
    assert_eq!(held_back(&rules, &inhibitions, &[away]), ["ReadinessLost"]);
    let down = Firing::of("ProcessDown").with("process", "api").with("instance", "api");
    assert_eq!(held_back(&rules, &inhibitions, &[down]), [""; 0]);
    for rule in inhibitions.iter().filter(|rule| !rule.equal.is_empty()) {
        assert_eq!(rule.equal, ["instance"]);
        let named = rule.targets.iter().flat_map(|target| &target.values);
        for alert in named {
            let rule = rules.iter().find(|rule| rule.alert == *alert).unwrap();
            assert!(rule.names_instance(), "{alert} is of no instance");
        }
    }
}

#[test]
fn every_name_in_the_configuration_of_alertmanager_exists() {
    let manager = yaml("ops/alertmanager.yml");
    let rules = rules();
    let mut all = Vec::new();
    for inhibition in inhibitions(&manager) {
        all.extend(inhibition.sources);
        all.extend(inhibition.targets);
    }
    for route in entries(&manager["route"]["routes"]) {
        all.extend(matchers(&route["matchers"]));
    }
    for matcher in &all {
        assert!(LABELS.contains(&matcher.label.as_str()), "{matcher:?}");
        for value in &matcher.values {
            let value = value.as_str();
            let is_there = match matcher.label.as_str() {
                "alertname" => rules.iter().any(|rule| rule.alert == value),
                "severity" => rules.iter().any(|rule| rule.severity == value),
                "process" => WITHOUT_PROCESS.iter().any(|(process, _)| *process == value),
                _ => value.is_empty() || SERVERS.iter().any(|(server, _)| *server == value),
            };
            assert!(is_there, "{matcher:?}");
        }
    }
    let grouped: Vec<&str> = entries(&manager["route"]["group_by"]).iter().map(text).collect();
    assert_eq!(grouped, ["alertname", "server"], "a server away is one fault for all processes");
    for (process, _) in WITHOUT_PROCESS {
        assert!(documented().contains_key(process) && !servers_of(process).is_empty());
    }
}

/// The receiver of an alert, and how long its group waits: first, and for a newcomer.
struct Told<'a> {
    receiver: &'a str,
    first: u64,
    newcomer: u64,
}

/// Returns who is told of an alert: the first route that fits, else the root.
fn told<'a>(manager: &'a Yaml, rule: &Rule) -> Told<'a> {
    let root = &manager["route"];
    let firing = Firing::of(&rule.alert).with("severity", &rule.severity);
    let mut routes = entries(&root["routes"]).iter();
    let route = routes.find(|route| fit(&matchers(&route["matchers"]), &firing)).unwrap_or(root);
    let wait = |name: &str| match seconds(&route[name]) {
        0 => seconds(&root[name]),
        own => own,
    };
    Told {
        receiver: text(&route["receiver"]),
        first: wait("group_wait"),
        newcomer: wait("group_interval"),
    }
}

#[test]
fn what_is_critical_pages_and_what_warns_waits_for_the_day() {
    let manager = yaml("ops/alertmanager.yml");
    let known: BTreeSet<&str> =
        entries(&manager["receivers"]).iter().map(|receiver| text(&receiver["name"])).collect();
    for rule in rules() {
        let receiver = told(&manager, &rule).receiver;
        let wanted = match rule.severity.as_str() {
            "critical" => "on-call",
            "warning" => "office-hours",
            _ => "nobody",
        };
        assert_eq!(receiver, wanted, "of {}", rule.alert);
        assert!(known.contains(receiver));
    }
}

#[test]
fn a_dead_process_pages_within_seconds_and_a_cause_before_what_follows() {
    let manager = yaml("ops/alertmanager.yml");
    let prometheus = yaml("ops/prometheus.yml");
    let scrape = seconds(&prometheus["global"]["scrape_interval"]);
    let hangs = seconds(&prometheus["global"]["scrape_timeout"]);
    let rules = rules();
    let rule = |name: &str| rules.iter().find(|rule| rule.alert == name).unwrap();

    let down = rule("ProcessDown");
    let to = told(&manager, down);
    let page = scrape + hangs + down.every + down.waits + to.first.max(to.newcomer);
    assert!(page <= PAGES_WITHIN, "a dead process pages after {page} s");
    assert!(down.waits >= scrape && down.waits >= down.every, "one scrape that fails is no death");

    let away = rule("ServerAway");
    let aftermath = rule("Aftermath");
    let known = NOTICED_WITHIN + scrape + away.every + away.waits + aftermath.every;
    for (_, follows) in WITHOUT_SERVER.iter().chain(&WITHOUT_PROCESS) {
        for alert in names(follows) {
            let to = told(&manager, rule(alert));
            assert!(to.first > known, "{alert} is told after {} s, its cause {known} s", to.first);
        }
    }
}
