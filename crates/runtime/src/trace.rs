//! Spans of single requests, told to a collector by OTLP.
//!
//! A request's trace crosses processes by way of a row and a topic, so its context travels as the text
//! of a W3C traceparent, and each hop begins its span from that text. Only sampled traces are told: the
//! caller's flag decides, and for a request that brings none, chance. Without a collector nothing is
//! made, and [`begin`] costs a look at a static. A collector that is away costs nothing but spans.

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

use crate::ProcessConfig;

/// Where OTLP over HTTP takes spans, behind the collector's address.
const SPANS_PATH: &str = "/v1/traces";

/// How long a request to the collector, and the last one of a process that stops, may take.
const EXPORT_MAX: Duration = Duration::from_secs(5);

/// Digits of a traceparent's parts: version (00, the only one there is), trace, span, flags.
const WIDTHS: [usize; 4] = [2, 32, 16, 2];

static EXPORT: OnceLock<(SdkTracerProvider, SdkTracer)> = OnceLock::new();

/// Part of a trace; it ends when it is dropped. Empty where nobody would be told of it.
///
/// Boxed: most are empty, and a hundred thousand claims hold one.
#[derive(Debug, Default)]
pub struct Span(Option<Box<SdkSpan>>);

/// Begins a span in the trace of `parent`, or, where there is none, in a trace of its own for the
/// configured share of requests.
pub fn begin(name: impl Into<Cow<'static, str>>, kind: Kind, parent: Option<&str>) -> Span {
    build(SpanBuilder::from_name(name).with_kind(kind), parent)
}

/// Begins a span in the trace of `parent`, as it stands in a row or a header; empty where there is none.
pub fn follow(name: &'static str, kind: Kind, parent: Option<impl AsRef<[u8]>>) -> Span {
    let Some(parent) = parent.filter(|_| is_on()) else { return Span(None) };
    match std::str::from_utf8(parent.as_ref()) {
        Ok(parent) => begin(name, kind, Some(parent)),
        Err(_) => Span(None),
    }
}

/// [`follow`] for what began at `began` already.
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

/// Whether a collector is told of spans: for hops that must ask for a traceparent first.
pub fn is_on() -> bool {
    EXPORT.get().is_some()
}

impl Span {
    /// Whether nobody would be told of it.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The traceparent for what follows from here.
    pub fn trace_parent(&self) -> Option<String> {
        let context = self.0.as_ref()?.span_context();
        Some(format!(
            "00-{}-{}-{:02x}",
            context.trace_id(),
            context.span_id(),
            context.trace_flags()
        ))
    }

    /// Says something of it, by a name of OpenTelemetry's conventions where there is one.
    pub fn set(&mut self, key: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.0 {
            span.set_attribute(KeyValue::new(key, value));
        }
    }
}

/// The trace that a W3C traceparent of version 00 names; absent: it is none.
pub fn trace_id(trace_parent: &str) -> Option<u128> {
    context(trace_parent).map(|context| u128::from_be_bytes(context.trace_id().to_bytes()))
}

/// The context that a traceparent names, if it is one of version 00.
fn context(trace_parent: &str) -> Option<SpanContext> {
    let mut parts = trace_parent.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
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
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::NONE);
    context.is_valid().then_some(context)
}

/// Tells the collector of `config`, if there is one, of the spans of the process `name` from now on.
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
    // Twice in one process only in tests of several processes in one; the first one stays.
    drop(EXPORT.set((provider, tracer)));
    Ok(())
}

/// Tells the collector of what it was not told yet.
pub(crate) async fn end() {
    let Some((provider, _)) = EXPORT.get() else { return };
    let ended = tokio::task::spawn_blocking(|| provider.shutdown_with_timeout(EXPORT_MAX)).await;
    if let Ok(Err(error)) = ended {
        warn!(error = %error, "the collector was not told of the last spans");
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
