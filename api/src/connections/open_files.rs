//! The limit of open files, which every connection counts against.

use anyhow::{Context as _, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files besides the connections of clients and those to MySQL: Redis, Kafka, logs, a token issuer; some dozens.
const BESIDE: u64 = 256;

/// Raises the process's own limit so that this many connections can be open.
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
