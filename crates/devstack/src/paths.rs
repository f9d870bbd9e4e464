//! Where things lie: the project, the cache of what was installed, our own binaries.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::{Error, Result};

/// Brings what the build and the servers need.
pub(crate) const INSTALLER: &str = "ops/install.sh";

/// The folder of the whole project: two above this crate.
pub fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies in crates/devstack of the project")
        .to_path_buf()
}

/// An empty folder for a server of one test alone; it bears `name`, which no other running test may use.
pub(crate) fn own_folder(name: &str) -> Result<PathBuf> {
    let dir = project_root().join(".dev/test/own").join(name);
    // What a run that was killed has left.
    drop(fs::remove_dir_all(&dir));
    fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
    Ok(dir)
}

/// Where ops/install.sh keeps Kafka's jars and devstack keeps an initialised MariaDB data folder.
#[derive(Parser)]
struct Cache {
    /// Folder of fetched things, relative to the project.
    #[arg(long, env = "COUPON_CACHE", default_value = ".dev/cache")]
    cache: PathBuf,
}

/// The cache folder: `COUPON_CACHE`, by default `.dev/cache` of the project.
pub(crate) fn cache() -> PathBuf {
    let Cache { cache } = Cache::parse_from(["devstack"]);
    project_root().join(cache)
}

/// The folder that holds `program`: the one of the running executable or the nearest above it
/// (a test runs in `target/debug/deps`, the binaries lie in `target/debug`).
pub(crate) fn binary(program: &str) -> Result<PathBuf> {
    let own = env::current_exe().map_err(Error::file("read", "/proc/self/exe"))?;
    own.ancestors()
        .skip(1)
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::NotBuilt { program: program.to_owned() })
}

/// Where `program` lies: on the search path, or where Debian keeps servers (not on a user's path).
pub(crate) fn program(program: &str) -> Result<PathBuf> {
    let search = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&search)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| Error::NotInstalled { program: program.to_owned(), by: INSTALLER })
}

/// An absolute form of `path`, which need not exist; relative to the current folder.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(Error::file("resolve", path))
}
