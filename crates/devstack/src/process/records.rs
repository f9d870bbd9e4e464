//! Records of detached processes in a stack's folder, so that another command can find and end them:
//! `<name>.pid` holds pid and start time.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::process::child::Child;
use crate::{Error, Result};

/// Number of servers in a stack.
pub const SERVERS: usize = 4;
/// Record names of the servers. They end last, as the platform's processes need them to drain.
const SERVER_NAMES: [&str; 7] =
    ["mariadb", "mariadb-replica", "mysql", "mysql-replica", "redis-gate", "redis-view", "kafka"];
/// Longest wait for the orderly end of one process.
const STOP_WITHIN: Duration = Duration::from_secs(40);

/// Returns the sorted names of the recorded processes under `folder` that still run.
///
/// # Errors
/// The folder could not be read (a missing one counts as empty).
pub fn running(folder: &Path) -> Result<Vec<String>> {
    Ok(find(folder)?.into_iter().map(|(name, _)| name).collect())
}

/// Ends all recorded processes under `folder`, the platform's before the servers, and returns their names.
///
/// # Errors
/// A process could not be signalled.
pub async fn end_all(folder: &Path) -> Result<Vec<String>> {
    let (servers, platform): (Vec<_>, Vec<_>) =
        find(folder)?.into_iter().partition(|(name, _)| SERVER_NAMES.contains(&name.as_str()));
    let mut ended = Vec::new();
    for group in [platform, servers] {
        ended.extend(end(group).await?);
    }
    for name in names(folder)? {
        forget(folder, &name);
    }
    Ok(ended)
}

/// Ends one recorded process in order, if it runs.
pub(crate) async fn end_one(folder: &Path, name: &str) -> Result<()> {
    let found = read(&file(folder, name)).map(|child| (name.to_owned(), child));
    end(found.into_iter().collect()).await?;
    forget(folder, name);
    Ok(())
}

/// Kills a recorded process: no warning, no clean-up. Returns whether it ran.
pub(crate) fn kill(folder: &Path, name: &str) -> Result<bool> {
    let Some(mut child) = read(&file(folder, name)) else { return Ok(false) };
    child.kill_now().map_err(|source| Error::Signal { name: name.to_owned(), source })?;
    forget(folder, name);
    Ok(true)
}

pub(crate) fn write(folder: &Path, name: &str, child: &Child) -> Result<()> {
    let file = file(folder, name);
    let record = format!("{} {}\n", child.pid(), child.start_time());
    fs::write(&file, record).map_err(Error::file("write", file))
}

/// Removes a record, if it exists.
pub(crate) fn forget(folder: &Path, name: &str) {
    drop(fs::remove_file(file(folder, name)));
}

async fn end(mut group: Vec<(String, Child)>) -> Result<Vec<String>> {
    for (name, child) in &mut group {
        child
            .signal(Signal::SIGTERM)
            .map_err(|source| Error::Signal { name: name.clone(), source })?;
        // A paused process receives SIGTERM only when it resumes.
        child
            .signal(Signal::SIGCONT)
            .map_err(|source| Error::Signal { name: name.clone(), source })?;
    }
    let mut ended = Vec::new();
    for (name, mut child) in group {
        let signal = |source| Error::Signal { name: name.clone(), source };
        if child.wait(STOP_WITHIN).await.map_err(signal)?.is_none() {
            child.kill_now().map_err(signal)?;
        }
        ended.push(name);
    }
    Ok(ended)
}

/// Returns the recorded processes that still run, by name.
fn find(folder: &Path) -> Result<Vec<(String, Child)>> {
    let recorded = names(folder)?.into_iter();
    Ok(recorded.filter_map(|name| read(&file(folder, &name)).map(|child| (name, child))).collect())
}

/// Returns the names of all records, sorted.
fn names(folder: &Path) -> Result<Vec<String>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::file("read", folder))? {
        let entry = entry.map_err(Error::file("read", folder))?;
        if let Some(name) = entry.file_name().to_str().and_then(|name| name.strip_suffix(".pid")) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.pid"))
}

/// Returns the process of a record, if the record is complete and the process still runs.
fn read(path: &Path) -> Option<Child> {
    let text = fs::read_to_string(path).ok()?;
    let (pid, start_time) = text.trim().split_once(' ')?;
    Child::find(pid.parse().ok()?, start_time.parse().ok()?)
}
