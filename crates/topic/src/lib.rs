//! Events between processes: wire format, producers, consumers.
//!
//! Architecture invariant: the only crate with rdkafka; every client setting is decided here.
//!
//! Reading order: [`TopicNames`] (the topics), [`Event`] and the row types (their contents), [`ensure_topics`], then
//! the clients: [`Producer`] (one message, one answer), [`OrderedProducer`] (a stream of messages and a watermark of
//! those acknowledged), [`FencedWriter`] (one writer at a time), [`Consumer`] (a member of a group), [`TableReader`] (a
//! whole topic from its beginning), [`read_history`] and [`find_message`] (one partition since a moment, for reports
//! and support). Queued claims have their own clients: [`ClaimsProducer`], [`ClaimsReader`], [`QueueOffsets`],
//! [`PartitionProgress`]. So have payments: [`PaymentMessage`], [`PaymentsReader`].
//! [`read_durability`] tells what the brokers' settings may lose.

mod admin;
mod brokers;
mod claims;
mod client;
mod consume;
mod durability;
mod error;
mod events;
#[doc(hidden)]
pub mod fuzz;
mod produce;

#[cfg(feature = "verify")]
pub use consume::verify;

pub use admin::{DEFAULT_PARTITIONS, RETENTION, STATS_RETENTION, TopicLayout, ensure_topics};
pub use claims::message::{decode_claim, encode_claim};
pub use claims::offsets::QueueOffsets;
pub use claims::partition::{ONLY_BUCKET, claims_partition};
pub use claims::payment::{PaymentMessage, decode_payment};
pub use claims::producer::{ClaimsProducer, QueuePosition};
pub use claims::progress::PartitionProgress;
pub use claims::reader::{
    ClaimMessage, ClaimsBatch, ClaimsReader, LaneBatch, LaneMessage, LaneReader, PREFETCH_BATCHES,
    PaymentsReader,
};
pub use client::probe::BrokerProbe;
pub use consume::consumer::Consumer;
pub use consume::held_up::HeldUp;
pub use consume::history::{HistorySpan, Reached, Search, find_message, read_history};
pub use consume::member::Assignment;
pub use consume::offsets::{
    OffsetReader, PartitionOffsets, committed_offsets, led_offsets, partitions, topic_offsets,
};
pub use consume::options::{ConsumerOptions, FetchAhead};
pub use consume::positions::{PositionCheck, messages_at};
pub use consume::table::TableReader;
pub use durability::{Durability, read_durability};
pub use error::TopicError;
pub use events::claim_stats::{ClaimStats, LATENCY_BOUNDS_MS, OTHERS};
pub use events::event::{DecodeError, Event, MAX_EVENT_BYTES, Op, SCHEMA_VERSION, Source, decode};
pub use events::expiring::ExpiringSoon;
pub use events::message::{
    HEADER_POSITION, HEADER_RESTATED, HEADER_SCHEMA, HEADER_TRACE_PARENT, Message, MessagePosition,
};
pub use events::names::TopicNames;
pub use events::row::{ExpiryWakeUp, StockMovementRow, TemplateRow, UserCouponRow};
pub use produce::fenced::FencedWriter;
pub use produce::ordered::{Acknowledged, Enqueued, OrderedProducer, Record};
pub use produce::producer::{Delivered, Producer, ProducerOptions};
