//! Spans for the hop from the topic to the view, in the traces of the requests behind the messages.

use runtime::trace::{self, Kind, Span};
use topic::{HEADER_TRACE_PARENT, Message};

/// Starts a span for each sampled message; they end together with the batch.
pub(crate) fn of(batch: &[Message]) -> Vec<Span> {
    if !trace::is_on() {
        return Vec::new();
    }
    batch.iter().map(span).filter(|span| !span.is_empty()).collect()
}

fn span(message: &Message) -> Span {
    let parent = message.header(HEADER_TRACE_PARENT);
    let mut span = trace::follow("sync-consumer.apply", Kind::Consumer, parent);
    if !span.is_empty() {
        span.set("messaging.system", "kafka");
        span.set("messaging.destination.name", message.topic.clone());
        span.set("messaging.destination.partition.id", message.partition.to_string());
        span.set("messaging.kafka.offset", message.offset);
        span.set("db.system.name", "redis");
    }
    span
}
