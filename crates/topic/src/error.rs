//! Errors of operations on topics.

use std::time::Duration;

use rdkafka::{error::KafkaError, types::RDKafkaErrorCode as Code};
use thiserror::Error;

use crate::brokers;

/// A failed operation on a topic.
#[derive(Debug, Error)]
pub enum TopicError {
    /// No configured broker answered in time.
    #[error("no Kafka broker answered at {brokers} within {waited:?} (KAFKA_BROKERS){}", hint(.brokers))]
    Unreachable {
        brokers: String,
        waited: Duration,
        /// The last attempt's error.
        #[source]
        source: KafkaError,
    },

    #[error("topic {topic} does not exist; cdc-tailer makes the topics when it starts")]
    MissingTopic {
        /// Name including the prefix.
        topic: String,
    },

    /// The topic exists; this partition has no leader now, so nothing is read from or written to it.
    #[error(
        "partition {partition} of topic {topic} has no leader: the brokers with its copies are away"
    )]
    NoLeader {
        /// Name including the prefix.
        topic: String,
        partition: i32,
    },

    /// A setting was rejected or the client could not start.
    #[error("Kafka client could not be created")]
    Client(#[source] KafkaError),

    #[error("topic {topic} could not be created")]
    Create {
        topic: String,
        #[source]
        source: KafkaError,
    },

    /// The broker did not acknowledge the message. If the error is retriable, the message may have been written
    /// nevertheless.
    #[error("message to {topic} was not acknowledged{}", mend(.source))]
    Produce {
        topic: String,
        #[source]
        source: KafkaError,
    },

    /// The topic does not hold any more what was acknowledged.
    #[error(
        "partition {partition} of topic {topic} goes on at offset {offset}, and {before} was acknowledged before: it was \
         deleted and made anew, or its broker has lost what it held"
    )]
    Rewound {
        /// Name including the prefix.
        topic: String,
        partition: i32,
        offset: i64,
        /// The last offset that was acknowledged.
        before: i64,
    },

    /// The topic is another one than it was. The offsets of a member of a group are those of its beginning now.
    #[error(
        "topic {topic} was deleted and made anew: it is read from its beginning when this process opens it again"
    )]
    MadeAnew {
        /// Name including the prefix.
        topic: String,
    },

    /// Consuming failed for good; transient errors are waited out.
    #[error("topic could not be consumed")]
    Consume(#[source] KafkaError),

    /// A batch cannot be decompressed or taken apart, or the broker cannot read it. What follows it in its partition
    /// cannot be read either. A member of a group waits there instead ([`crate::Consumer::held_up`]).
    #[error(
        "a batch of messages in topic {topic} cannot be read, and nothing that follows it in its partition"
    )]
    Unreadable {
        /// Name including the prefix.
        topic: String,
        #[source]
        source: KafkaError,
    },

    #[error("offsets could not be committed")]
    Commit(#[source] KafkaError),

    #[error("offsets of {topic} could not be read")]
    Offsets {
        topic: String,
        #[source]
        source: KafkaError,
    },

    /// The brokers' settings, or their topics, could not be asked for.
    #[error("the settings of {of} could not be read")]
    Settings {
        /// A broker, or all of them.
        of: String,
        #[source]
        source: KafkaError,
    },

    /// The broker answered without a value. Its client does not pass on why.
    #[error(
        "the broker does not tell the settings of {of}: allow this client to DescribeConfigs of topics and of the cluster"
    )]
    Untold {
        /// A topic, or the broker itself.
        of: String,
    },

    #[cfg(feature = "verify")]
    #[error("messages of {topic} could not be deleted")]
    Forget {
        topic: String,
        #[source]
        source: KafkaError,
    },

    #[error("transactional write as {id} failed")]
    Transaction {
        id: String,
        #[source]
        source: KafkaError,
    },

    /// A newer process writes under the same transactional id. This process must stop.
    #[error("fenced: another process writes as {id} now")]
    Fenced {
        id: String,
        #[source]
        source: KafkaError,
    },

    /// A blocking call on the client panicked, or the runtime is shutting down.
    #[error("the Kafka client stopped in the middle of a call")]
    Interrupted(#[source] tokio::task::JoinError),
}

/// With TLS, points to the log: the TLS error is reported only there.
fn hint(brokers: &str) -> &'static str {
    if brokers::are_by_tls(brokers) {
        "; a certificate that was not accepted is in the log, in the Kafka client's words: ssl-ca must be \
         the CA of the broker's certificate, and the certificate for its host"
    } else {
        ""
    }
}

/// Returns what mends the refusal of a message, where the broker's own word does not say it.
fn mend(error: &KafkaError) -> &'static str {
    match error.rdkafka_error_code() {
        Some(Code::MessageSizeTooLarge) => {
            ": the topic takes no batch of this size: raise its max.message.bytes, or message.max.bytes of the \
             brokers, to 1048588 or more"
        }
        Some(Code::UnknownTopic | Code::UnknownTopicOrPartition | Code::UnknownPartition) => {
            ": the topic, or a partition of it, was deleted; cdc-tailer makes missing topics when it leads"
        }
        _ => "",
    }
}

impl TopicError {
    /// Returns whether the same call may succeed later: as [`TopicError::is_retriable`], or once a process has created the
    /// topic. On a new platform cdc-tailer may be about to.
    pub fn may_pass(&self) -> bool {
        self.is_retriable() || matches!(self, Self::MissingTopic { .. })
    }

    /// Returns whether the same call may succeed later without any change to the configuration.
    pub fn is_retriable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::NoLeader { .. } => true,
            Self::Produce { source, .. }
            | Self::Consume(source)
            | Self::Commit(source)
            | Self::Offsets { source, .. }
            | Self::Settings { source, .. }
            | Self::Create { source, .. }
            | Self::Transaction { source, .. } => is_passing(source),
            #[cfg(feature = "verify")]
            Self::Forget { source, .. } => is_passing(source),
            Self::MissingTopic { .. }
            | Self::Client(_)
            | Self::Rewound { .. }
            | Self::MadeAnew { .. }
            | Self::Unreadable { .. }
            | Self::Untold { .. }
            | Self::Fenced { .. }
            | Self::Interrupted(_) => false,
        }
    }

    /// Returns whether the broker refuses this message for good: it was not written, and no later attempt would
    /// succeed. This is an allow-list: after any other error the message may be sent again.
    pub fn is_refused_for_good(&self) -> bool {
        let Self::Produce { source, .. } = self else { return false };
        source.rdkafka_error_code().is_some_and(|code| {
            matches!(
                code,
                Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::InvalidRecord
            )
        })
    }

    /// Returns whether the failed client can no longer send anything.
    pub(crate) fn is_final_for_client(&self) -> bool {
        let Self::Produce { source, .. } = self else { return false };
        source.rdkafka_error_code() == Some(Code::Fatal)
    }
}

/// Returns whether an error is transient: a network error, or a broker that is starting or stopping. This is an
/// allow-list: unknown errors are not transient.
pub(crate) fn is_passing(error: &KafkaError) -> bool {
    match error {
        // The next attempt under the same transactional id aborts the transaction first.
        KafkaError::Transaction(error) => {
            error.is_retriable() || error.txn_requires_abort() && passes(error.code())
        }
        // The driver names no code for these.
        KafkaError::AdminOp(code) => passes(*code),
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

/// Returns whether an error is about what stands in one partition: a batch that the client cannot take apart, or that
/// its broker cannot read. The client tries it again, and reads its other partitions on. This is an allow-list: other
/// errors are about the topic or the whole client.
pub(crate) fn is_of_batch(error: &KafkaError) -> bool {
    if matches!(error, KafkaError::MessageConsumptionFatal(_)) {
        return false;
    }
    error.rdkafka_error_code().is_some_and(|code| {
        matches!(
            code,
            Code::BadCompression
                | Code::BadMessage
                | Code::NotImplemented
                | Code::Underflow
                | Code::InvalidMessage
                | Code::InvalidMessageSize
                | Code::MessageSizeTooLarge
                | Code::InvalidRecord
                | Code::InvalidTimestamp
                | Code::UnsupportedCompressionType
                | Code::KafkaStorageError
                | Code::Unknown
        )
    })
}

/// Returns whether another producer took over the transactional id.
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

    /// A refused claim is lost, so an error that the topic or the moment may have caused is retried.
    #[test]
    fn only_a_message_that_is_wrong_itself_is_refused_for_good() {
        let produce = |code| TopicError::Produce {
            topic: "t".into(),
            source: KafkaError::MessageProduction(code),
        };
        assert!(produce(Code::MessageSizeTooLarge).is_refused_for_good());
        for code in [
            Code::UnknownTopicOrPartition,
            Code::TopicAuthorizationFailed,
            Code::InvalidDifferentRecord,
            Code::InvalidMessage,
            Code::Fatal,
        ] {
            assert!(!produce(code).is_refused_for_good(), "{code:?}");
        }
        assert!(produce(Code::Fatal).is_final_for_client());
        assert!(!TopicError::MissingTopic { topic: "t".into() }.is_refused_for_good());
    }
}
