//! Dead letters: queued claims that cannot be published, with the reason.
//!
//! Such a claim ends lost with its gate's next epoch, and its user may claim again under the same key. A claim that was
//! answered after the topic had it is there already, so its promise holds.

use coupon::{QueuedClaim, TemplateId};
use metrics::counter;
use redis_gate::OutboxError;
use topic::{Producer, TopicError, TopicNames, encode_claim};
use tracing::error;

use crate::metrics::REFUSED;

/// Longest payload that is kept: the producer refuses a message over 1,000,000 bytes, including key
/// and headers.
const PAYLOAD_BYTES_MAX: usize = 900 * 1024;

/// Sends dead letters.
pub(crate) struct DeadLetters {
    producer: Producer,
    topic: String,
    /// The topic that the claims were meant for.
    source: String,
}

impl DeadLetters {
    pub(crate) fn new(producer: Producer, topics: &TopicNames) -> Self {
        Self { producer, topic: topics.dead_letter(), source: topics.claims() }
    }

    /// Sets an entry aside that cannot be read, as text.
    pub(crate) async fn unreadable(
        &self,
        template: TemplateId,
        entry: &str,
        error: &OutboxError,
    ) -> Result<(), TopicError> {
        let reason = error.to_string();
        self.send(template, entry, error.entry.as_bytes(), &reason).await?;
        counter!(REFUSED.name, "reason" => "unreadable").increment(1);
        error!(template.id = template.0, entry, reason, "an entry of an outbox was set aside");
        Ok(())
    }

    /// Sets a claim aside that the broker refuses for good.
    pub(crate) async fn refused(
        &self,
        queued: &QueuedClaim,
        error: &TopicError,
    ) -> Result<(), TopicError> {
        let claim = &queued.admission.claim;
        let reason = runtime::report(error);
        let id = claim.id.to_string();
        self.send(claim.template_id, &id, &encode_claim(queued), &reason).await?;
        counter!(REFUSED.name, "reason" => "broker").increment(1);
        error!(claim.id = id, reason, "a queued claim was set aside");
        Ok(())
    }

    async fn send(
        &self,
        template: TemplateId,
        entry: &str,
        payload: &[u8],
        reason: &str,
    ) -> Result<(), TopicError> {
        let bytes = payload.len().to_string();
        let headers: [(&str, &[u8]); 4] = [
            ("source-topic", self.source.as_bytes()),
            ("source-entry", entry.as_bytes()),
            ("payload-bytes", bytes.as_bytes()),
            ("reason", reason.as_bytes()),
        ];
        let key = template.to_string();
        let kept = payload.len().min(PAYLOAD_BYTES_MAX);
        let topic = &self.topic;
        let payload = &payload[..kept];
        self.producer.send(topic, None, key.as_bytes(), payload, &headers).await.map(|_| ())
    }
}
