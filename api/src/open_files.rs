//! Every connection is an open file, and a process may have only so many of them.

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files beside the clients' connections and those to MySQL: Redis, Kafka, logs, a token issuer; some dozens.
const BESIDE: u64 = 256;

/// Sees to it that so many connections can be open. What the process may take by itself it takes.
///
/// # Errors
/// The system allows fewer.
pub(crate) fn allow(clients: usize, to_mysql: usize) -> anyhow::Result<()> {
    let needed = u64::try_from(clients + to_mysql)? + BESIDE;
    let files = Resource::RLIMIT_NOFILE;
    let (now, most) = getrlimit(files).context("how many files may be open (ulimit -n)")?;
    if now >= needed {
        return Ok(());
    }
    ensure!(
        most >= needed,
        "CONNECTIONS_MAX is {clients}, and with what else is open this process needs {needed} files, but it may open only \
         {most}: allow more (`ulimit -n {needed}`, or LimitNOFILE={needed} in its unit), or lower CONNECTIONS_MAX"
    );
    setrlimit(files, needed, most).context("more files may be open, but are not allowed")
}
