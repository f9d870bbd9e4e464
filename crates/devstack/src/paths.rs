//! Paths of the project, the cache of installed programs, and our own binaries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use clap::Parser;

use crate::{Error, Result};

/// Script that installs what the build and the servers need.
pub(crate) const INSTALLER: &str = "ops/install.sh";

/// The project's root folder, two above this crate.
pub fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/devstack of the project")
        .to_path_buf()
}

/// Creates an empty folder for a server of a single test. No other running test of this process may use that name.
pub(crate) fn own_folder(name: &str) -> Result<PathBuf> {
    let dir = project_root().join(".dev/test/own").join(format!("{name}-{}", process::id()));
    // Left by a process of the same number that was killed.
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
    Ok(dir)
}

/// Cache of Kafka's jars (filled by ops/install.sh) and initialised database folders (filled by devstack).
#[derive(Parser)]
struct Cache {
    /// Folder of fetched files, relative to the project.
    #[arg(long, env = "COUPON_CACHE", default_value = ".dev/cache")]
    cache: PathBuf,
}

/// The cache folder: `COUPON_CACHE`, by default `.dev/cache` of the project.
pub(crate) fn cache() -> PathBuf {
    let Cache { cache } = Cache::parse_from(["devstack"]);
    project_root().join(cache)
}

/// Path of our binary `program`: beside the running executable, or in the nearest folder above it (tests run in
/// `target/debug/deps`, binaries are in `target/debug`).
pub(crate) fn binary(program: &str) -> Result<PathBuf> {
    let own = env::current_exe().map_err(Error::file("read", "/proc/self/exe"))?;
    own.ancestors()
        .skip(1)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::NotBuilt { program: program.to_owned() })
}

/// Path of `program`: on the search path, or in the folders where Debian keeps servers (not on a user's path).
pub(crate) fn program(program: &str) -> Result<PathBuf> {
    let search = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&search)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::NotInstalled { program: program.to_owned(), by: INSTALLER })
}

/// Returns the absolute form of `path`, which need not exist. Relative paths start at the current folder.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(Error::file("resolve", path))
}
