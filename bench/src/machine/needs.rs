//! What a rate of claims needs of each part, by the CPU time that a claim takes of it: the table of
//! docs/operate/capacity.md.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Serialize;

/// Claims a second that the table is about.
const RATES: [u32; 3] = [10_000, 100_000, 1_000_000];

/// The share of its time that a Redis may be busy with claims. It has one thread for all, so above it they wait for each
/// other.
const BUSY_MAX: f64 = 0.6;

/// Cores up to which a tenth of one is worth printing.
const FEW_CORES: f64 = 10.0;

/// Microseconds of CPU time that a claim takes, by process.
pub type ClaimUs = BTreeMap<String, f64>;

/// CPU time of a claim in each kind of load.
#[derive(Debug, Serialize)]
pub struct Loads {
    /// Direct claims on one template.
    pub one_template: ClaimUs,
    /// Direct claims spread evenly over a thousand.
    pub many_templates: ClaimUs,
    /// Queued claims on one template.
    pub queued: ClaimUs,
}

/// What a part is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Cores,
    /// Servers with one thread each.
    Servers,
}

/// A part: what it is called in the table, its process, and what it is counted in.
struct Kind {
    part: &'static str,
    process: &'static str,
    unit: Unit,
    /// It works for queued claims alone.
    only_queued: bool,
}

/// A part that works for every claim, and needs more cores.
const EACH: Kind = Kind { part: "", process: "", unit: Unit::Cores, only_queued: false };

/// Parts in the order of a claim's way.
const KINDS: [Kind; 9] = [
    Kind { part: "api", process: "api", ..EACH },
    Kind { part: "gate Redis", process: "redis-gate", unit: Unit::Servers, ..EACH },
    Kind { part: "MySQL", process: "mariadb", ..EACH },
    Kind { part: "Kafka, one copy", process: "kafka", ..EACH },
    Kind { part: "cdc-tailer", process: "cdc-tailer", ..EACH },
    Kind { part: "sync-consumer", process: "sync-consumer", ..EACH },
    Kind { part: "view Redis", process: "redis-view", unit: Unit::Servers, ..EACH },
    Kind { part: "outbox-relay", process: "outbox-relay", only_queued: true, ..EACH },
    Kind { part: "claim-lander", process: "claim-lander", only_queued: true, ..EACH },
];

/// A row of the table.
#[derive(Debug, Serialize)]
pub struct Part {
    part: &'static str,
    unit: Unit,
    one_template_us: f64,
    many_templates_us: f64,
    queued_us: f64,
    /// Claims a second that take a whole core, or the whole time of a server's thread.
    ceiling_per_s: f64,
    /// Cores or servers, by claims a second.
    needs: BTreeMap<u32, f64>,
}

/// The rows of the table. The dearer load of direct claims counts, and of what only works for queued claims, those.
pub fn parts(loads: &Loads) -> Vec<Part> {
    KINDS.iter().map(|kind| Part::of(kind, loads)).collect()
}

impl Part {
    fn of(kind: &Kind, loads: &Loads) -> Self {
        let us = |load: &ClaimUs| load.get(kind.process).copied().unwrap_or_default();
        let one_template_us = us(&loads.one_template);
        let many_templates_us = us(&loads.many_templates);
        let queued_us = us(&loads.queued);
        let counts = match kind.only_queued {
            true => queued_us,
            false => one_template_us.max(many_templates_us),
        };
        let needs = RATES.map(|per_s| (per_s, needs(kind.unit, f64::from(per_s) * counts / 1e6)));
        Self {
            part: kind.part,
            unit: kind.unit,
            one_template_us,
            many_templates_us,
            queued_us,
            ceiling_per_s: 1e6 / counts,
            needs: needs.into(),
        }
    }

    /// Its row, in Markdown.
    fn row(&self) -> String {
        let mut row = format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} |",
            self.part,
            self.one_template_us,
            self.many_templates_us,
            self.queued_us,
            self.ceiling_per_s / 1e3
        );
        for needs in self.needs.values() {
            let digits = usize::from(self.unit == Unit::Cores && *needs < FEW_CORES);
            write!(row, " {needs:.digits$} |").expect("a string takes all that is written");
        }
        row
    }
}

/// Cores, or servers of which each is busy for at most [`BUSY_MAX`].
fn needs(unit: Unit, cores: f64) -> f64 {
    match unit {
        Unit::Cores => cores,
        Unit::Servers => (cores / BUSY_MAX).ceil(),
    }
}

/// The table, in Markdown.
pub fn table(parts: &[Part]) -> String {
    let head = "| part | µs: one template | 1,000 templates | queued | ceiling of one, k/s | 10 k/s | 100 k/s | 1 M/s |";
    let line = "|---|---|---|---|---|---|---|---|";
    let rows: Vec<String> = parts.iter().map(Part::row).collect();
    format!("{head}\n{line}\n{}", rows.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(gate: f64, mysql: f64, relay: f64) -> ClaimUs {
        let us = [("redis-gate", gate), ("mariadb", mysql), ("outbox-relay", relay)];
        us.map(|(process, us)| (process.to_owned(), us)).into()
    }

    #[test]
    fn the_dearer_direct_load_counts_and_of_a_relay_the_queued_one() {
        let parts = parts(&Loads {
            one_template: load(30.0, 36.0, 2.0),
            many_templates: load(28.0, 50.0, 2.0),
            queued: load(45.0, 60.0, 12.4),
        });
        let table = table(&parts);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(rows.len(), 2 + KINDS.len());
        assert_eq!(rows[3], "| gate Redis | 30 | 28 | 45 | 33 | 1 | 5 | 50 |");
        assert_eq!(rows[4], "| MySQL | 36 | 50 | 60 | 20 | 0.5 | 5.0 | 50 |");
        assert_eq!(rows[9], "| outbox-relay | 2 | 2 | 12 | 81 | 0.1 | 1.2 | 12 |");
    }
}
