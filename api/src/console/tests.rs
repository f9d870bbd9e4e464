use std::{collections::BTreeSet, fs, path::Path};

use axum::{
    body::{Body, to_bytes},
    http::Request,
};
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use sha2::{Digest as _, Sha256};

use super::*;

/// Most bytes that a browser receives before the console is there: a second on a slow line.
const SENT_BYTES_MAX: usize = 250 * 1000;

/// Most lines of a module that we wrote.
const MODULE_LINES_MAX: usize = 200;

/// Most files in one folder.
const FILES_MAX: usize = 17;

/// What is beside the console's files and not sent.
const NOT_SENT: [&str; 3] = ["README.md", "calls/answers.js", "vendor/SHA256SUMS"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("console")
}

/// Returns the names of all files below the folder.
fn names_below(folder: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
                names.insert(name);
            }
        }
    }
    names
}

fn text_of(name: &str) -> &'static str {
    let source = files::SOURCES.iter().find(|source| source.name == name).unwrap();
    std::str::from_utf8(source.bytes).unwrap()
}

fn scripts() -> impl Iterator<Item = &'static str> {
    files::SOURCES.iter().map(|source| source.name).filter(|name| name.ends_with(".js"))
}

fn is_ours(name: &str) -> bool {
    !name.starts_with("vendor/")
}

async fn get(console: &Arc<Console>, path: &str, header: Option<(&str, &str)>) -> Response {
    let service = TowerToHyperService::new(routes::<()>(console));
    let mut request = Request::builder().uri(path).header("accept-encoding", "identity");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    service.call(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn text(answer: Response) -> String {
    let bytes = to_bytes(answer.into_body(), SENT_BYTES_MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn in_program() -> Arc<Console> {
    Console::of(&ConsoleSettings::default()).unwrap()
}

#[test]
fn every_file_of_the_folder_is_in_the_program() {
    let mut named: BTreeSet<String> =
        files::SOURCES.iter().map(|source| source.name.to_owned()).collect();
    assert_eq!(named.len(), files::SOURCES.len(), "a file is named twice");
    named.extend(NOT_SENT.map(str::to_owned));
    assert_eq!(named, names_below(&folder()));
}

#[test]
fn the_whole_console_is_small_and_its_modules_are_short() {
    let sent: usize = PACKED.values().map(PackedFile::sent_bytes).sum();
    assert!(sent <= SENT_BYTES_MAX, "{sent} bytes are sent");
    for name in scripts().filter(|name| is_ours(name)) {
        let lines = text_of(name).lines().count();
        assert!(lines <= MODULE_LINES_MAX, "{name} has {lines} lines");
    }
    let folders = files::SOURCES.iter().map(|source| Path::new(source.name).parent().unwrap());
    for folder in folders.clone().collect::<BTreeSet<_>>() {
        let count = folders.clone().filter(|other| *other == folder).count();
        assert!(count <= FILES_MAX, "{} has {count} files", folder.display());
    }
}

/// What others wrote is what they published, byte for byte, and has its licence beside it.
#[test]
fn vendored_files_are_unchanged_and_licensed() {
    let sums = fs::read_to_string(folder().join("vendor/SHA256SUMS")).unwrap();
    let listed: BTreeSet<String> = sums
        .lines()
        .map(|line| {
            let [sum, name] = line.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            let bytes = fs::read(folder().join("vendor").join(name)).unwrap();
            let digest = Sha256::digest(&bytes);
            let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, sum, "{name} was changed");
            name.to_owned()
        })
        .collect();
    let mut there = names_below(&folder().join("vendor"));
    there.remove("SHA256SUMS");
    assert_eq!(listed, there);
    for (library, words) in
        [("htm", "Apache License"), ("preact", "The MIT License"), ("uplot", "The MIT License")]
    {
        assert!(text_of(&format!("vendor/LICENSE-{library}")).contains(words), "{library}");
    }
}

#[test]
fn the_page_has_nothing_inline_and_names_each_module_and_nobody_else() {
    let page = text_of(PAGE);
    let tags = page.split('<').filter(|tag| tag.starts_with("script"));
    for tag in tags {
        let [head, inside] = tag.split('>').collect::<Vec<_>>()[..] else { panic!("{tag}") };
        assert!(head.contains(" src=\"console/") && inside.is_empty(), "<{tag}");
    }
    for inline in ["<style", " style=", " onclick=", " onload=", "javascript:", "http:", "https:"] {
        assert!(!page.contains(inline), "{inline}");
    }
    let loaded = |name: &str| page.contains(&format!("\"console/{name}\""));
    for name in scripts() {
        assert!(loaded(name), "the browser learns of {name} only when another module names it");
    }
    let named = page.split("\"console/").skip(1).map(|rest| rest.split('"').next().unwrap());
    for name in named {
        assert!(PACKED.contains_key(name), "{name} is no file of the console");
    }
}

#[test]
fn our_modules_make_no_markup_from_text_and_import_only_files_that_are_there() {
    for name in scripts().filter(|name| is_ours(name)) {
        let text = text_of(name);
        for unsafe_way in
            ["innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "new Function"]
        {
            assert!(!text.contains(unsafe_way), "{name} uses {unsafe_way}");
        }
        let above = Path::new(name).parent().unwrap();
        for rest in text.split(" from '").skip(1) {
            let imported = rest.split('\'').next().unwrap();
            let mut parts: Vec<&str> = above.iter().map(|part| part.to_str().unwrap()).collect();
            for part in imported.split('/') {
                match part {
                    "." => {}
                    ".." => assert!(parts.pop().is_some(), "{name} imports {imported}"),
                    part => parts.push(part),
                }
            }
            assert!(PACKED.contains_key(parts.join("/").as_str()), "{name} imports {imported}");
        }
    }
}

#[tokio::test]
async fn every_answer_forbids_foreign_and_inline_scripts_and_frames() {
    let console = in_program();
    for path in ["/console", "/console/app.js", "/console/settings.json", "/console/none.js"] {
        let answer = get(&console, path, None).await;
        let policy = answer.headers()[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        for rule in ["default-src 'none'", "script-src 'self'", "style-src 'self'"] {
            assert!(policy.split("; ").any(|found| found == rule), "{path}: {policy}");
        }
        assert!(
            policy.contains("frame-ancestors 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert_eq!(answer.headers()[header::X_FRAME_OPTIONS], "DENY");
    }
}

#[tokio::test]
async fn a_file_is_sent_once_in_its_own_type_and_packed_to_who_takes_it() {
    let console = in_program();
    for (path, kind) in [
        ("/console", "text/html; charset=utf-8"),
        ("/console/app.js", "text/javascript; charset=utf-8"),
        ("/console/style.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
        ("/console/vendor/LICENSE-htm", "text/plain; charset=utf-8"),
        ("/console/settings.json", "application/json"),
    ] {
        let first = get(&console, path, None).await;
        assert_eq!(first.status(), StatusCode::OK, "{path}");
        assert_eq!(first.headers()[header::CONTENT_TYPE], kind);
        let tag = first.headers()[header::ETAG].to_str().unwrap().to_owned();
        let again = get(&console, path, Some(("if-none-match", &tag))).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED, "{path}");
        assert!(text(again).await.is_empty());
        let packed = get(&console, path, Some(("accept-encoding", "gzip"))).await;
        assert_eq!(packed.headers()[header::CONTENT_ENCODING], "gzip", "{path}");
        assert_ne!(packed.headers()[header::ETAG], tag.as_str());
    }
}

#[tokio::test]
async fn what_is_no_file_of_the_console_is_not_found() {
    let folder = ConsoleSettings { console_dir: Some(folder()), runbook_url: None };
    for console in [in_program(), Console::of(&folder).unwrap()] {
        for name in ["none.js", "core", "core/", "../src/lib.rs", "%2e%2e/Cargo.toml", ".hidden"] {
            let answer = get(&console, &format!("/console/{name}"), None).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{name}");
        }
        let answer = get(&console, "/console/", None).await;
        assert_eq!(answer.headers()[header::LOCATION], "../console");
    }
}

#[tokio::test]
async fn a_folder_is_read_at_each_request_and_must_have_the_page() {
    let own = folder();
    let settings = ConsoleSettings { console_dir: Some(own.clone()), runbook_url: None };
    let console = Console::of(&settings).unwrap();
    let served = text(get(&console, "/console/app.js", None).await).await;
    assert_eq!(served, fs::read_to_string(own.join("app.js")).unwrap());
    let wrong = ConsoleSettings { console_dir: Some(own.join("core")), runbook_url: None };
    let refused = Console::of(&wrong).err().unwrap().to_string();
    assert!(refused.contains("CONSOLE_DIR") && refused.contains(PAGE), "{refused}");
}

#[tokio::test]
async fn the_page_learns_where_the_runbook_is() {
    let url = "https://git.example/runbook.md".to_owned();
    let settings = ConsoleSettings { console_dir: None, runbook_url: Some(url) };
    let told = get(&Console::of(&settings).unwrap(), "/console/settings.json", None).await;
    assert_eq!(text(told).await, r#"{"runbook":"https://git.example/runbook.md"}"#);
    let settings =
        ConsoleSettings { console_dir: None, runbook_url: Some("javascript:x".to_owned()) };
    assert!(Console::of(&settings).is_err());
}
