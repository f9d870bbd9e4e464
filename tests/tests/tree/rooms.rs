//! The plan of the tree: no folder holds more files than a reader overlooks, and no two rooms of a crate depend on each
//! other, directly or around a corner. A room is a folder of `src`, or a file beside the folders.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use devstack::project_root;

use super::tidy::{files_under, packages};

/// Most Rust files in one folder.
const FILES_MAX: usize = 17;

/// One file a target, as cargo-fuzz wants them.
const FLAT: &str = "fuzz/fuzz_targets";

/// A path below `crate`, by its segments.
type ModulePath = Vec<String>;

#[test]
fn no_folder_holds_more_files_than_a_reader_overlooks() {
    let mut counts: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for package in packages() {
        for file in files_under(package.manifest_path.parent().unwrap().as_std_path(), "rs") {
            *counts.entry(file.parent().unwrap().to_path_buf()).or_default() += 1;
        }
    }
    counts.retain(|folder, count| !folder.ends_with(FLAT) && *count > FILES_MAX);
    assert!(counts.is_empty(), "split these folders: {counts:#?}");
}

#[test]
fn no_rooms_depend_on_each_other_in_a_circle() {
    for package in packages() {
        let src = package.manifest_path.parent().unwrap().as_std_path().join("src");
        if src.join("lib.rs").exists() {
            let circle = circle(&dependencies(&src));
            assert_eq!(circle, Vec::<String>::new(), "a circle of rooms in {}", package.name);
        }
    }
}

/// The rooms that each room of a crate uses.
fn dependencies(src: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let exported = exported(&fs::read_to_string(src.join("lib.rs")).unwrap());
    let mut dependencies: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files_under(src, "rs") {
        let inside = file.strip_prefix(src).unwrap();
        let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
        let room = first.trim_end_matches(".rs").to_owned();
        // Binaries and the crate's root stand above all rooms; fuzz entries and tests reach into any.
        if ["bin", "lib", "main", "fuzz", "tests"].contains(&room.as_str()) || is_test(inside) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let used = used_paths(text.split("\n#[cfg(test)]\nmod tests").next().unwrap());
        let rooms = used.iter().filter_map(|path| {
            let first = path.first()?;
            Some(exported.get(first).unwrap_or(first).clone())
        });
        dependencies.entry(room.clone()).or_default().extend(rooms.filter(|other| *other != room));
    }
    dependencies
}

fn is_test(inside: &Path) -> bool {
    let text = inside.to_string_lossy();
    text.ends_with("tests.rs") || text.contains("/tests/") || text.ends_with("_clients.rs")
}

/// Names that a crate's root exports, each with the room that it comes from.
fn exported(root: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for statement in root.split("\npub use ").skip(1) {
        let tree = statement.split(';').next().unwrap();
        for path in paths(tree) {
            let name = path.last().unwrap();
            let name = name.rsplit(" as ").next().unwrap();
            names.insert(name.to_owned(), path[0].clone());
        }
    }
    names
}

/// Every path below `crate` that a text names.
fn used_paths(text: &str) -> Vec<ModulePath> {
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        found.extend(paths(&code[at + "crate::".len()..]));
    }
    found
}

/// The paths of a `use` tree, or the one path, that a text begins with.
fn paths(text: &str) -> Vec<ModulePath> {
    let mut found = Vec::new();
    let mut outer = Vec::<ModulePath>::new();
    let mut open = ModulePath::new();
    let mut word = String::new();
    let close = |word: &mut String, open: &ModulePath, found: &mut Vec<ModulePath>| {
        let name = std::mem::take(word);
        if !name.trim().is_empty() {
            found.push([open.clone(), vec![name.trim().to_owned()]].concat());
        }
    };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            ':' if chars.peek() == Some(&':') => {
                chars.next();
                open.push(std::mem::take(&mut word).trim().to_owned());
            }
            '{' if word.trim().is_empty() => outer.push(open.clone()),
            ',' if !outer.is_empty() => {
                close(&mut word, &open, &mut found);
                open.clone_from(outer.last().unwrap());
            }
            '}' if !outer.is_empty() => {
                close(&mut word, &open, &mut found);
                outer.pop();
                if outer.is_empty() {
                    return found;
                }
                open.clone_from(outer.last().unwrap());
            }
            c if c.is_alphanumeric() || c == '_' || (c.is_whitespace() && !outer.is_empty()) => {
                word.push(c);
            }
            _ => break,
        }
    }
    close(&mut word, &open, &mut found);
    if found.is_empty() && !open.is_empty() {
        found.push(open);
    }
    found
}

/// A circle, room by room; empty if there is none.
fn circle(dependencies: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    fn walk(
        room: &str,
        way: &mut Vec<String>,
        done: &mut BTreeSet<String>,
        dependencies: &BTreeMap<String, BTreeSet<String>>,
    ) -> Option<Vec<String>> {
        if let Some(at) = way.iter().position(|before| before == room) {
            return Some(way[at..].to_vec());
        }
        if !done.insert(room.to_owned()) {
            return None;
        }
        way.push(room.to_owned());
        let next = dependencies.get(room).into_iter().flatten();
        let found = next.filter_map(|next| walk(next, way, done, dependencies)).next();
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    let mut found =
        dependencies.keys().filter_map(|room| walk(room, &mut Vec::new(), &mut done, dependencies));
    found.next().unwrap_or_default()
}

#[test]
fn a_use_tree_and_a_circle_are_read() {
    let read = |text| used_paths(text).iter().map(|path| path.join("::")).collect::<Vec<_>>();
    let tree = "use crate::{auth::{self, jwks::{Key, Set}}, config::Config};\nfn f() { crate::http::go(1) }";
    let paths = ["auth::self", "auth::jwks::Key", "auth::jwks::Set", "config::Config", "http::go"];
    assert_eq!(read(tree), paths);
    assert_eq!(read("// crate::no::comment\nlet x = other_crate::no;"), Vec::<String>::new());
    let map = |pairs: &[(&str, &str)]| {
        let mut map: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in pairs {
            map.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        map
    };
    assert_eq!(circle(&map(&[("a", "b"), ("b", "c"), ("a", "c")])), Vec::<String>::new());
    assert_eq!(circle(&map(&[("a", "b"), ("b", "c"), ("c", "b")])), ["b", "c"]);
    assert_eq!(exported("mod a;\npub use a::{B, c::D as E};\n")["E"], "a");
}

#[test]
fn every_crate_with_rooms_is_looked_at() {
    let api = dependencies(&project_root().join("api/src"));
    assert!(api.len() > 8 && api["routes"].contains("auth"), "{api:#?}");
}
