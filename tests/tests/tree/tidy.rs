//! Machine-checked rules of the source tree: dependencies, sizes, names, scripts.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};
use devstack::project_root;

/// Most lines of a Rust file, without its tests.
const LINES_MAX: usize = 400;
/// A process's main.rs has fewer lines than this: it only wires parts together.
const MAIN_LINES_MAX: usize = 60;
/// Most lines of the documents that are read first: a screen or two of each.
const DOCUMENT_LINES_MAX: [(&str, usize); 3] =
    [("README.md", 90), ("ARCHITECTURE.md", 150), ("docs/performance.md", 80)];
const PROCESSES: [&str; 6] =
    ["api", "outbox-relay", "claim-lander", "cdc-tailer", "sync-consumer", "expiry-worker"];
/// Packages for development only.
const DEV_ONLY: [&str; 8] =
    ["devstack", "shopper", "testkit", "verifier", "model", "demo", "bench", "pipeline-tests"];
/// Names that say nothing about the content.
const BUCKETS: [&str; 6] = ["utils", "util", "common", "types", "helpers", "misc"];

/// Its errors are the Kafka client's, which print their cause themselves. With `runtime`, the operators' client would
/// be built with the skeleton of a process.
const WITHOUT_REPORT: &str = "topic";
/// How an error would be logged without its causes, or in another form.
const NOT_REPORTED: [&str; 7] =
    ["error = %", "error = ?", "error = format!(", "%error", "?error", "%failure", "?failure"];

/// Each medium's client library, and the only packages that may use it.
const MEDIA: [(&str, &[&str]); 7] = [
    ("sqlx", &["mysql-store"]),
    // bench compares the tailer with the libraries below it.
    ("rdkafka", &["topic", "bench"]),
    ("redis", &["redis-address", "redis-gate", "redis-view"]),
    ("mysql_cdc", &["cdc-tailer", "bench"]),
    ("mysql_common", &["cdc-tailer"]),
    // bench compares the api with a bare route.
    ("axum", &["api", "runtime", "bench"]),
    ("opentelemetry", &["runtime"]),
];

pub(super) fn packages() -> Vec<Package> {
    let manifest = project_root().join("Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().unwrap().packages
}

/// Returns a package's normal dependencies, without those of its tests.
fn built_with(package: &Package) -> BTreeSet<&str> {
    let normal = package.dependencies.iter().filter(|on| on.kind == DependencyKind::Normal);
    normal.map(|on| on.name.as_str()).collect()
}

/// The version in the name of the image is the one that rustup takes there. `rust-toolchain.toml` may say `stable`,
/// whose version changes by itself, only because the image names its own.
#[test]
fn the_image_builds_with_the_toolchain_of_its_name() {
    let dockerfile = fs::read_to_string(project_root().join("ops/Dockerfile")).unwrap();
    let named = |key: &str| -> Vec<&str> {
        let values = dockerfile.lines().filter_map(|line| line.strip_prefix(key));
        values.map(|value| value.split(['-', '@', ' ']).next().unwrap()).collect()
    };
    let [image] = named("FROM rust:")[..] else { panic!("one image with Rust") };
    assert_eq!(named("ENV RUSTUP_TOOLCHAIN="), [image], "ops/Dockerfile names two versions");
    let toolchain = fs::read_to_string(project_root().join("rust-toolchain.toml")).unwrap();
    let channel = toolchain.lines().find_map(|line| line.strip_prefix("channel = ")).unwrap();
    let channel = channel.trim_matches('"');
    assert!(["stable", image].contains(&channel), "rust-toolchain.toml: {channel}, not {image}");
    for package in packages() {
        let oldest = package.rust_version.as_ref().unwrap();
        assert!(*oldest <= image.parse().unwrap(), "{} needs Rust {oldest}", package.name);
    }
}

#[test]
fn each_medium_is_used_by_its_crates_only() {
    for package in packages() {
        let name = package.name.as_str();
        let used = built_with(&package);
        for (library, allowed) in MEDIA {
            let right = !used.contains(library) || allowed.contains(&name);
            assert!(right, "{name} uses {library}, which belongs to {allowed:?}");
        }
    }
}

#[test]
fn vocabulary_and_model_are_pure_and_the_skeleton_has_no_domain_word() {
    for package in packages() {
        let used = built_with(&package);
        match package.name.as_str() {
            "coupon" => {
                let pure = BTreeSet::from(["chrono", "serde", "sha2", "thiserror"]);
                assert!(used.is_subset(&pure), "coupon uses more than {pure:?}: {used:?}");
            }
            "model" => {
                let pure = BTreeSet::from(["chrono", "clap", "coupon"]);
                assert!(used.is_subset(&pure), "model uses more than {pure:?}: {used:?}");
            }
            "runtime" => assert!(!used.contains("coupon"), "runtime knows the domain"),
            _ => {}
        }
    }
}

#[test]
fn what_is_for_developers_is_in_no_process_and_no_process_is_in_another() {
    for package in packages() {
        let name = package.name.as_str();
        let used = built_with(&package);
        for process in PROCESSES {
            assert!(!used.contains(process), "{name} is built with the process {process}");
        }
        if !DEV_ONLY.contains(&name) {
            let dev = DEV_ONLY.into_iter().find(|dev| used.contains(dev));
            assert_eq!(dev, None, "{name} is built with what is for developers");
        }
    }
}

/// The client has the api's rights and reads one topic; other accesses would not be audited.
#[test]
fn the_operators_client_reaches_the_platform_by_the_api_and_the_topic_only() {
    let packages = packages();
    let client = packages.iter().find(|package| package.name.as_str() == "operator-cli").unwrap();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let used: Vec<&str> = built_with(client).intersection(&ours).copied().collect();
    // The vocabulary reaches nothing, and the users of a rehearsal claim by the api as all do.
    assert_eq!(used, ["coupon", "rehearsal", "topic"]);
}

#[test]
fn files_are_short_and_named_after_what_they_hold() {
    for file in rust_files() {
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
        let is_test = file.components().any(|part| part.as_os_str() == "tests");
        assert!(is_test || lines <= LINES_MAX, "{} has {lines} lines", file.display());
        let stem = file.file_stem().unwrap().to_string_lossy();
        let folder = file.parent().unwrap().file_name().unwrap().to_string_lossy();
        let bucket = BUCKETS.into_iter().find(|name| *name == stem || *name == folder);
        assert_eq!(bucket, None, "{} says nothing of what it holds", file.display());
    }
}

/// A file that no module names is not compiled, and its tests do not run.
#[test]
fn each_file_is_part_of_its_crate() {
    let targets = packages().into_iter().flat_map(|package| package.targets);
    let roots: BTreeSet<PathBuf> =
        targets.map(|target| target.src_path.into_std_path_buf()).collect();
    // Peers of the bench are workspaces of their own.
    let is_peer = |file: &PathBuf| file.components().any(|part| part.as_os_str() == "peers");
    for file in rust_files().into_iter().filter(|file| !roots.contains(file) && !is_peer(file)) {
        let is_folder = file.file_name().is_some_and(|name| name == "mod.rs");
        let named = if is_folder { file.parent().unwrap() } else { &file };
        let declaration = format!("mod {}", named.file_stem().unwrap().to_string_lossy());
        // A module `full` stands in the file of the room that it belongs to.
        let folders = named.ancestors().skip(1).take(2);
        let declares = |folder: &Path| {
            let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
            files.filter(|path| path.extension().is_some_and(|found| found == "rs")).any(|path| {
                let text = fs::read_to_string(path).unwrap();
                let rests = text.split(&declaration).skip(1);
                rests.into_iter().any(|rest| rest.starts_with(';') || rest.starts_with(" {"))
            })
        };
        assert!(folders.into_iter().any(declares), "no module names {}", file.display());
    }
}

/// What a newcomer reads first stays short: the details have documents of their own.
#[test]
fn the_first_documents_are_short() {
    for (document, lines_max) in DOCUMENT_LINES_MAX {
        let text = fs::read_to_string(project_root().join(document)).unwrap();
        let lines = text.lines().count();
        assert!(lines <= lines_max, "{document} has {lines} lines, more than {lines_max}");
    }
}

#[test]
fn each_main_says_what_it_reads_writes_and_owns_and_only_wires() {
    for process in PROCESSES {
        let main = project_root().join(process).join("src/main.rs");
        let text = fs::read_to_string(&main).unwrap();
        assert!(text.starts_with("//! Reads "), "{process} does not begin with what it reads");
        let head: String = text.lines().take_while(|line| line.starts_with("//!")).collect();
        for word in ["Writes", "Owns"] {
            assert!(head.contains(word), "{process} does not say what it {word}");
        }
        let lines = text.lines().count();
        assert!(lines < MAIN_LINES_MAX, "{process} has {lines} lines in main.rs");
    }
}

#[test]
fn each_script_is_included_once_and_says_what_it_takes_and_returns() {
    let sources: BTreeMap<PathBuf, String> = rust_files()
        .into_iter()
        .map(|file| (file.clone(), fs::read_to_string(file).unwrap()))
        .collect();
    let scripts = files_under(&project_root().join("lua"), "lua");
    assert!(!scripts.is_empty());
    for script in scripts {
        let path = script.strip_prefix(project_root()).unwrap().display().to_string();
        let included = format!("{path}\")");
        let count: usize = sources.values().map(|text| text.matches(&included).count()).sum();
        assert_eq!(count, 1, "{path} should be included exactly once");
        if !path.contains("/includes/") {
            let text = fs::read_to_string(&script).unwrap();
            let header: String = text.lines().take_while(|line| !is_code(line)).collect();
            for word in ["-- KEYS", "-- ARGV", "-- Returns"] {
                assert!(header.contains(word), "{path} lacks {word} in its header");
            }
        }
    }
}

/// Each use of unsafe code is a single call with its reason (docs/decisions/0016, 0035, 0062).
#[test]
fn three_files_have_unsafe_code() {
    let unsafe_code = concat!("unsafe", " {");
    let files = rust_files().into_iter();
    let with = files.filter(|file| fs::read_to_string(file).unwrap().contains(unsafe_code));
    let with: BTreeSet<PathBuf> = with.collect();
    let known = [
        "api/src/connections/unacked_bytes.rs",
        "cdc-tailer/src/memory.rs",
        "crates/topic/src/client/native.rs",
    ];
    assert_eq!(with, known.map(|file| project_root().join(file)).into());
}

/// The client in `mysql_cdc` loses changes, and so do some of its decoders (docs/decisions/0022).
#[test]
fn the_tailer_uses_only_what_is_safe_of_mysql_cdc() {
    let safe = ["EventHeader", "RotateEvent", "XidEvent", "GtidEvent", "Error"];
    for file in files_under(&project_root().join("cdc-tailer/src"), "rs") {
        let text = fs::read_to_string(&file).unwrap();
        let Some((_, named)) = text.split_once("use mysql_cdc::{") else {
            assert!(!text.contains("mysql_cdc::"), "{} names a part of it", file.display());
            continue;
        };
        assert!(file.ends_with("cdc-tailer/src/binlog/event.rs"), "{} uses it too", file.display());
        let (named, _) = named.split_once("};").unwrap();
        let types = named.split(|c: char| !c.is_alphanumeric()).filter(|word| {
            word.starts_with(char::is_uppercase) && !named.contains(&format!("as {word}"))
        });
        for name in types {
            assert!(safe.contains(&name), "{name} is not known to be right");
        }
    }
}

#[test]
fn errors_are_logged_by_report_with_their_causes() {
    let mut read = 0;
    let mut wrong = Vec::new();
    for package in packages() {
        let name = package.name.as_str();
        if DEV_ONLY.contains(&name) || name == WITHOUT_REPORT {
            continue;
        }
        let src = package.manifest_path.parent().unwrap().as_std_path().join("src");
        for file in files_under(&src, "rs") {
            let text = fs::read_to_string(&file).unwrap();
            read += text.matches("report(&error)").count();
            let product = text.split("\n#[cfg(test)]\nmod tests").next().unwrap();
            let lines = product.lines().zip(1_u32..);
            let lines = lines.filter(|(line, _)| NOT_REPORTED.iter().any(|way| line.contains(way)));
            wrong.extend(lines.map(|(line, at)| format!("{}:{at} {line}", file.display())));
        }
    }
    assert!(wrong.is_empty(), "write `error = report(&error)`: {wrong:#?}");
    assert!(read > 20, "{read}");
}

fn is_code(line: &str) -> bool {
    !line.starts_with("--") && !line.starts_with("#!")
}

/// Returns every Rust file of the workspace's packages.
pub(super) fn rust_files() -> Vec<PathBuf> {
    let folders = packages()
        .into_iter()
        .map(|package| package.manifest_path.parent().unwrap().as_std_path().to_path_buf());
    folders.flat_map(|folder| files_under(&folder, "rs")).collect()
}

pub(super) fn files_under(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files
}
