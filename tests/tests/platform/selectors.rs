//! Selectors and labels in alert rules, dashboard panels and runbooks exist: the metric has the label, and a
//! process exports the value. An alert whose selector matches nothing never fires.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use coupon::UserId;
use devstack::{Platform, project_root};
use pipeline_tests::{World, until};
use serde_json::Value;

use crate::platform::{
    full::metrics::{documented, histogram_of},
    metrics_page::tables,
};

/// Files searched for selectors, besides the dashboard and the operators' guide.
const TEXTS: [&str; 3] = ["ops/alerts.yaml", "docs/metrics.md", "docs/performance.md"];
/// The operators' guide, one file a task.
const GUIDE: &str = "docs/operate";
/// Labels that Prometheus itself adds to a series.
const BY_PROMETHEUS: [&str; 2] = ["instance", "le"];
/// Label for an answer's status; a test does not produce all of its values.
const STATUS: &str = "status";

/// Values by metric and label, histograms by their stem.
type Values = BTreeMap<(String, String), BTreeSet<String>>;

/// One condition of a selector, `metric{label operator "value"}`, or one label of a series.
#[derive(Debug)]
struct Condition {
    metric: String,
    label: String,
    operator: String,
    value: String,
}

impl Condition {
    /// Whether one of these values satisfies it; each of several alternatives must match a value.
    fn is_met_by(&self, values: &BTreeSet<String>) -> bool {
        match self.operator.as_str() {
            "=" | "!=" => values.contains(&self.value),
            _ => self.value.split('|').all(|one| values.iter().any(|value| fits(one, value))),
        }
    }
}

/// Whether a pattern matches a whole value. Only the patterns of our rules, letters and dots, are supported.
fn fits(pattern: &str, value: &str) -> bool {
    let is_known = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
    assert!(pattern.chars().all(is_known), "teach this test what {pattern} matches");
    let same = |(wanted, is): (char, char)| wanted == '.' || wanted == is;
    pattern.len() == value.len() && pattern.chars().zip(value.chars()).all(same)
}

fn text(path: &str) -> String {
    fs::read_to_string(project_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// Returns each metric's labels by the tables of docs/metrics.md; another test compares those with the processes.
fn labels() -> BTreeMap<String, BTreeSet<String>> {
    let metrics = documented().into_values().flatten();
    metrics.map(|(name, metric)| (name, metric.labels)).collect()
}

/// Returns a metric's name for any series of a histogram.
fn stem<'a>(labels: &BTreeMap<String, BTreeSet<String>>, series: &'a str) -> &'a str {
    histogram_of(series).filter(|name| labels.contains_key(*name)).unwrap_or(series)
}

/// Returns every condition of every selector in a text; in exported metrics, every label of every series.
fn conditions(labels: &BTreeMap<String, BTreeSet<String>>, text: &str) -> Vec<Condition> {
    let mut found = Vec::new();
    for (at, _) in text.match_indices('{') {
        let series =
            text[..at].rsplit(|letter: char| !is_of_name(letter)).next().unwrap_or_default();
        if series.is_empty() {
            continue;
        }
        let mut rest = &text[at + 1..];
        while let Some((label, operator, value, behind)) = next_condition(rest) {
            let [metric, label, operator, value] =
                [stem(labels, series), label, operator, value].map(str::to_owned);
            found.push(Condition { metric, label, operator, value });
            rest = behind;
        }
    }
    found
}

/// Parses the condition at the start of a text; returns its parts and the rest.
fn next_condition(text: &str) -> Option<(&str, &str, &str, &str)> {
    let (label, rest) = text.split_at(text.find(['=', '!', '}'])?);
    let (operator, rest) = rest.split_once('"')?;
    let (value, rest) = rest.split_once('"')?;
    let is_one = ["=", "!=", "=~", "!~"].contains(&operator);
    is_one.then(|| (label, operator, value, rest.trim_start_matches([',', ' '])))
}

/// Returns all labels and values that the processes export now.
async fn shown(labels: &BTreeMap<String, BTreeSet<String>>, platform: &mut Platform) -> Values {
    let mut values = Values::new();
    for process in platform.processes() {
        let exported = process.answer("/metrics").await.unwrap();
        for Condition { metric, label, value, .. } in conditions(labels, &exported) {
            values.entry((metric, label)).or_default().insert(value);
        }
    }
    values
}

/// Returns the values that the tables list, for each label with a closed set of them. `metrics_page.rs` compares them
/// with what the page explains.
fn listed() -> Values {
    let mut values = Values::new();
    for metric in tables().into_iter().flat_map(|(_, table)| table) {
        for label in metric.labels.iter().filter(|label| !label.values.is_empty()) {
            let known = label.values.iter().map(|value| (*value).to_owned()).collect();
            values.insert((metric.name.to_owned(), label.name.to_owned()), known);
        }
    }
    values
}

/// Returns every query of the dashboard, with its legend.
fn statements(dashboard: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut values = vec![dashboard];
    while let Some(value) = values.pop() {
        if let Some(expr) = value["expr"].as_str() {
            let legend = value["legendFormat"].as_str().unwrap_or_default();
            found.push((expr.to_owned(), legend.to_owned()));
        }
        values.extend(value.as_object().into_iter().flat_map(|object| object.values()));
        values.extend(value.as_array().into_iter().flatten());
    }
    found
}

fn dashboard() -> Vec<(String, String)> {
    statements(&serde_json::from_str(&text("ops/grafana/coupon.json")).unwrap())
}

/// Returns the labels that ops/prometheus.yml adds to every series: the job, and others.
fn scraped() -> Values {
    let mut values = Values::new();
    let up = |label: &str| ("up".to_owned(), label.to_owned());
    for line in text("ops/prometheus.yml").lines() {
        if let Some((_, job)) = line.split_once("job_name: ") {
            values.entry(up("job")).or_default().insert(job.to_owned());
        }
        let own = line.split_once("labels: {").and_then(|(_, own)| own.split('}').next());
        if let Some((label, value)) = own.and_then(|own| own.split_once(": ")) {
            values.entry(up(label)).or_default().insert(value.to_owned());
        }
    }
    values
}

/// Returns the labels of the series that Prometheus itself writes of alerts.
fn of_alerts() -> Values {
    let rules = text("ops/alerts.yaml");
    let names = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: "));
    let of = |label: &str| ("ALERTS".to_owned(), label.to_owned());
    let states = ["pending", "firing"].map(str::to_owned);
    Values::from([
        (of("alertname"), names.map(str::to_owned).collect()),
        (of("alertstate"), BTreeSet::from(states)),
    ])
}

/// Returns the statuses in docs/errors.md.
fn statuses() -> BTreeSet<String> {
    let page = text("docs/errors.md");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.filter_map(|row| Some(row.split('|').nth(2)?.trim().to_owned())).collect()
}

#[tokio::test]
async fn what_is_selected_is_a_value_that_a_process_shows_and_the_tables_list_each() {
    let labels = labels();
    let mut world = World::start_queued("selectors").await;
    // Requests are counted from the first one on.
    let anna = world.api().shopper(UserId(1)).unwrap();
    assert!(anna.all_coupons().await.unwrap().is_empty());
    let with_labels = || labels.iter().filter(|(_, labels)| !labels.is_empty());
    let mut values = until(
        async || shown(&labels, &mut world.platform).await,
        |values| {
            let is_shown = |metric: &String| values.keys().any(|(shown, _)| shown == metric);
            with_labels().all(|(metric, _)| is_shown(metric))
        },
    )
    .await;

    let listed = listed();
    assert!(listed.len() >= 10, "{listed:#?}");
    for (of, words) in &listed {
        assert_eq!(values.get(of), Some(words), "shown and listed of {of:?}");
    }

    values.extend(scraped());
    values.extend(of_alerts());
    for ((_, label), known) in &mut values {
        if label == STATUS {
            known.extend(statuses());
        }
    }
    let mut selected = Vec::new();
    for path in TEXTS {
        selected.extend(conditions(&labels, &text(path)));
    }
    for page in fs::read_dir(project_root().join(GUIDE)).unwrap() {
        let page = fs::read_to_string(page.unwrap().path()).unwrap();
        selected.extend(conditions(&labels, &page));
    }
    for (expr, _) in dashboard() {
        selected.extend(conditions(&labels, &expr));
    }
    assert!(selected.len() >= 9, "{selected:#?}");
    for condition in &selected {
        let known = values.get(&(condition.metric.clone(), condition.label.clone()));
        let known = known.unwrap_or_else(|| panic!("no metric has that label: {condition:?}"));
        assert!(condition.is_met_by(known), "{condition:?} matches none of {known:?}");
    }
    world.end().await;
}

/// Returns the labels that a query, a legend or an annotation uses.
fn gone_by(text: &str) -> BTreeSet<String> {
    let mut names = Vec::new();
    for keyword in ["by (", "on (", "without ("] {
        let lists = text.split(keyword).skip(1).filter_map(|rest| rest.split(')').next());
        names.extend(lists.flat_map(|list| list.split(',')));
    }
    // Prometheus writes `{{ $labels.reason }}`, Grafana `{{reason}}`.
    let templates = text.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    // What Prometheus adds to all alerts is no label of a metric.
    let templates = templates.filter(|name| !name.contains("$externalLabels."));
    names.extend(templates.map(|name| name.trim().trim_start_matches("$labels.")));
    names.into_iter().map(|name| name.trim().to_owned()).collect()
}

#[test]
fn rules_and_panels_sum_and_name_by_labels_that_their_metrics_have() {
    let labels = labels();
    let by_scraping: BTreeSet<String> = scraped().into_keys().map(|(_, label)| label).collect();
    let rules = text("ops/alerts.yaml");
    let rules = rules.split("- alert: ").skip(1).map(str::to_owned);
    let panels = dashboard().into_iter().map(|(expr, legend)| format!("{expr}\n{legend}"));
    let mut named = 0;
    for statement in rules.chain(panels) {
        let words = statement.split(|letter: char| !is_of_name(letter));
        let of_metrics: BTreeSet<&String> =
            words.filter_map(|word| labels.get(stem(&labels, word))).flatten().collect();
        for label in gone_by(&statement) {
            let is_there = of_metrics.contains(&label)
                || BY_PROMETHEUS.contains(&label.as_str())
                || by_scraping.contains(&label);
            assert!(is_there, "no metric has the label {label}: {statement}");
            named += 1;
        }
    }
    assert!(named > 30, "{named}");
}

#[test]
fn a_selector_is_taken_apart_and_must_find_each_of_its_alternatives() {
    let labels = BTreeMap::from([("api_seconds".to_owned(), BTreeSet::new())]);
    let found = conditions(
        &labels,
        r#"rate(api_seconds_count{status=~"5..|404", route!="/v1/{id}"}[5m]) > up{} or {{ $labels.x }}"#,
    );
    let parts: Vec<[&str; 4]> =
        found.iter().map(|one| [&*one.metric, &*one.label, &*one.operator, &*one.value]).collect();
    let wanted =
        [["api_seconds", "status", "=~", "5..|404"], ["api_seconds", "route", "!=", "/v1/{id}"]];
    assert_eq!(parts, wanted);
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    assert!(found[0].is_met_by(&values(&["503", "404"])));
    assert!(!found[0].is_met_by(&values(&["503"])) && !found[0].is_met_by(&values(&["404"])));
    assert!(found[1].is_met_by(&values(&["/v1/{id}"])) && !found[1].is_met_by(&values(&[])));
}
