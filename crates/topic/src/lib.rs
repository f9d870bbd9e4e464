//! Events between processes: wire format, producers, consumers.
//!
//! Architecture invariant: the only crate with rdkafka; every client setting is decided here.
//!
//! Reading order: [`TopicNames`] (the topics), [`Event`] and the row types (their contents), [`ensure_topics`], then
//! the clients: [`Producer`] (one message, one answer), [`OrderedProducer`] (a stream of messages and a watermark of
//! those acknowledged), [`FencedWriter`] (one writer at a time), [`Consumer`] (a member of a group), [`TableReader`] (a
//! whole topic from its beginning).

mod admin;
mod brokers;
mod client;
mod consumer;
mod error;
mod event;
mod expiring;
mod fenced;
#[doc(hidden)]
pub mod fuzz;
mod lost_brokers;
mod member;
mod message;
mod names;
mod offsets;
mod ordered;
mod places;
mod producer;
mod row;
mod table;
#[cfg(feature = "verify")]
pub mod verify;
mod watermark;

pub use admin::{DEFAULT_PARTITIONS, RETENTION, TopicLayout, ensure_topics};
pub use consumer::{Consumer, ConsumerOptions};
pub use error::TopicError;
pub use event::{DecodeError, Event, MAX_EVENT_BYTES, Op, SCHEMA_VERSION, Source, decode};
pub use expiring::ExpiringSoon;
pub use fenced::FencedWriter;
pub use member::Assignment;
pub use message::{HEADER_POSITION, HEADER_SCHEMA, HEADER_TRACE_PARENT, Message};
pub use names::TopicNames;
pub use offsets::{PartitionOffsets, committed_lag, committed_offsets, partitions, topic_offsets};
pub use ordered::{Acknowledged, Enqueued, OrderedProducer, Place, Record};
pub use places::{Found, messages_at};
pub use producer::{Delivered, Producer, ProducerOptions};
pub use row::{ExpiryWakeUp, StockMovementRow, TemplateRow, UserCouponRow};
pub use table::TableReader;
