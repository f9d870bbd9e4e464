//! Watches the server's binlog files next to the stream: how much binlog lies ahead of us, and how long the server
//! keeps it.

use std::{sync::Arc, time::Duration};

use mysql_store::settings::{self, BinlogFiles};
use runtime::Secret;
use tokio::{sync::watch, time::MissedTickBehavior};
use tracing::debug;

use crate::binlog::position::ReadTo;

/// Interval between polls. Each makes the server list its files.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Timeout of one poll.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// Result of the last poll; `None` if the server does not answer or denies access.
pub(crate) type PolledFiles = watch::Receiver<Option<Arc<BinlogFiles>>>;

/// Polls until the receiver is dropped. Retries silently while the server is unreachable: the stream reports that.
pub(crate) fn watch(database_url: Secret) -> PolledFiles {
    let (sender, seen) = watch::channel(None);
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut connection = None;
        loop {
            tokio::select! {
                () = sender.closed() => return,
                _ = ticks.tick() => {}
            }
            let look = async {
                let mut own = match connection.take() {
                    Some(own) => own,
                    None => mysql_store::connect::single(database_url.expose()).await?,
                };
                let files = settings::binlog_files(&mut own).await?;
                connection = Some(own);
                Ok::<_, mysql_store::StoreError>(files)
            };
            let files = match tokio::time::timeout(LOOK_MAX, look).await {
                Ok(Ok(files)) => Some(Arc::new(files)),
                Ok(Err(error)) => {
                    debug!(error = runtime::report(&error), "binlog files not seen");
                    None
                }
                Err(_) => None,
            };
            sender.send_replace(files);
        }
    });
    seen
}

/// Returns the bytes of binlog after `read_to`; `None` if its file is unknown or gone.
pub(crate) fn bytes_behind(files: &BinlogFiles, read_to: &ReadTo) -> Option<u64> {
    let own = files.files.iter().position(|(name, _)| *name == read_to.file.name)?;
    let all: u64 = files.files[own..].iter().map(|(_, bytes)| bytes).sum();
    Some(all.saturating_sub(read_to.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binlog::position::File;

    #[test]
    fn bytes_behind_are_the_rest_of_our_file_and_all_later_ones() {
        let files = BinlogFiles {
            files: vec![("b.1".into(), 100), ("b.2".into(), 50), ("b.3".into(), 7)],
            expiry: None,
        };
        let at = |file: &str, offset| ReadTo {
            file: Arc::new(File { name: file.into(), ..File::default() }),
            offset,
        };
        assert_eq!(bytes_behind(&files, &at("b.1", 30)), Some(127));
        assert_eq!(bytes_behind(&files, &at("b.3", 7)), Some(0));
        assert_eq!(bytes_behind(&files, &at("b.0", 7)), None);
    }
}
