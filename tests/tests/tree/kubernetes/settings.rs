//! Each process gets the settings and secrets that it needs, and no others.

use std::{collections::BTreeSet, net::SocketAddr};

use clap::{Arg, Command, CommandFactory as _};
use serde_json::Value;

use super::base::{
    Base, Settings, container, file, folder, kustomization, labels, list, name, number, pod, ports,
    program, text, texts,
};
use crate::platform::full::operations::SECRETS;

/// Suffix of a variable that names the file of a secret.
const FILE: &str = "_FILE";

/// Settings without a default that the base leaves out: each switches on what not every platform has.
const LEFT_OUT: [&str; 7] = [
    "ALLOWED_ORIGINS",
    "CONSOLE_DIR",
    "JWT_AUDIENCE",
    "JWT_ISSUER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "RUNBOOK_URL",
    "SERVER_ID",
];

/// A value that every setting of an address takes. What is really there is in no file of ours.
const SOME_SECRET: &str = "mysql://user:password@host/database";

/// Returns the command line of a process, which has all of its settings.
fn command_of(process: &str) -> Command {
    match process {
        "api" => api::Config::command(),
        "outbox-relay" => outbox_relay::Config::command(),
        "claim-lander" => claim_lander::Config::command(),
        "cdc-tailer" => cdc_tailer::Config::command(),
        "sync-consumer" => sync_consumer::Config::command(),
        "expiry-worker" => expiry_worker::Config::command(),
        other => panic!("{other} is no process"),
    }
}

/// Returns the default of a process's setting, if there are such a setting and a default.
pub(super) fn default_of(process: &str, setting: &str) -> Option<String> {
    let command = command_of(process);
    let argument = command.get_arguments().find(|argument| variable(argument) == Some(setting))?;
    default(argument)
}

fn default(argument: &Arg) -> Option<String> {
    let default = argument.get_default_values().first()?;
    Some(default.to_str().unwrap().to_owned())
}

fn variable(argument: &Arg) -> Option<&str> {
    argument.get_env()?.to_str()
}

fn is_secret(argument: &Arg) -> bool {
    argument.is_hide_env_values_set()
}

/// Whether a default is one for a process on the machine of its servers, which writes where it likes.
fn is_of_one_machine(argument: &Arg, default: &str) -> bool {
    let is_here = default.contains("127.0.0.") || default.starts_with('/');
    is_here || (is_secret(argument) && default.is_empty())
}

fn is_given(given: &Settings, setting: &str) -> bool {
    given.contains_key(setting) || given.contains_key(&format!("{setting}{FILE}"))
}

#[test]
fn every_setting_of_a_process_is_set_or_has_a_default_in_kubernetes() {
    let base = Base::read();
    for workload in base.of_kind("Deployment") {
        let given = base.settings_of(workload);
        for argument in command_of(program(workload)).get_arguments() {
            let Some(setting) = variable(argument).filter(|_| !argument.is_hide_set()) else {
                continue;
            };
            let serves = match default(argument) {
                Some(default) => !is_of_one_machine(argument, &default),
                None => LEFT_OUT.contains(&setting),
            };
            let process = name(workload);
            assert!(serves || is_given(&given, setting), "{process} needs {setting}");
        }
    }
}

#[test]
fn no_setting_in_kubernetes_is_unknown_to_its_process_or_refused_by_it() {
    let base = Base::read();
    for workload in base.workloads() {
        let process = program(workload);
        let command = command_of(process);
        let find = |setting: &str| {
            command.get_arguments().find(|argument| variable(argument) == Some(setting))
        };
        let words = texts(&container(workload)["command"]).into_iter();
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        for (setting, value) in base.settings_of(workload) {
            let of_file = setting.strip_suffix(FILE).and_then(find);
            let secret = of_file.filter(|argument| is_secret(argument));
            let known = secret.or_else(|| find(&setting).filter(|argument| !is_secret(argument)));
            let known = known.unwrap_or_else(|| panic!("{process} does not know {setting}"));
            let value = if secret.is_some() { SOME_SECRET } else { value.as_str() };
            words.push(format!("--{}={value}", known.get_long().unwrap()));
        }
        if let Err(error) = command.clone().try_get_matches_from(words) {
            panic!("{}: {error}", name(workload));
        }
    }
}

/// The settings that an overlay changes are settings of the base.
#[test]
fn the_overlay_to_copy_changes_what_is_there() {
    let base = Base::read();
    let overlay = kustomization(&folder("production"));
    for generator in list(&overlay["configMapGenerator"]) {
        let map = text(&generator["name"]);
        let users = base.workloads().into_iter().filter(|workload| {
            let mut sources = list(&container(workload)["envFrom"]).iter();
            sources.any(|source| source["configMapRef"]["name"] == map)
        });
        let users: Vec<&Value> = users.collect();
        assert!(!users.is_empty() && generator["behavior"] == "merge", "nothing takes {map}");
        for literal in texts(&generator["literals"]) {
            let (setting, _) = literal.split_once('=').unwrap();
            let is_set = |user: &&Value| base.settings_of(user).contains_key(setting);
            assert!(users.iter().all(is_set), "{map} has no {setting}");
        }
    }
    let images: Vec<&str> = list(&overlay["images"]).iter().map(|it| text(&it["name"])).collect();
    let image = text(&container(base.workloads()[0])["image"]);
    assert_eq!(images, [image]);
}

#[test]
fn each_pod_has_the_secrets_that_its_process_needs_by_file_and_no_other() {
    let base = Base::read();
    assert_eq!(base.of_kind("Secret"), Vec::<&Value>::new(), "secrets are in no file");
    let script = file("ops/kubernetes/secrets.sh");
    for workload in base.workloads() {
        let process = name(workload);
        let volumes = list(&pod(workload)["spec"]["volumes"]).iter();
        let secrets: Vec<&Value> =
            volumes.map(|volume| &volume["secret"]).filter(|secret| !secret.is_null()).collect();
        let [secret] = secrets[..] else { panic!("{process} has one Secret") };
        assert_eq!(text(&secret["secretName"]), process);
        let keys: BTreeSet<&str> =
            list(&secret["items"]).iter().map(|item| text(&item["key"])).collect();

        // As in containers, where the file of an address has the user's name too.
        let (_, own) = SECRETS.iter().find(|(service, _)| *service == process).unwrap();
        let (addresses, others): (Vec<&str>, Vec<&str>) =
            own.iter().copied().partition(|file| file.starts_with("database_url_"));
        let [address] = addresses[..] else { panic!("{process} has one address of MySQL") };
        let expected = others.iter().copied().chain(["database_url"]);
        assert_eq!(keys, expected.collect(), "{process}");

        let mut mounts = list(&container(workload)["volumeMounts"]).iter();
        let mount = mounts.find(|mount| mount["name"] == "secrets").unwrap();
        let mounted = list(&secret["items"])
            .iter()
            .map(|item| format!("{}/{}", text(&mount["mountPath"]), text(&item["path"])));
        let settings = base.settings_of(workload);
        let files = settings.iter().filter(|(name, _)| name.ends_with(FILE));
        let files: BTreeSet<String> = files.map(|(_, file)| file.clone()).collect();
        assert_eq!(files, mounted.collect(), "{process} reads what it is given");

        let line = script.lines().find_map(|line| line.strip_prefix(&format!("secret {process} ")));
        let made: BTreeSet<&str> = line.unwrap_or_default().split(' ').collect();
        let user = address.trim_start_matches("database_url_");
        let expected: BTreeSet<&str> = others.iter().copied().chain([user]).collect();
        assert_eq!(made, expected, "ops/kubernetes/secrets.sh: {process}");
    }
}

/// Returns the port of an address that takes connections from other machines.
fn port_of(given: &Settings, setting: &str) -> u64 {
    let address: SocketAddr = given[setting].parse().unwrap();
    assert!(address.ip().is_unspecified(), "{setting} is for other machines too");
    address.port().into()
}

#[test]
fn processes_listen_where_services_lead() {
    let base = Base::read();
    for workload in base.of_kind("Deployment") {
        let process = name(workload);
        let given = base.settings_of(workload);
        let ports = ports(workload);
        assert_eq!(ports["admin"], port_of(&given, "ADMIN_LISTEN"), "{process}");
        assert_eq!(ports.contains_key("http"), given.contains_key("LISTEN"), "{process}");
        if let Some(http) = ports.get("http") {
            assert_eq!(*http, port_of(&given, "LISTEN"), "{process}");
        }
        let own = labels(&pod(workload)["metadata"]["labels"]);
        let services = base.of_kind("Service").into_iter().filter(|service| {
            let wanted = labels(&service["spec"]["selector"]);
            wanted.iter().all(|(label, value)| own.get(label) == Some(value))
        });
        let mut led_to = BTreeSet::new();
        for port in services.flat_map(|service| list(&service["spec"]["ports"])) {
            let named = text(&port["targetPort"]);
            // A headless name leads to the pod's own port, whatever the Service says.
            assert_eq!(number(&port["port"]), ports[named], "{process}: {port}");
            led_to.insert(named);
        }
        assert_eq!(led_to, ports.keys().copied().collect(), "{process}");
    }
}

#[test]
fn the_apis_ask_each_pod_of_the_other_processes_ready_or_not() {
    let base = Base::read();
    let deployments = base.of_kind("Deployment");
    let api = deployments.iter().find(|workload| name(workload) == "api").unwrap();
    let given = base.settings_of(api);
    let peers: BTreeSet<&str> = given["ADMIN_PEERS"].split(',').collect();
    let mut expected = BTreeSet::new();
    for workload in deployments.iter().filter(|workload| name(workload) != "api") {
        expected.insert(format!("{}:{}", name(workload), ports(workload)["admin"]));
        let services = base.of_kind("Service");
        let service = services.iter().find(|service| name(service) == name(workload)).unwrap();
        assert_eq!(service["spec"]["clusterIP"], "None", "a name for each pod");
        assert_eq!(service["spec"]["publishNotReadyAddresses"], true, "{}", name(workload));
    }
    assert_eq!(peers, expected.iter().map(String::as_str).collect());
}
