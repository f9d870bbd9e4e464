//! Trace spans of requests, exported to a collector over OTLP.
//!
//! A request's trace crosses processes through a row and a topic, so its context travels as the text of a W3C
//! traceparent, and each hop begins its span from that text. Only sampled traces are exported: the caller's flag
//! decides, or chance for a request without a traceparent. Without a collector no spans are made, and [`begin`] costs
//! one read of a static. An unreachable collector costs nothing but spans.

use std::{
    borrow::Cow,
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use chrono::{DateTime, Utc};
pub use opentelemetry::trace::SpanKind as Kind;
use opentelemetry::{
    Context, KeyValue, SpanId, TraceFlags, TraceId, Value,
    trace::{
        Span as _, SpanBuilder, SpanContext, TraceContextExt as _, TraceState, Tracer as _,
        TracerProvider as _,
    },
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan},
};
use tracing::warn;

use crate::{ProcessConfig, report};

/// Path of the OTLP/HTTP endpoint for spans, appended to the collector's address.
const SPANS_PATH: &str = "/v1/traces";

/// Time limit for a request to the collector, and for the last export of a process that stops.
const EXPORT_MAX: Duration = Duration::from_secs(5);

/// Digits of a traceparent's parts: version (00, the only one defined), trace, span, flags.
const WIDTHS: [usize; 4] = [2, 32, 16, 2];

static EXPORT: OnceLock<(SdkTracerProvider, SdkTracer)> = OnceLock::new();

/// Part of a trace. It ends when dropped. Empty if it is not exported.
///
/// Boxed to be small: most spans are empty, and a hundred thousand claims hold one each.
#[derive(Debug, Default)]
pub struct Span(Option<Box<SdkSpan>>);

/// Begins a span in the trace of `parent`. Without a parent it begins a new trace, for the configured share of
/// requests.
pub fn begin(name: impl Into<Cow<'static, str>>, kind: Kind, parent: Option<&str>) -> Span {
    build(SpanBuilder::from_name(name).with_kind(kind), parent)
}

/// Begins a span in the trace of `parent`, as read from a row or a header. The span is empty if there is no parent.
pub fn follow(name: &'static str, kind: Kind, parent: Option<impl AsRef<[u8]>>) -> Span {
    let Some(parent) = parent.filter(|_| is_on()) else { return Span(None) };
    match std::str::from_utf8(parent.as_ref()) {
        Ok(parent) => begin(name, kind, Some(parent)),
        Err(_) => Span(None),
    }
}

/// Like [`follow`], for work that began at `began`.
pub fn follow_since(name: &'static str, kind: Kind, parent: &str, began: DateTime<Utc>) -> Span {
    let builder = SpanBuilder::from_name(name).with_kind(kind);
    build(builder.with_start_time(SystemTime::from(began)), Some(parent))
}

fn build(builder: SpanBuilder, parent: Option<&str>) -> Span {
    let Some((_, tracer)) = EXPORT.get() else { return Span(None) };
    let remote = match parent {
        Some(parent) => match context(parent) {
            Some(sampled) if sampled.is_sampled() => {
                Context::new().with_remote_span_context(sampled)
            }
            _ => return Span(None),
        },
        None => Context::new(),
    };
    let span = tracer.build_with_context(builder, &remote);
    Span(span.span_context().is_sampled().then(|| Box::new(span)))
}

/// Returns whether spans are exported. A hop that must query a traceparent checks this first.
pub fn is_on() -> bool {
    EXPORT.get().is_some()
}

impl Span {
    /// Returns whether the span is not exported.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns the traceparent for what follows, or `None` if the span is empty.
    pub fn trace_parent(&self) -> Option<String> {
        let context = self.0.as_ref()?.span_context();
        Some(format!(
            "00-{}-{}-{:02x}",
            context.trace_id(),
            context.span_id(),
            context.trace_flags()
        ))
    }

    /// Sets an attribute, under the name of OpenTelemetry's conventions if there is one.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(key, value));
        }
    }
}

/// Returns the trace id of a W3C traceparent of version 00, or `None` if the text is not one.
pub fn trace_id(trace_parent: &str) -> Option<u128> {
    context(trace_parent).map(|context| u128::from_be_bytes(context.trace_id().to_bytes()))
}

/// Parses a traceparent of version 00.
fn context(trace_parent: &str) -> Option<SpanContext> {
    let mut parts = trace_parent.split('-');
    let version = parts.next()?;
    let trace = parts.next()?;
    let span = parts.next()?;
    let flags = parts.next()?;
    let widths = [version, trace, span, flags].map(str::len);
    let plain = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte) || byte == b'-';
    if widths != WIDTHS
        || version != "00"
        || parts.next().is_some()
        || !trace_parent.bytes().all(plain)
    {
        return None;
    }
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let trace = TraceId::from_hex(trace).ok()?;
    let span = SpanId::from_hex(span).ok()?;
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

/// Starts exporting the spans of the process `name` to the collector of `config`, if there is one.
pub(crate) fn start(name: &'static str, config: &ProcessConfig) -> anyhow::Result<()> {
    let Some(endpoint) = &config.otlp_endpoint else { return Ok(()) };
    anyhow::ensure!(
        endpoint.starts_with("http://"),
        "OTEL_EXPORTER_OTLP_ENDPOINT is not an http:// address: {endpoint:?}; the collector listens \
         near by, e.g. at http://127.0.0.1:4318, and may have TLS from there on"
    );
    let exporter = SpanExporter::builder()
        .with_http()
        .with_endpoint(format!("{}{SPANS_PATH}", endpoint.trim_end_matches('/')))
        .with_timeout(EXPORT_MAX)
        .build()
        .with_context(|| {
            format!("spans cannot be sent to {endpoint:?} (OTEL_EXPORTER_OTLP_ENDPOINT)")
        })?;
    let share = Sampler::TraceIdRatioBased(config.trace_share.0);
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(Sampler::ParentBased(Box::new(share)))
        .with_resource(Resource::builder().with_service_name(name).build())
        .build();
    let tracer = provider.tracer(name);
    // Set twice only by tests that run several processes in one; the first value stays.
    drop(EXPORT.set((provider, tracer)));
    Ok(())
}

/// Exports the remaining spans.
pub(crate) async fn end() {
    let Some((provider, _)) = EXPORT.get() else { return };
    let ended = tokio::task::spawn_blocking(|| provider.shutdown_with_timeout(EXPORT_MAX)).await;
    if let Ok(Err(error)) = ended {
        warn!(error = report(&error), "the last spans were not sent to the collector");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_of_version_00_is_read_and_nothing_else() {
        let read = context(SAMPLED).unwrap();
        assert!(read.is_sampled() && read.is_remote());
        assert_eq!(read.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(read.span_id().to_string(), "b7ad6b7169203331");
        for other in [
            "",
            "00",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert!(context(other).is_none(), "{other}");
        }
    }

    #[test]
    fn without_a_collector_there_is_no_span() {
        let mut span = begin("hop", Kind::Internal, Some(SAMPLED));
        span.set("key", "value");
        assert!(span.is_empty() && span.trace_parent().is_none() && !is_on());
    }
}
