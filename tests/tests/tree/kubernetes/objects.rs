//! The objects find each other, and come in the order of an upgrade.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::base::{
    Base, Labels, container, file, folder, kind, kustomization, labels, list, name, number, pod,
    ports, text, texts,
};
use crate::tree::tidy::files_under;

/// Label of an object's process, and of each pod's.
const NAME: &str = "app.kubernetes.io/name";
/// Label of everything in the base.
const PART_OF: &str = "app.kubernetes.io/part-of";
/// Label that puts an object into its place in an upgrade.
const STEP: &str = "upgrade-step";

/// Workloads by the step of an upgrade that docs/operate/backup-upgrade.md says; all others are in step 3.
const STEPS: [(&str, &str); 3] = [("migrate", "1"), ("cdc-tailer", "2"), ("api", "4")];
const STEP_OF_OTHERS: &str = "3";

/// Returns what a label selector asks for. One that asks for nothing would find every pod there is.
fn wanted(selector: &Value) -> Labels<'_> {
    let wanted = labels(&selector["matchLabels"]);
    assert!(!wanted.is_empty(), "{selector}");
    wanted
}

/// Returns the workloads whose pods have these labels.
fn found<'a>(base: &'a Base, wanted: &Labels<'_>) -> Vec<&'a Value> {
    let workloads = base.workloads().into_iter();
    let has = |own: &Labels<'_>| wanted.iter().all(|(label, value)| own.get(label) == Some(value));
    workloads.filter(|workload| has(&labels(&pod(workload)["metadata"]["labels"]))).collect()
}

/// Returns the one workload whose pods have these labels.
fn one<'a>(base: &'a Base, wanted: &Labels<'_>) -> &'a Value {
    let [workload] = found(base, wanted)[..] else { panic!("{wanted:?} is not one workload") };
    workload
}

fn step_of(process: &str) -> &'static str {
    let found = STEPS.iter().find(|(name, _)| *name == process);
    found.map_or(STEP_OF_OTHERS, |(_, step)| *step)
}

#[test]
fn every_file_in_kubernetes_is_listed_and_every_listed_file_is_there() {
    for name in ["base", "production"] {
        let folder = folder(name);
        let kustomization = kustomization(&folder);
        let mut listed = texts(&kustomization["resources"]);
        listed.extend(list(&kustomization["patches"]).iter().map(|patch| text(&patch["path"])));
        for generator in list(&kustomization["configMapGenerator"]) {
            listed.extend(texts(&generator["envs"]));
        }
        let known: BTreeSet<&str> = listed.iter().copied().collect();
        assert_eq!(known.len(), listed.len(), "{name} lists a file twice");
        for listed in known.iter().filter(|listed| folder.join(listed).is_dir()) {
            assert!(folder.join(listed).join("kustomization.yaml").is_file(), "{listed}");
        }
        let files = ["yaml", "env"].into_iter().flat_map(|ending| files_under(&folder, ending));
        let files: BTreeSet<String> = files
            .map(|file| file.strip_prefix(&folder).unwrap().display().to_string())
            .filter(|file| file != "kustomization.yaml")
            .collect();
        let known = known.into_iter().filter(|listed| !folder.join(listed).is_dir());
        assert_eq!(files, known.map(str::to_owned).collect(), "{name}");
    }
    let base = kustomization(&folder("base"));
    assert_eq!(base["namespace"], kustomization(&folder("production"))["namespace"]);
}

#[test]
fn a_workload_finds_its_own_pods_and_no_others() {
    let base = Base::read();
    let mut names = BTreeSet::new();
    for workload in base.workloads() {
        let own = labels(&pod(workload)["metadata"]["labels"]);
        let process = name(workload);
        assert!(names.insert(process), "{process} is there twice");
        assert_eq!(own.get(NAME), Some(&process));
        let objects = labels(&workload["metadata"]["labels"]);
        assert!(own.iter().all(|(label, value)| objects.get(label) == Some(value)), "{process}");
        if kind(workload) == "Deployment" {
            assert_eq!(name(one(&base, &wanted(&workload["spec"]["selector"]))), process);
        }
        for spread in list(&pod(workload)["spec"]["topologySpreadConstraints"]) {
            assert!(found(&base, &wanted(&spread["labelSelector"])).contains(&workload));
            assert!(texts(&spread["matchLabelKeys"]).contains(&NAME), "{process} by itself");
        }
    }
    for object in &base.objects {
        let own = labels(&object["metadata"]["labels"]);
        assert_eq!(own.get(PART_OF), Some(&"coupon"), "{} {}", kind(object), name(object));
    }
}

#[test]
fn each_process_has_a_service_and_a_budget_that_lets_nodes_be_emptied() {
    let base = Base::read();
    let names: BTreeSet<&str> = base.of_kind("Deployment").into_iter().map(name).collect();
    let mut with_service = BTreeSet::new();
    for service in base.of_kind("Service") {
        let process = name(one(&base, &labels(&service["spec"]["selector"])));
        assert_eq!(labels(&service["metadata"]["labels"])[NAME], process);
        with_service.insert(process);
    }
    assert_eq!(with_service, names);
    let mut with_budget = BTreeSet::new();
    for budget in base.of_kind("PodDisruptionBudget") {
        let process = name(one(&base, &wanted(&budget["spec"]["selector"])));
        assert_eq!(name(budget), process);
        assert_eq!(number(&budget["spec"]["maxUnavailable"]), 1, "{process}");
        assert!(with_budget.insert(process), "{process} has two budgets");
    }
    assert_eq!(with_budget, names);
}

/// A Deployment that said a number would set it at each upgrade, whatever the load.
#[test]
fn the_autoscaler_has_the_apis_and_all_others_say_how_many_they_are() {
    let base = Base::read();
    let mut scaled = BTreeMap::new();
    for scaler in base.of_kind("HorizontalPodAutoscaler") {
        let target = &scaler["spec"]["scaleTargetRef"];
        assert_eq!(target["kind"], "Deployment");
        assert!(number(&scaler["spec"]["minReplicas"]) >= 2, "one may fail");
        scaled.insert(text(&target["name"]), name(scaler));
    }
    for workload in base.of_kind("Deployment") {
        let replicas = &workload["spec"]["replicas"];
        match scaled.remove(name(workload)) {
            Some(_) => assert!(replicas.is_null(), "{}", name(workload)),
            None => assert!(number(replicas) >= 2, "{}: one may fail", name(workload)),
        }
        let requests = &container(workload)["resources"]["requests"];
        assert!(requests["cpu"].is_string(), "an autoscaler counts in it");
    }
    assert!(scaled.is_empty(), "nothing is scaled by {scaled:?}");
}

#[test]
fn who_may_reach_a_port_is_said_for_each() {
    let base = Base::read();
    let mut open = BTreeSet::new();
    let mut closed = BTreeSet::new();
    for policy in base.of_kind("NetworkPolicy") {
        let spec = &policy["spec"];
        assert_eq!(texts(&spec["policyTypes"]), ["Ingress"]);
        let pods = found(&base, &wanted(&spec["podSelector"]));
        assert!(!pods.is_empty(), "{} is for nothing", name(policy));
        closed.extend(pods.iter().copied().map(name));
        for rule in list(&spec["ingress"]) {
            for peer in list(&rule["from"]) {
                let outside = &peer["namespaceSelector"];
                let inside = &peer["podSelector"];
                assert!(outside.is_null() != inside.is_null(), "{peer}");
                if outside.is_null() {
                    assert!(!found(&base, &wanted(inside)).is_empty(), "{peer} is nobody");
                } else {
                    assert!(!wanted(outside).is_empty(), "{peer} is everybody");
                }
            }
            for port in list(&rule["ports"]).iter().map(|port| text(&port["port"])) {
                let having = pods.iter().filter(|pod| ports(pod).contains_key(port));
                let having: Vec<&str> = having.copied().map(name).collect();
                assert!(!having.is_empty(), "{} has no port {port}", name(policy));
                open.extend(having.into_iter().map(|process| (process, port)));
            }
        }
    }
    assert_eq!(closed, base.workloads().into_iter().map(name).collect());
    let mut all = BTreeSet::new();
    for workload in base.workloads() {
        all.extend(ports(workload).into_keys().map(|port| (name(workload), port)));
    }
    assert_eq!(open, all, "each port is for somebody");
}

#[test]
fn the_prometheus_operator_scrapes_what_prometheus_scrapes_without_it() {
    let base = Base::read();
    let prometheus = file("ops/prometheus.yml");
    let job = prometheus.lines().find_map(|line| line.trim().strip_prefix("- job_name: ")).unwrap();
    let interval =
        prometheus.lines().find_map(|line| line.trim().strip_prefix("scrape_interval: ")).unwrap();
    let listed = prometheus.split("process: ").skip(1).map(|rest| rest.split('}').next().unwrap());
    let monitors = base.of_kind("ServiceMonitor");
    let [monitor] = monitors[..] else { panic!("one monitor") };
    let [endpoint] = list(&monitor["spec"]["endpoints"]) else { panic!("one endpoint") };
    assert_eq!(endpoint["interval"], interval);
    let timeout =
        prometheus.lines().find_map(|line| line.trim().strip_prefix("scrape_timeout: ")).unwrap();
    assert_eq!(endpoint["scrapeTimeout"], timeout);
    let asked = wanted(&monitor["spec"]["selector"]);
    let mut scraped = BTreeSet::new();
    for service in base.of_kind("Service") {
        let own = labels(&service["metadata"]["labels"]);
        assert!(asked.iter().all(|(label, value)| own.get(label) == Some(value)));
        let has_port =
            list(&service["spec"]["ports"]).iter().any(|it| it["name"] == endpoint["port"]);
        if has_port {
            assert_eq!(own[text(&monitor["spec"]["jobLabel"])], job);
            assert!(scraped.insert(own[NAME]), "{} is scraped twice", own[NAME]);
        }
    }
    assert_eq!(scraped, listed.collect());
    let [relabeling] = list(&endpoint["relabelings"]) else { panic!("one relabeling") };
    let label = NAME.replace(['.', '/', '-'], "_");
    let source = format!("__meta_kubernetes_service_label_{label}");
    assert_eq!(texts(&relabeling["sourceLabels"]), [source.as_str()]);
    assert_eq!(relabeling["targetLabel"], "process");
}

#[test]
fn an_upgrade_goes_in_the_documented_order() {
    let base = Base::read();
    for object in &base.objects {
        let own = labels(&object["metadata"]["labels"]);
        // Objects of no process, such as policies, are there before the processes.
        let expected = own.get(NAME).map_or("1", |process| step_of(process));
        assert_eq!(own.get(STEP), Some(&expected), "{} {}", kind(object), name(object));
    }
    let kustomization = kustomization(&folder("base"));
    for generator in list(&kustomization["configMapGenerator"]) {
        let map = text(&generator["name"]);
        let expected = if map == "platform" { "1" } else { step_of(map) };
        assert_eq!(labels(&generator["options"]["labels"])[STEP], expected, "{map}");
    }
    let page = file("docs/operate/kubernetes.md");
    let command = format!("-l {STEP}=");
    let commands = page.split(&command).skip(1);
    let mut documented: Vec<&str> =
        commands.map(|rest| rest.split_whitespace().next().unwrap()).collect();
    documented.dedup();
    assert_eq!(documented, ["1", "2", "3", "4"], "the commands of docs/operate/kubernetes.md");
}
