//! Reads ops/kubernetes as kustomize does, as far as our files need it: resources, patches of whole kinds, and
//! `ConfigMap`s from files of settings. `kubectl kustomize` itself is asked in `platform/full/operations.rs`.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use devstack::project_root;
use serde_json::Value;
use yaml_rust2::{Yaml, YamlLoader};

/// Lists of a pod that a patch adds to, each with the field by which entries are the same. Other lists are replaced.
const ADDED_TO: [(&str, &str); 4] = [
    ("containers", "name"),
    ("ports", "containerPort"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Labels, or what a selector asks of them.
pub(super) type Labels<'a> = BTreeMap<&'a str, &'a str>;

/// Settings by the names of their environment variables.
pub(super) type Settings = BTreeMap<String, String>;

/// The objects that the base makes, and the contents of its `ConfigMap`s.
pub(super) struct Base {
    pub(super) objects: Vec<Value>,
    config_maps: BTreeMap<String, Settings>,
}

impl Base {
    pub(super) fn read() -> Self {
        let folder = folder("base");
        let kustomization = kustomization(&folder);
        let resources = texts(&kustomization["resources"]);
        let mut objects: Vec<Value> =
            resources.iter().flat_map(|file| documents(&folder.join(file))).collect();
        for patch in list(&kustomization["patches"]) {
            let kinds: Vec<&str> = text(&patch["target"]["kind"]).split('|').collect();
            let content = document(&folder.join(text(&patch["path"])));
            for object in objects.iter_mut().filter(|object| kinds.contains(&kind(object))) {
                merge("spec", &mut object["spec"], &content["spec"]);
            }
        }
        let generators = list(&kustomization["configMapGenerator"]).iter();
        let config_maps = generators.map(|generator| {
            let files = texts(&generator["envs"]);
            let settings = files.iter().flat_map(|file| settings(&folder.join(file)));
            (text(&generator["name"]).to_owned(), settings.collect::<Settings>())
        });
        Self { config_maps: config_maps.collect(), objects }
    }

    pub(super) fn of_kind(&self, wanted: &str) -> Vec<&Value> {
        self.objects.iter().filter(|object| kind(object) == wanted).collect()
    }

    /// The objects that run pods.
    pub(super) fn workloads(&self) -> Vec<&Value> {
        [self.of_kind("Deployment"), self.of_kind("Job")].concat()
    }

    /// The settings of a workload's container, from all of its `ConfigMap`s.
    pub(super) fn settings_of(&self, workload: &Value) -> Settings {
        let container = container(workload);
        assert!(container["env"].is_null(), "{}: settings are in ConfigMaps", name(workload));
        let mut given = Settings::new();
        for source in list(&container["envFrom"]) {
            let map = text(&source["configMapRef"]["name"]);
            let settings = self.config_maps.get(map);
            given.extend(settings.unwrap_or_else(|| panic!("no ConfigMap {map}")).clone());
        }
        given
    }
}

/// Path of a folder with a kustomization.
pub(super) fn folder(name: &str) -> PathBuf {
    project_root().join("ops/kubernetes").join(name)
}

pub(super) fn kustomization(folder: &Path) -> Value {
    document(&folder.join("kustomization.yaml"))
}

fn document(path: &Path) -> Value {
    let mut documents = documents(path);
    assert_eq!(documents.len(), 1, "documents of {}", path.display());
    documents.remove(0)
}

/// Returns the text of a file of the project.
pub(super) fn file(path: &str) -> String {
    read(&project_root().join(path))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the documents of a file of YAML.
fn documents(path: &Path) -> Vec<Value> {
    let documents = YamlLoader::load_from_str(&read(path));
    let documents = documents.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    documents.iter().map(json).collect()
}

fn json(yaml: &Yaml) -> Value {
    match yaml {
        Yaml::Null => Value::Null,
        Yaml::Boolean(is) => Value::from(*is),
        Yaml::Integer(number) => Value::from(*number),
        Yaml::String(text) => Value::from(text.as_str()),
        Yaml::Array(entries) => Value::Array(entries.iter().map(json).collect()),
        Yaml::Hash(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                let name = name.as_str().unwrap_or_else(|| panic!("{name:?} names no field"));
                (name.to_owned(), json(value))
            });
            Value::Object(fields.collect())
        }
        Yaml::Real(_) | Yaml::Alias(_) | Yaml::BadValue => {
            panic!("{yaml:?} is in none of our files")
        }
    }
}

/// Returns the lines `NAME=VALUE` of a file of settings.
fn settings(path: &Path) -> Settings {
    let text = read(path);
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Merges a patch into what it is for; `name` is the field's.
fn merge(name: &str, into: &mut Value, patch: &Value) {
    let key = ADDED_TO.iter().find(|(list, _)| *list == name).map(|(_, key)| *key);
    match (&mut *into, patch, key) {
        (Value::Object(into), Value::Object(patch), _) => {
            for (name, value) in patch {
                merge(name, into.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(patch), Some(key)) => {
            for entry in patch {
                match into.iter_mut().find(|known| known[key] == entry[key]) {
                    Some(known) => merge("", known, entry),
                    None => into.push(entry.clone()),
                }
            }
        }
        (into, patch, _) => *into = patch.clone(),
    }
}

pub(super) fn kind(object: &Value) -> &str {
    text(&object["kind"])
}

pub(super) fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// Returns the pod that a workload makes.
pub(super) fn pod(workload: &Value) -> &Value {
    &workload["spec"]["template"]
}

/// Returns the one container of a workload's pods.
pub(super) fn container(workload: &Value) -> &Value {
    let [container] = list(&pod(workload)["spec"]["containers"]) else {
        panic!("{} has one container", name(workload))
    };
    container
}

/// Returns the name of the program that a workload runs.
pub(super) fn program(workload: &Value) -> &str {
    text(&container(workload)["command"][0])
}

/// Returns the ports of a container by name.
pub(super) fn ports(workload: &Value) -> BTreeMap<&str, u64> {
    let ports = list(&container(workload)["ports"]).iter();
    ports.map(|port| (text(&port["name"]), number(&port["containerPort"]))).collect()
}

/// Returns a text. The server refuses a number or a boolean where it wants one, as in labels.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no text"))
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns the entries of a list; none, if it is absent.
pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().map(text).collect()
}

pub(super) fn labels(value: &Value) -> Labels<'_> {
    let labels = value.as_object().into_iter().flatten();
    labels.map(|(name, value)| (name.as_str(), text(value))).collect()
}

#[test]
fn a_patch_adds_to_what_has_names_and_replaces_the_rest() {
    let yaml = |text: &str| json(&YamlLoader::load_from_str(text).unwrap()[0]);
    let mut pod = yaml("containers: [{name: a, command: [x], ports: [{containerPort: 1}]}]");
    let patch =
        yaml("{grace: 4, containers: [{name: a, command: [y, z], ports: [{containerPort: 2}]}]}");
    merge("spec", &mut pod, &patch);
    let merged = "{grace: 4, containers: [{name: a, command: [y, z], \
                  ports: [{containerPort: 1}, {containerPort: 2}]}]}";
    assert_eq!(pod, yaml(merged));
    assert!(kustomization(&folder("production"))["resources"].is_array());
}
