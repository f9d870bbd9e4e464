//! Logs which settings of Kafka may lose acknowledged messages with a broker.

use std::time::Duration;

use tokio_util::sync::CancellationToken;
use topic::TopicNames;
use tracing::{info, warn};

use super::SETTINGS_EVERY;

/// Pause after a check that met no brokers or no topics: they may come a moment after this process.
const AGAIN_AFTER: Duration = Duration::from_mins(1);

/// Reads the settings at the start and every [`SETTINGS_EVERY`], until `stop`. No finding keeps the process from
/// serving: direct claims need no broker.
pub(super) async fn tell(brokers: &str, names: &TopicNames, stop: &CancellationToken) {
    let mut is_alone_told = false;
    loop {
        let reading = topic::read_durability(brokers, names);
        let Some(read) = stop.run_until_cancelled(reading).await else { return };
        let pause = match read {
            Ok(durability) => {
                if durability.is_alone && !is_alone_told {
                    is_alone_told = true;
                    info!(
                        "kafka has one broker and one copy of each topic, and loses them together"
                    );
                }
                for gap in durability.gaps {
                    warn!(gap, "the loss of a broker may lose what it has acknowledged");
                }
                SETTINGS_EVERY
            }
            // `/readyz` says it already, because of the probe of the brokers.
            Err(error) if error.may_pass() => AGAIN_AFTER,
            Err(error) => {
                let error = runtime::report(&error);
                warn!(error, "whether kafka keeps what it acknowledges is not known");
                SETTINGS_EVERY
            }
        };
        if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}
