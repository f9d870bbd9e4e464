//! Clients that read: members of groups, whole topics, offsets.

pub(crate) mod consumer;
pub(crate) mod held_up;
pub(crate) mod history;
mod made_anew;
pub(crate) mod member;
pub(crate) mod offsets;
pub(crate) mod options;
pub(crate) mod positions;
pub(crate) mod table;
#[cfg(feature = "verify")]
pub mod verify;

use rdkafka::error::KafkaError;
use tracing::{debug, warn};

use crate::{
    TopicError, client,
    error::{is_of_batch, is_passing},
};

/// Logs a transient error and returns any other.
pub(crate) fn wait_out(error: KafkaError, topic: &str) -> Result<(), TopicError> {
    if client::is_in_client_log(&error) {
        debug!(error = %error, "consuming is interrupted");
        return Ok(());
    }
    if is_passing(&error) {
        warn!(error = %error, "consuming is interrupted");
        return Ok(());
    }
    if is_of_batch(&error) {
        return Err(TopicError::Unreadable { topic: topic.to_owned(), source: error });
    }
    Err(TopicError::Consume(error))
}
