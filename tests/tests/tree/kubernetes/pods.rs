//! What a pod runs, may take and may do.

use std::{collections::BTreeSet, time::Duration};

use runtime::process::DRAIN_MAX;
use serde_json::Value;

use super::{
    base::{Base, container, file, list, name, number, pod, ports, program, text, texts},
    settings::default_of,
};

/// Time that threads of a drained process may still take to end (`crates/runtime/src/process.rs`).
const THREADS_MAX: Duration = Duration::from_secs(5);

/// Setting of a process that goes on serving for some seconds after SIGTERM, until no balancer sends to it.
const DRAIN_SECONDS: &str = "DRAIN_SECONDS";

/// Connections to MySQL of each instance, as ops/mysql.cnf says; an api's follow from its settings.
const CONNECTIONS: [(&str, u64); 5] = [
    ("outbox-relay", 5),
    ("claim-lander", 19),
    ("cdc-tailer", 5),
    ("sync-consumer", 5),
    ("expiry-worker", 8),
];

/// Bytes in a unit of memory.
const UNITS: [(&str, u64); 4] =
    [("Mi", 1 << 20), ("Gi", 1 << 30), ("MiB", 1 << 20), ("MB", 1_000_000)];

/// Returns an amount of memory, in bytes.
fn bytes(amount: u64, unit: &str) -> Option<u64> {
    UNITS.iter().find(|(known, _)| *known == unit).map(|(_, bytes)| amount * bytes)
}

/// Returns the memory that a container asks for, or may take.
fn memory(container: &Value, which: &str) -> u64 {
    let written = text(&container["resources"][which]["memory"]);
    let digits = written.trim_end_matches(char::is_alphabetic);
    bytes(digits.parse().unwrap(), &written[digits.len()..]).unwrap()
}

/// Returns the whole number behind `words`.
fn number_after(text: &str, words: &str) -> u64 {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("{words} is missing"));
    rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn setting(process: &str, name: &str) -> u64 {
    default_of(process, name).map_or(0, |default| default.parse().unwrap())
}

#[test]
fn pods_run_the_programs_of_the_image_as_its_user() {
    let base = Base::read();
    let dockerfile = file("ops/Dockerfile");
    let programs = dockerfile.split("target/release/").skip(1);
    let programs: BTreeSet<&str> =
        programs.map(|rest| rest.split_whitespace().next().unwrap()).collect();
    let user = number_after(&dockerfile, "\nUSER ");
    let compose = file("compose.yaml");
    for workload in base.workloads() {
        let container = container(workload);
        assert!(programs.contains(program(workload)), "{}", name(workload));
        let image = format!("\n  image: {}\n", text(&container["image"]));
        assert!(compose.contains(&image), "compose.yaml builds it under this name");
        let security = &pod(workload)["spec"]["securityContext"];
        assert_eq!(number(&security["runAsUser"]), user);
    }
}

#[test]
fn probes_ask_what_the_admin_listener_answers() {
    let base = Base::read();
    let listener = file("crates/runtime/src/admin.rs");
    for workload in base.of_kind("Deployment") {
        let container = container(workload);
        let ports = ports(workload);
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let asked = &container[probe]["httpGet"];
            assert_eq!(asked["path"], path, "{}", name(workload));
            assert!(ports.contains_key(text(&asked["port"])) && asked["port"] == "admin");
            assert!(listener.contains(&format!(".route(\"{path}\"")), "{path} is gone");
        }
        // A readiness that comes late lets a balancer send to an api that cannot answer.
        let readiness = &container["readinessProbe"];
        let noticed = number(&readiness["periodSeconds"]) * number(&readiness["failureThreshold"]);
        assert!(noticed <= 10, "{} is unready for {noticed} s", name(workload));
    }
}

#[test]
fn a_pod_has_the_time_that_its_process_takes_to_end() {
    let base = Base::read();
    let unit = number_after(&file("ops/systemd/coupon@.service"), "\nTimeoutStopSec=");
    let compose = number_after(&file("compose.yaml"), "\n  stop_grace_period: ");
    for workload in base.of_kind("Deployment") {
        let process = name(workload);
        let grace = number(&pod(workload)["spec"]["terminationGracePeriodSeconds"]);
        assert_eq!((grace, grace), (unit, compose), "{process}");
        let serves = Duration::from_secs(setting(program(workload), DRAIN_SECONDS));
        let takes = serves + DRAIN_MAX + THREADS_MAX;
        assert!(Duration::from_secs(grace) >= takes, "{process} takes {takes:?}");
        // It waits for balancers by itself; a pause before SIGTERM would come on top.
        assert!(container(workload)["lifecycle"].is_null(), "{process}");
    }
}

#[test]
fn pods_have_no_rights_and_write_only_where_a_volume_is() {
    let base = Base::read();
    for workload in base.workloads() {
        let process = name(workload);
        let spec = &pod(workload)["spec"];
        assert_eq!(spec["automountServiceAccountToken"], false, "{process}");
        assert_eq!(spec["enableServiceLinks"], false, "{process}");
        assert_eq!(spec["securityContext"]["runAsNonRoot"], true, "{process}");
        assert_eq!(spec["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        for field in ["hostNetwork", "hostPID", "hostIPC", "initContainers"] {
            assert!(spec[field].is_null(), "{process}: {field}");
        }
        let container = container(workload);
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], true, "{process}");
        assert_eq!(security["allowPrivilegeEscalation"], false, "{process}");
        assert_eq!(texts(&security["capabilities"]["drop"]), ["ALL"], "{process}");

        let volumes = list(&spec["volumes"]);
        let find = |wanted: &Value| volumes.iter().find(|volume| volume["name"] == *wanted);
        let mut writable = Vec::new();
        for mount in list(&container["volumeMounts"]) {
            let volume = find(&mount["name"]).unwrap_or_else(|| panic!("{mount} has no volume"));
            if volume["emptyDir"].is_object() {
                writable.push(text(&mount["mountPath"]));
            } else {
                assert_eq!(mount["readOnly"], true, "{process}: {mount}");
            }
        }
        let settings = base.settings_of(workload);
        let spill = settings.get("SPILL_FOLDER").map(String::as_str);
        assert_eq!(writable, spill.into_iter().collect::<Vec<_>>(), "{process}");
    }
}

#[test]
fn pods_ask_for_the_memory_that_was_measured_and_may_take_what_the_unit_allows() {
    let base = Base::read();
    let sizing = file("docs/operate/sizing.md");
    let gigabytes = number_after(&file("ops/systemd/coupon@.service"), "\nMemoryMax=");
    for workload in base.of_kind("Deployment") {
        let process = name(workload);
        let row = sizing.lines().find(|line| line.starts_with(&format!("| `{process}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/operate/sizing.md lacks {process}"));
        let words: Vec<&str> = row.split([' ', ',', ':', ';', ')']).collect();
        let amounts = words.windows(2).filter_map(|pair| bytes(pair[0].parse().ok()?, pair[1]));
        let measured = amounts.max().unwrap_or_else(|| panic!("{row}: no figure"));
        let container = container(workload);
        let request = memory(container, "requests");
        let limit = memory(container, "limits");
        assert!(measured <= request && request <= limit, "{process}: {measured} bytes");
        let unit = bytes(gigabytes, "Gi").unwrap();
        assert!(limit <= unit && (process != "api" || limit == unit), "{process}");
        // Throttling would make answers late.
        assert!(container["resources"]["limits"]["cpu"].is_null(), "{process}");
    }
}

/// Also during an upgrade, when each process has one instance more.
#[test]
fn mysql_takes_the_connections_of_as_many_instances_as_there_may_be() {
    let base = Base::read();
    let of_api = setting("api", "DATABASE_CONNECTIONS") + 2 * setting("api", "LANDERS");
    let scalers = base.of_kind("HorizontalPodAutoscaler");
    let mut taken = 0;
    for workload in base.of_kind("Deployment") {
        let process = name(workload);
        let scaler = scalers.iter().find(|it| it["spec"]["scaleTargetRef"]["name"] == process);
        let instances =
            scaler.map_or(&workload["spec"]["replicas"], |it| &it["spec"]["maxReplicas"]);
        let own = CONNECTIONS.iter().find(|(known, _)| *known == process);
        taken += (number(instances) + 1) * own.map_or(of_api, |(_, connections)| *connections);
    }
    let room = number_after(&file("ops/mysql.cnf"), "\nmax-connections = ");
    assert!(taken <= room, "{taken} connections of {room}");
}
