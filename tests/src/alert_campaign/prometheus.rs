//! The Prometheus of the campaign.

use std::{collections::BTreeSet, fs, net::SocketAddr, path::Path};

use devstack::{free_port, project_root};
use serde_json::Value;
use tokio::process::{Child, Command};

/// Starts a Prometheus that scrapes these processes each second. Returns it with its address.
pub(super) fn watch(dir: &Path, targets: &[(String, SocketAddr)]) -> (Child, String) {
    let rules = fs::read_to_string(project_root().join("ops/alerts.yaml")).unwrap();
    let rules: Vec<&str> = rules.lines().filter(|line| !line.trim().starts_with("for: ")).collect();
    fs::write(dir.join("alerts.yaml"), rules.join("\n")).unwrap();
    let mut config = "global: {scrape_interval: 1s, evaluation_interval: 1s}\n\
                      rule_files: [alerts.yaml]\nscrape_configs:\n  - job_name: coupon\n    \
                      static_configs:\n"
        .to_owned();
    for (process, address) in targets {
        config.push_str(&format!(
            "      - {{targets: [\"{address}\"], labels: {{process: {process}}}}}\n"
        ));
    }
    fs::write(dir.join("prometheus.yml"), config).unwrap();
    let address = format!("127.0.0.1:{}", free_port().unwrap());
    let log = fs::File::create(dir.join("prometheus.log")).unwrap();
    let child = Command::new("prometheus")
        .arg(format!("--config.file={}", dir.join("prometheus.yml").display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()))
        .arg(format!("--web.listen-address={address}"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .expect("prometheus runs: `ops/install.sh --for-tests` installs it");
    (child, format!("http://{address}"))
}

/// Returns the number of processes that Prometheus has looked at.
pub(super) async fn watched(prometheus: &str) -> usize {
    let answer = async {
        let answer = reqwest::get(format!("{prometheus}/api/v1/targets")).await.ok()?;
        answer.json::<Value>().await.ok()
    };
    let answer = answer.await.unwrap_or_default();
    let targets = answer.pointer("/data/activeTargets").and_then(Value::as_array);
    targets.into_iter().flatten().filter(|target| target["health"] == "up").count()
}

/// Returns the names of the alerts that fire now; none while Prometheus starts.
pub(super) async fn firing(prometheus: &str) -> BTreeSet<String> {
    let answer = async {
        let answer = reqwest::get(format!("{prometheus}/api/v1/alerts")).await.ok()?;
        answer.json::<Value>().await.ok()
    };
    let answer = answer.await.unwrap_or_default();
    let alerts = answer.pointer("/data/alerts").and_then(Value::as_array).into_iter().flatten();
    let firing = alerts.filter(|alert| alert["state"] == "firing");
    firing.filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned())).collect()
}
