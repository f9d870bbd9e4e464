//! The metrics that the processes export are those of their tables, from which docs/metrics.md is written
//! (`metrics_page.rs`). So the names in alerts and dashboards exist.

use std::collections::{BTreeMap, BTreeSet};

use coupon::UserId;
use devstack::Process;
use pipeline_tests::{World, until};
use shopper::NewTemplate;

use crate::platform::metrics_page::{EVERY_PROCESS, tables};

/// A metric as it is documented, or exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Metric {
    pub(crate) kind: String,
    pub(crate) labels: BTreeSet<String>,
}

/// Metrics by name.
pub(crate) type Metrics = BTreeMap<String, Metric>;

/// Returns the metrics of the tables by process, each with those of every process.
pub(crate) fn documented() -> BTreeMap<String, Metrics> {
    let mut processes: BTreeMap<String, Metrics> = BTreeMap::new();
    for (process, table) in tables() {
        let mut metrics = Metrics::new();
        for row in table {
            assert_unit(row.name, row.kind.word(), row.unit);
            let labels = row.labels.iter().map(|label| label.name.to_owned()).collect();
            let metric = Metric { kind: row.kind.word().to_owned(), labels };
            let before = metrics.insert(row.name.to_owned(), metric);
            assert_eq!(before, None, "{} is there twice", row.name);
        }
        processes.insert(process.to_owned(), metrics);
    }
    let of_every = processes.remove(EVERY_PROCESS).unwrap();
    for metrics in processes.values_mut() {
        metrics.extend(of_every.clone());
    }
    processes
}

/// Asserts the naming convention: names end with their base unit, and only counters end with `_total`.
fn assert_unit(name: &str, kind: &str, unit: &str) {
    assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
    for base in ["seconds", "bytes", "ratio"] {
        assert_eq!(name.ends_with(&format!("_{base}")), unit == base, "{name} is in {unit}");
    }
}

/// Returns the metrics that a process exports now.
async fn exported(process: &Process) -> Metrics {
    let text = process.answer("/metrics").await.unwrap();
    let kinds = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let mut metrics: Metrics = kinds
        .map(|(name, kind)| {
            let metric = Metric { kind: kind.to_owned(), labels: BTreeSet::new() };
            (name.to_owned(), metric)
        })
        .collect();
    for sample in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, labels)) = sample.split_once('{') else { continue };
        let name = histogram_of(name).filter(|name| metrics.contains_key(*name)).unwrap_or(name);
        let labels = labels.rsplit_once('}').unwrap().0.split("\",");
        let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        let metric = metrics.get_mut(name).unwrap();
        metric.labels.extend(labels.filter(|label| label != "le"));
    }
    metrics
}

/// Returns the histogram that a series belongs to.
pub(crate) fn histogram_of(series: &str) -> Option<&str> {
    ["_bucket", "_sum", "_count"].into_iter().find_map(|end| series.strip_suffix(end))
}

#[tokio::test]
async fn what_the_processes_export_and_what_is_documented_are_the_same() {
    let documented = documented();
    let mut world = World::start_queued("metrics").await;
    assert_eq!(documented.len(), 6);
    for process in world.platform.processes() {
        let seen = exported(process).await;
        for (name, metric) in &documented[process.name()] {
            // Exported from the start, as otherwise a counter's first increment would not be visible as one.
            if metric.kind == "counter" {
                assert_eq!(seen.get(name), Some(metric), "{name} of {} at boot", process.name());
            }
        }
    }

    let template = world.template(5, |new| NewTemplate { valid_for_ms: 300, ..new }).await;
    world.warm_views(1..=3).await;
    for user in 1..=3 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        assert_eq!(shopper.claim(template, None, 1).await.unwrap().status, 201);
    }
    // The relay publishes what is accepted by the gate alone; so the processes of the queue have something to count.
    let queued = world.template(5, |new| new.in_mode("queued", "gate")).await;
    for user in 1..=2 {
        let shopper = world.api().shopper(UserId(user)).unwrap();
        assert_eq!(shopper.claim(queued, None, 1).await.unwrap().status, 202);
    }
    world.until(queued, |counts| counts.all() == 2).await;
    world.until(template, |counts| counts.expired == 3).await;
    for process in world.platform.processes() {
        let name = process.name().to_owned();
        let wanted = &documented[&name];
        until(
            async || exported(process).await,
            |seen| wanted.keys().all(|it| seen.contains_key(it)),
        )
        .await;
        assert_eq!(&exported(process).await, wanted, "exported and documented of {name}");
    }

    let api = &world.platform.apis[0];
    let admitted = "coupon_gate_verdicts_total{outcome=\"admitted\"}";
    assert_eq!(api.metric(admitted).await, Some(3.0));
    let route = "method=\"POST\",route=\"/v1/templates/{id}/claims\",status=\"201\"";
    let claims = format!("api_request_seconds_count{{{route}}}");
    assert_eq!(api.metric(&claims).await, Some(3.0));
    // A lag that kept the value of the last batch would keep an alert firing.
    let consumer = &world.platform.sync_consumer;
    until(async || consumer.metric("sync_consumer_lag_seconds").await, |lag| *lag == Some(0.0))
        .await;
    world.assert_sound(None).await;
    world.end().await;
}

#[tokio::test]
async fn nobody_makes_up_labels_by_asking_for_odd_things() {
    let world = World::start_queued("odd labels").await;
    let client = reqwest::Client::new();
    let url = &world.platform.api_urls()[0];
    for number in 0..50 {
        let method = reqwest::Method::from_bytes(format!("ODD{number}").as_bytes()).unwrap();
        let path = format!("{url}/v1/me/coupons?number={number}");
        assert_eq!(client.request(method, path).send().await.unwrap().status(), 405);
        let path = format!("{url}/nowhere/{number}");
        assert_eq!(client.get(path).send().await.unwrap().status(), 404);
    }
    let text = world.platform.apis[0].answer("/metrics").await.unwrap();
    let series = text.lines().filter(|line| line.starts_with("api_request_seconds_count"));
    let series: Vec<&str> = series.collect();
    assert!(series.len() <= 2, "{series:#?}");
    world.end().await;
}
