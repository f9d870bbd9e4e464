//! Checks periodically whether a server answers, for `/readyz`.

use std::{error::Error, future::Future, time::Duration};

use tokio_util::sync::CancellationToken;

use crate::{Part, report};

/// Pause between two checks. With [`CHECK_MAX`] it bounds how late an outage shows. The slowest checks of a server that
/// was killed take three seconds (Kafka's client, a pool of MySQL), and whoever is on call is to read the cause within
/// five.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Timeout of a check: longer than the three seconds that Kafka's client waits for a response.
const CHECK_MAX: Duration = Duration::from_secs(5);

/// Reports in `part` whether `check` succeeds, until `stop`. A failure is reported with its causes, in one line.
///
/// `stop` does not interrupt a check: a dropped statement may leave its connection in the middle of a response, which
/// the next user of the connection cannot read. So stopping takes up to five seconds longer while a server is silent.
pub async fn watch<F, E>(part: Part, stop: CancellationToken, mut check: impl FnMut() -> F)
where
    F: Future<Output = Result<(), E>>,
    E: Error + 'static,
{
    loop {
        match tokio::time::timeout(CHECK_MAX, check()).await {
            Ok(Ok(())) => part.ready(),
            Ok(Err(error)) => part.not_ready(report(&error)),
            Err(_) => part.not_ready(format!("no answer within {CHECK_MAX:?}")),
        }
        if stop.run_until_cancelled(tokio::time::sleep(CHECK_EVERY)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::Health;

    #[tokio::test]
    async fn a_server_is_down_while_its_check_fails_and_up_once_it_succeeds() {
        let health = Health::default();
        let stop = CancellationToken::new();
        let part = health.server("kafka", "here:9092");
        let watched = tokio::spawn(watch(part, stop.clone(), || {
            std::future::ready(Err(io::Error::other("nobody listens")))
        }));
        while health.unready()["kafka"] != "nobody listens" {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        watched.await.unwrap();
        let part = health.server("kafka", "here:9092");
        let stop = CancellationToken::new();
        let watched =
            tokio::spawn(watch(part, stop.clone(), || std::future::ready(Ok::<_, io::Error>(()))));
        while !health.unready().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
        watched.await.unwrap();
    }
}
