//! A minimal span collector: it takes OTLP over HTTP and keeps the spans.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{Router, body::Bytes, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::{KeyValue, any_value::Value},
    trace::v1::Span,
};
use prost::Message as _;
use tokio::{net::TcpListener, task::JoinHandle};

/// A span's data.
#[derive(Debug, Clone)]
pub(crate) struct Reported {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) span: String,
    pub(crate) parent: String,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) attributes: BTreeMap<String, String>,
}

/// Listens until it is dropped.
pub(crate) struct Collector {
    /// Its address, for the processes.
    pub(crate) url: String,
    reported: Arc<Mutex<Vec<Reported>>>,
    listens: JoinHandle<()>,
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&reported);
        let take = async move |body: Bytes| {
            let request = ExportTraceServiceRequest::decode(body).unwrap();
            kept.lock().unwrap().extend(spans(request));
        };
        let router = Router::new().route("/v1/traces", post(take));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listens = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, reported, listens }
    }

    /// Returns the spans of a trace, ordered by start time.
    pub(crate) fn of(&self, trace: &str) -> Vec<Reported> {
        let mut of = self.all();
        of.retain(|reported| reported.trace == trace);
        of.sort_by_key(|reported| reported.began);
        of
    }

    pub(crate) fn all(&self) -> Vec<Reported> {
        self.reported.lock().unwrap().clone()
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.listens.abort();
    }
}

fn spans(request: ExportTraceServiceRequest) -> Vec<Reported> {
    let mut all = Vec::new();
    for resource in request.resource_spans {
        let of_service = resource.resource.map(|resource| words(resource.attributes));
        let service = of_service.and_then(|mut words| words.remove("service.name")).unwrap();
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        all.extend(spans.map(|span| reported(&service, span)));
    }
    all
}

fn reported(service: &str, span: Span) -> Reported {
    Reported {
        service: service.to_owned(),
        name: span.name,
        trace: hex(&span.trace_id),
        span: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        began: span.start_time_unix_nano,
        ended: span.end_time_unix_nano,
        attributes: words(span.attributes),
    }
}

fn words(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    let word = |value| match value {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = attributes.into_iter().filter_map(|pair| Some((pair.key, pair.value?.value?)));
    pairs.map(|(key, value)| (key, word(value))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
