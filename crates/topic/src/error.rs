//! What can go wrong between a process and the brokers.

use std::time::Duration;

use rdkafka::{error::KafkaError, types::RDKafkaErrorCode as Code};
use thiserror::Error;

use crate::brokers;

/// A failed operation on a topic.
#[derive(Debug, Error)]
pub enum TopicError {
    /// No broker of the list answered in time.
    #[error("no Kafka broker answered at {brokers} within {waited:?} (KAFKA_BROKERS){}", hint(.brokers))]
    Unreachable {
        /// The addresses tried.
        brokers: String,
        /// How long.
        waited: Duration,
        /// The last attempt's failure.
        #[source]
        source: KafkaError,
    },

    /// The topic is not there.
    #[error("topic {topic} does not exist; cdc-tailer makes the topics when it starts")]
    MissingTopic {
        /// Its name.
        topic: String,
    },

    /// A setting was refused or the client could not start.
    #[error("Kafka client could not be created")]
    Client(#[source] KafkaError),

    /// The topic could not be created.
    #[error("topic {topic} could not be created")]
    Create {
        /// Its name.
        topic: String,
        /// Why.
        #[source]
        source: KafkaError,
    },

    /// The message was not acknowledged. It may have been written all the same, if this is
    /// retriable.
    #[error("message to {topic} was not acknowledged")]
    Produce {
        /// Where it was going.
        topic: String,
        /// Why.
        #[source]
        source: KafkaError,
    },

    /// Reading failed for good; passing failures are waited out.
    #[error("topic could not be consumed")]
    Consume(#[source] KafkaError),

    /// The group's offsets could not be committed.
    #[error("offsets could not be committed")]
    Commit(#[source] KafkaError),

    /// Offsets or watermarks could not be read.
    #[error("offsets of {topic} could not be read")]
    Offsets {
        /// Of which topic.
        topic: String,
        /// Why.
        #[source]
        source: KafkaError,
    },

    /// Messages could not be deleted.
    #[cfg(feature = "verify")]
    #[error("messages of {topic} could not be deleted")]
    Forget {
        /// Of which topic.
        topic: String,
        /// Why.
        #[source]
        source: KafkaError,
    },

    /// A transactional write failed.
    #[error("transactional write as {id} failed")]
    Transaction {
        /// The transactional id.
        id: String,
        /// Why.
        #[source]
        source: KafkaError,
    },

    /// A newer process writes under the same transactional id: this one must stop.
    #[error("fenced: another process writes as {id} now")]
    Fenced {
        /// The transactional id.
        id: String,
        /// The broker's words.
        #[source]
        source: KafkaError,
    },

    /// A blocking call on the client panicked or the runtime is going away.
    #[error("the Kafka client stopped in the middle of a call")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// Where the reason is, if the way to the brokers has more than one.
fn hint(brokers: &str) -> &'static str {
    if brokers::are_by_tls(brokers) {
        "; a certificate that was not accepted is in the log, in the Kafka client's words: ssl-ca must be \
         the CA of the broker's certificate, and the certificate for its host"
    } else {
        ""
    }
}

impl TopicError {
    /// Whether the same call may succeed later without anybody changing anything.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Produce { source, .. }
            | Self::Consume(source)
            | Self::Commit(source)
            | Self::Offsets { source, .. }
            | Self::Create { source, .. }
            | Self::Transaction { source, .. } => is_passing(source),
            #[cfg(feature = "verify")]
            Self::Forget { source, .. } => is_passing(source),
            Self::MissingTopic { .. }
            | Self::Client(_)
            | Self::Fenced { .. }
            | Self::Interrupted(_) => false,
        }
    }
}

/// Failures of the network or of a broker on its way down or up. An allow-list: what is not known
/// to pass does not pass.
pub(crate) fn is_passing(error: &KafkaError) -> bool {
    match error {
        // What must be aborted first is aborted by the next attempt, under the same id.
        KafkaError::Transaction(error) => {
            error.is_retriable() || error.txn_requires_abort() && passes(error.code())
        }
        error => error.rdkafka_error_code().is_some_and(passes),
    }
}

fn passes(code: Code) -> bool {
    matches!(
        code,
        Code::BrokerTransportFailure
            | Code::AllBrokersDown
            | Code::Resolve
            | Code::OperationTimedOut
            | Code::TimedOutQueue
            | Code::MessageTimedOut
            | Code::QueueFull
            | Code::Retry
            | Code::WaitingForCoordinator
            | Code::RequestTimedOut
            | Code::NetworkException
            | Code::BrokerNotAvailable
            | Code::LeaderNotAvailable
            | Code::NotLeaderForPartition
            | Code::ReplicaNotAvailable
            | Code::NotEnoughReplicas
            | Code::NotEnoughReplicasAfterAppend
            | Code::CoordinatorLoadInProgress
            | Code::CoordinatorNotAvailable
            | Code::NotCoordinator
            | Code::RebalanceInProgress
            | Code::IllegalGeneration
            | Code::UnknownMemberId
            | Code::PollExceeded
            | Code::FencedLeaderEpoch
            | Code::UnknownLeaderEpoch
    )
}

/// Another producer took the transactional id over.
pub(crate) fn is_fencing(error: &KafkaError) -> bool {
    let code = match error {
        KafkaError::Transaction(error) => Some(error.code()),
        other => other.rdkafka_error_code(),
    };
    matches!(code, Some(Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_known_to_pass_are_retriable() {
        let produce = |code| TopicError::Produce {
            topic: "t".into(),
            source: KafkaError::MessageProduction(code),
        };
        assert!(produce(Code::MessageTimedOut).is_retriable());
        assert!(!produce(Code::MessageSizeTooLarge).is_retriable());
        assert!(!produce(Code::Fatal).is_retriable());
    }
}
