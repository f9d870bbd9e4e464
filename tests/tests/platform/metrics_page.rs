//! docs/metrics.md is written from the tables of metrics in the code.

use std::{collections::BTreeSet, fs};

use devstack::{golden_rows, project_root};
use runtime::metric::{Kind, Metric, OF_EVERY_PROCESS};

const PAGE: &str = "docs/metrics.md";
/// The first two lines of each table.
const HEAD: &str =
    "| name | type | unit | labels | meaning | worry when |\n|---|---|---|---|---|---|";
/// A cell without content.
const NONE: &str = "–";

/// The table of metrics that each process exports besides its own.
pub(crate) const EVERY_PROCESS: &str = "every process";

/// Returns the metrics of each process, in the order of the page, after those of all of them.
pub(crate) fn tables() -> [(&'static str, Vec<Metric>); 7] {
    [
        (EVERY_PROCESS, OF_EVERY_PROCESS.to_vec()),
        ("api", api::METRICS.concat()),
        ("outbox-relay", outbox_relay::METRICS.to_vec()),
        ("claim-lander", claim_lander::METRICS.concat()),
        ("cdc-tailer", cdc_tailer::METRICS.to_vec()),
        ("sync-consumer", sync_consumer::METRICS.to_vec()),
        ("expiry-worker", expiry_worker::METRICS.to_vec()),
    ]
}

fn row(metric: &Metric) -> String {
    let labels: Vec<String> =
        metric.labels.iter().map(|label| format!("`{}`", label.name)).collect();
    let labels = if labels.is_empty() { NONE.to_owned() } else { labels.join(" ") };
    let &Metric { name, kind, unit, meaning, worry, .. } = metric;
    let kind = kind.word();
    let worry = worry.unwrap_or(NONE);
    for cell in [unit, meaning, worry] {
        assert!(!cell.contains(['|', '\n']), "{name} would end its cell: {cell}");
    }
    format!("| `{name}` | {kind} | {unit} | {labels} | {meaning} | {worry} |\n")
}

#[test]
fn the_page_of_metrics_shows_the_tables_of_the_processes() {
    for (process, table) in tables() {
        let rows: String = table.iter().map(row).collect();
        golden_rows(PAGE, &format!("## {process}"), HEAD, &rows);
    }
    let page = fs::read_to_string(project_root().join(PAGE)).unwrap();
    assert_eq!(page.matches(HEAD).count(), tables().len(), "{PAGE} has a table of no process");
}

#[test]
fn a_meaning_explains_each_value_of_its_label_and_a_counter_knows_all_of_them() {
    for metric in tables().into_iter().flat_map(|(_, table)| table) {
        let name = metric.name;
        let is_closed = metric.labels.iter().all(|label| !label.values.is_empty());
        assert!(is_closed || metric.kind != Kind::Counter, "{name} cannot start at 0");
        let [label] = metric.labels else { continue };
        assert!(is_closed, "{name} lists no values of {}", label.name);
        let is_word =
            |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        let explained = metric.meaning.split('`').skip(1).step_by(2).filter(is_word);
        let explained: BTreeSet<&str> = explained.collect();
        let listed: BTreeSet<&str> = label.values.iter().copied().collect();
        assert_eq!(explained, listed, "explained and listed of {name}");
    }
}
