//! `/console`: the operators' console in a browser. `api/console/README.md` describes its files.
//!
//! They are part of the program, and come from this process alone: the console works without a network, and what is
//! typed into it goes only to the api. `--console-dir` reads them from a folder instead, at each request, so that a
//! change is seen at the next load.

mod files;
mod packed_file;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, LazyLock},
};

use anyhow::ensure;
use axum::{
    Router,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
    routing::get,
};
use clap::Args;
use serde_json::json;

use self::packed_file::PackedFile;
use crate::{code::Code, http::request_checks::CONSOLE_PATH, problem::Problem};

/// The page. All else is loaded by it.
const PAGE: &str = "index.html";

/// What the page must know of this process. It is in no file.
const SETTINGS: &str = "settings.json";

/// Scripts, styles and data from this origin only, nothing inline, and no text that becomes markup or a script. Charts
/// and bars set their sizes by the style object of their elements, which a policy does not concern.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
);

/// The files change with each release, and their names do not. A browser asks each time whether its copy is the newest.
const CACHING: HeaderValue = HeaderValue::from_static("public, no-cache");

const HEADERS: [(HeaderName, HeaderValue); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::CACHE_CONTROL, CACHING),
    (header::VARY, HeaderValue::from_static("accept-encoding")),
    // For browsers that do not know `frame-ancestors`.
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The files in the program, packed at the first request, since few processes get one.
static PACKED: LazyLock<BTreeMap<&'static str, PackedFile>> = LazyLock::new(|| {
    let files = files::SOURCES.iter();
    files.map(|source| (source.name, PackedFile::of(source.name, source.bytes.into()))).collect()
});

/// Settings of the console.
#[derive(Debug, Clone, Default, Args)]
pub struct ConsoleSettings {
    /// Folder with the console's files, to be served instead of those in the program: for work on them.
    #[arg(long, env = "CONSOLE_DIR")]
    pub console_dir: Option<PathBuf>,

    /// Where the runbook is, e.g. `https://git.example/coupon/docs/operate/runbook.md`. The console's links lead to its
    /// sections; without it they only name them.
    #[arg(long, env = "RUNBOOK_URL")]
    pub runbook_url: Option<String>,
}

/// The console, as this process serves it.
pub(crate) struct Console {
    /// `None`: the files are those in the program.
    folder: Option<PathBuf>,
    /// What the page asks for first.
    settings: PackedFile,
}

impl Console {
    /// Returns the console with these settings.
    ///
    /// # Errors
    /// The folder has no page, or the runbook's address is none.
    pub(crate) fn of(settings: &ConsoleSettings) -> anyhow::Result<Arc<Self>> {
        let folder = settings.console_dir.clone().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = &folder {
            let shown = folder.display();
            ensure!(
                folder.join(PAGE).is_file(),
                "CONSOLE_DIR must be the folder of the console, api/console: {shown} has no {PAGE}"
            );
        }
        let runbook = settings.runbook_url.as_deref().filter(|url| !url.is_empty());
        if let Some(url) = runbook {
            let is_web = url.starts_with("https://") || url.starts_with("http://");
            ensure!(is_web, "RUNBOOK_URL must begin with https:// or http://: browsers follow it");
        }
        let told = json!({ "runbook": runbook }).to_string();
        Ok(Arc::new(Self { folder, settings: PackedFile::of(SETTINGS, told.into()) }))
    }

    async fn answer(&self, name: &str, headers: &HeaderMap) -> Response {
        let answer = match &self.folder {
            _ if name == SETTINGS => Some(self.settings.answer(headers)),
            None => PACKED.get(name).map(|file| file.answer(headers)),
            Some(folder) => {
                let bytes = tokio::fs::read(folder.join(sane(name))).await.ok();
                bytes.map(|bytes| PackedFile::of(name, bytes.into()).answer(headers))
            }
        };
        let unknown =
            || Problem::new(Code::NotFound, "The console has no such file.").into_response();
        let mut answer = answer.unwrap_or_else(unknown);
        answer.headers_mut().extend(HEADERS);
        answer
    }
}

/// Returns the routes of the console.
pub(crate) fn routes<S>(console: &Arc<Console>) -> Router<S>
where
    S: Clone + Send + Sync + 'static,
{
    let of_page = Arc::clone(console);
    let of_file = Arc::clone(console);
    let page = async move |headers: HeaderMap| of_page.answer(PAGE, &headers).await;
    let file = async move |uri: Uri, headers: HeaderMap| {
        let name = uri.path().strip_prefix(CONSOLE_PATH).unwrap_or_default();
        of_file.answer(name.trim_start_matches('/'), &headers).await
    };
    Router::new()
        .route(CONSOLE_PATH, get(page))
        .route("/console/", get(to_page))
        .route("/console/{*file}", get(file))
}

/// The page names its files relative to itself, so it has one address.
async fn to_page() -> Response {
    let to_page = HeaderValue::from_static("../console");
    (StatusCode::PERMANENT_REDIRECT, [(header::LOCATION, to_page)]).into_response()
}

/// Returns a name that is below the folder: any other names no file.
fn sane(name: &str) -> &str {
    let is_plain = |part: &str| {
        let marks = part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        marks && !part.is_empty() && !part.starts_with('.')
    };
    if name.split('/').all(is_plain) { name } else { "no such file" }
}

#[cfg(test)]
mod tests;
