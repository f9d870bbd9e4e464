//! Whether the next sale of a template can begin: one pure function from what is known to a list of items.
//!
//! A merchant reads it, so no item names an address or a server's own words. `coupon health` has those, for whoever
//! operates the platform.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use coupon::{TemplateState, Validity, Window};

use super::{
    facts::{Facts, Process},
    first_sentence::joined,
    kind::Kind,
};

/// Where the cause of a fault of the platform stands.
const SEE_HEALTH: &str =
    "Whoever operates the platform reads the cause and what to do in `coupon health`.";

/// What to do where this api does not know a process.
const NAME_PEERS: &str =
    "Whoever operates the platform names all processes in the api's setting ADMIN_PEERS.";

/// Every process needs its servers; these are named as people call them.
const SERVERS: [Server; 4] = [
    Server { part: "mysql", shown: "MySQL" },
    Server { part: "gate", shown: "the gates' Redis" },
    Server { part: "kafka", shown: "Kafka" },
    Server { part: "view", shown: "the lists' Redis" },
];

/// Processes that each sale needs.
const ALWAYS: [Kind; 4] = [Kind::Api, Kind::CdcTailer, Kind::SyncConsumer, Kind::ExpiryWorker];

/// Processes that a sale needs whose claims may be queued.
const FOR_QUEUES: [Kind; 2] = [Kind::OutboxRelay, Kind::ClaimLander];

struct Server {
    /// As the processes call it.
    part: &'static str,
    shown: &'static str,
}

/// What is known of the template at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Sale {
    /// By the clock of sales.
    pub(crate) now: DateTime<Utc>,
    pub(crate) template: String,
    pub(crate) state: TemplateState,
    pub(crate) window: Window,
    pub(crate) validity: Validity,
    /// Whether claims may be queued.
    pub(crate) may_queue: bool,
    /// Coupons given out in all, and those of them that are left.
    pub(crate) total: i64,
    pub(crate) stock: i64,
    /// Whether the gate is loaded. `None`: its Redis did not say.
    pub(crate) is_gate_loaded: Option<bool>,
    /// How long before the window opens the gate is loaded.
    pub(crate) preload: TimeDelta,
}

/// One line of the checklist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) name: &'static str,
    /// `None`: it is not known.
    pub(crate) ok: Option<bool>,
    /// What is so, for people.
    pub(crate) sentence: String,
    /// What to do. `None`: nothing.
    pub(crate) action: Option<String>,
}

/// The checklist, and what it says as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Readiness {
    /// Whether all is ready. `None`: nothing is known to be wrong, but not all is known.
    pub(crate) ready: Option<bool>,
    pub(crate) sentence: String,
    pub(crate) items: Vec<Item>,
}

impl Readiness {
    pub(crate) fn of(sale: &Sale, facts: &Facts) -> Self {
        let items = vec![
            published(sale),
            window(sale),
            validity(sale),
            stock(sale),
            gate(sale),
            servers(facts),
            clocks(facts),
            lists(facts),
            processes(sale, facts),
        ];
        let first = |ok: Option<bool>| items.iter().find(|item| item.ok == ok);
        let (ready, sentence) = match (first(Some(false)), first(None)) {
            (Some(item), _) => (Some(false), format!("Not ready: {}", item.sentence)),
            (None, Some(item)) => {
                (None, format!("It is not known whether all is ready: {}", item.sentence))
            }
            (None, None) => (Some(true), "All is ready.".to_owned()),
        };
        Self { ready, sentence, items }
    }
}

impl Item {
    fn well(name: &'static str, sentence: impl Into<String>) -> Self {
        Self { name, ok: Some(true), sentence: sentence.into(), action: None }
    }

    fn wrong(name: &'static str, sentence: impl Into<String>, action: impl Into<String>) -> Self {
        Self { name, ok: Some(false), sentence: sentence.into(), action: Some(action.into()) }
    }

    fn unknown(name: &'static str, sentence: impl Into<String>, action: impl Into<String>) -> Self {
        Self { name, ok: None, sentence: sentence.into(), action: Some(action.into()) }
    }
}

fn published(sale: &Sale) -> Item {
    let name = "published";
    let command = |verb: &str| format!("`coupon template {verb} {}`", sale.template);
    match sale.state {
        TemplateState::Published => Item::well(name, "The template is published."),
        TemplateState::Draft => Item::wrong(
            name,
            "The template is a draft, so nobody can claim.",
            format!("Publish it: {}.", command("publish")),
        ),
        TemplateState::Paused => Item::wrong(
            name,
            "The template is paused, so nobody can claim.",
            format!("End the pause: {}.", command("resume")),
        ),
        TemplateState::Ended => Item::wrong(
            name,
            "The template was ended, for good.",
            format!("Make a copy and publish that: {}.", command("clone")),
        ),
    }
}

fn window(sale: &Sale) -> Item {
    let name = "window";
    let Window { starts_at, ends_at } = sale.window;
    if sale.now < starts_at {
        Item::well(name, format!("Claims open at {}.", time(starts_at)))
    } else if sale.now < ends_at {
        Item::well(name, format!("Claims are open until {}.", time(ends_at)))
    } else {
        let id = &sale.template;
        let action = format!(
            "Set a later `claim_ends_at`: `coupon template edit {id}`; or make a copy: `coupon template clone {id}`."
        );
        Item::wrong(name, format!("The claim window ended at {}.", time(ends_at)), action)
    }
}

fn validity(sale: &Sale) -> Item {
    let name = "validity";
    let Validity::Absolute { until, .. } = sale.validity else {
        return Item::well(name, "Each coupon has its own validity, which begins with its claim.");
    };
    // The first moment at which a coupon can be claimed.
    let first = sale.now.max(sale.window.starts_at);
    if !sale.validity.is_over(first) {
        return Item::well(name, format!("Coupons can be used until {}.", time(until)));
    }
    let sentence = if until <= sale.now {
        format!("The coupons' validity ended at {}: none could be used.", time(until))
    } else {
        format!("The coupons' validity ends at {}, before claims open.", time(until))
    };
    let action = format!("Set a later `valid_until`: `coupon template edit {}`.", sale.template);
    Item::wrong(name, sentence, action)
}

fn stock(sale: &Sale) -> Item {
    let name = "stock";
    let total = sale.total;
    if sale.stock > 0 {
        return Item::well(name, format!("{} of {total} coupons are left.", sale.stock));
    }
    let action = format!("Add some: `coupon stock add {} NUMBER`.", sale.template);
    Item::wrong(name, format!("None of {total} coupons is left."), action)
}

fn gate(sale: &Sale) -> Item {
    let name = "gate";
    let id = &sale.template;
    let is_on_sale = matches!(sale.state, TemplateState::Published | TemplateState::Paused);
    if !is_on_sale || sale.now >= sale.window.ends_at {
        let sentence = "A gate is loaded only for a published template whose window is not over.";
        return Item::unknown(name, sentence, "See the items before this one.");
    }
    let loads_at = sale.window.starts_at - sale.preload;
    match sale.is_gate_loaded {
        Some(true) => Item::well(name, "The gate is loaded."),
        _ if sale.now < loads_at => {
            Item::well(name, format!("The gate will be loaded at {}.", time(loads_at)))
        }
        Some(false) => Item::wrong(
            name,
            "The gate is not loaded, so claims are told to come again.",
            format!("`coupon template rebuild-gate {id}` tries at once."),
        ),
        None => Item::unknown(
            name,
            "It is not known whether the gate is loaded: its Redis did not answer.",
            SEE_HEALTH,
        ),
    }
}

fn servers(facts: &Facts) -> Item {
    let name = "servers";
    let mut down = Vec::new();
    let mut unknown = Vec::new();
    for server in SERVERS {
        let parts = facts.answered().filter_map(|process| process.part(server.part));
        // A process that starts says nothing of the server.
        let mut said = parts.filter(|part| part.server.is_some() && !part.is_starting()).peekable();
        if said.peek().is_none() {
            unknown.push(server.shown);
        } else if !said.all(|part| part.is_up) {
            down.push(server.shown);
        }
    }
    if !down.is_empty() {
        let sentence = format!("Not every process can use {}.", joined(&down));
        return Item::wrong(name, sentence, SEE_HEALTH);
    }
    if facts.is_read_only() {
        return Item::wrong(name, "MySQL is read-only, so no claim lands.", SEE_HEALTH);
    }
    if !unknown.is_empty() {
        let sentence = format!("No process says whether {} can be used.", joined(&unknown));
        return Item::unknown(name, sentence, SEE_HEALTH);
    }
    let shown = SERVERS.map(|server| server.shown);
    Item::well(name, format!("Every process can use {}.", joined(&shown)))
}

fn clocks(facts: &Facts) -> Item {
    let name = "clocks";
    let mut wrong: Vec<&str> = facts
        .answered()
        .filter(|process| process.has_wrong_clock())
        .filter_map(|process| process.kind.map(Kind::word))
        .collect();
    wrong.sort_unstable();
    wrong.dedup();
    if !wrong.is_empty() {
        let sentence = format!("The clock of {} differs from MySQL's.", joined(&wrong));
        return Item::wrong(name, sentence, SEE_HEALTH);
    }
    if facts.answered().all(|process| process.clock_ahead.is_none()) {
        return Item::unknown(name, "No process has compared its clock with MySQL's.", SEE_HEALTH);
    }
    Item::well(name, "The clocks agree.")
}

fn lists(facts: &Facts) -> Item {
    let name = "lists";
    if facts.leader().is_none() {
        return if facts.knows(Kind::CdcTailer) {
            let sentence = "Nobody publishes changes, so users' lists lack what is new.";
            Item::wrong(name, sentence, SEE_HEALTH)
        } else {
            Item::unknown(name, "It is not known how late users' lists are.", NAME_PEERS)
        };
    }
    if let Some(seconds) = facts.lists_late_by() {
        let sentence = format!("Users' lists are {seconds:.0} s late.");
        return Item::wrong(name, sentence, SEE_HEALTH);
    }
    if facts.publish_lag.is_none() || facts.list_lag.is_none() {
        let sentence = "It is not known how late users' lists are.";
        return Item::unknown(name, sentence, SEE_HEALTH);
    }
    Item::well(name, "Users' lists follow within seconds.")
}

fn processes(sale: &Sale, facts: &Facts) -> Item {
    let name = "processes";
    let mut silent = Vec::new();
    let mut unknown = Vec::new();
    let of_queues = FOR_QUEUES.into_iter().filter(|_| sale.may_queue);
    for kind in ALWAYS.into_iter().chain(of_queues) {
        if !facts.knows(kind) {
            unknown.push(kind.word());
        } else if !facts.of(kind).any(Process::answers) {
            silent.push(kind.word());
        }
    }
    if !silent.is_empty() {
        let sentence = format!("No process answers of {}.", joined(&silent));
        return Item::wrong(name, sentence, SEE_HEALTH);
    }
    if !unknown.is_empty() {
        let sentence =
            format!("It is not known whether there is a process of {}.", joined(&unknown));
        return Item::unknown(name, sentence, NAME_PEERS);
    }
    Item::well(name, "Every process that the sale needs answers.")
}

fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Secs, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::tests::{break_part, kill, kill_server, lose_leader, now, of, well};

    /// A queued template, published and loaded, whose window opens in a minute.
    fn sale() -> Sale {
        let starts_at = now() + TimeDelta::minutes(1);
        Sale {
            now: now(),
            template: "7".to_owned(),
            state: TemplateState::Published,
            window: Window { starts_at, ends_at: starts_at + TimeDelta::hours(1) },
            validity: Validity::Relative { valid_for: TimeDelta::days(7) },
            may_queue: true,
            total: 1_000,
            stock: 873,
            is_gate_loaded: Some(true),
            preload: TimeDelta::minutes(5),
        }
    }

    fn until(ahead: TimeDelta) -> Validity {
        Validity::Absolute { from: now() - TimeDelta::days(9), until: now() + ahead }
    }

    struct Case {
        change: fn(&mut Sale, &mut Facts),
        /// The items that are not well, in order, each with whether that is known.
        not_well: &'static [(&'static str, Option<bool>)],
        /// Part of the sentence, which says the first of them.
        sentence: &'static str,
    }

    const CASES: [Case; 23] = [
        Case { change: |_, _| {}, not_well: &[], sentence: "All is ready." },
        Case {
            change: |sale, _| sale.state = TemplateState::Paused,
            not_well: &[("published", Some(false))],
            sentence: "Not ready: The template is paused",
        },
        Case {
            change: |sale, _| {
                sale.state = TemplateState::Draft;
                sale.is_gate_loaded = Some(false);
            },
            not_well: &[("published", Some(false)), ("gate", None)],
            sentence: "Not ready: The template is a draft",
        },
        Case {
            change: |sale, _| sale.state = TemplateState::Ended,
            not_well: &[("published", Some(false)), ("gate", None)],
            sentence: "for good",
        },
        Case {
            change: |sale, _| sale.now += TimeDelta::minutes(2),
            not_well: &[],
            sentence: "All is ready.",
        },
        Case {
            change: |sale, _| sale.now = sale.window.ends_at,
            not_well: &[("window", Some(false)), ("gate", None)],
            sentence: "The claim window ended at",
        },
        Case {
            change: |sale, _| sale.validity = until(TimeDelta::minutes(2)),
            not_well: &[],
            sentence: "All is ready.",
        },
        Case {
            change: |sale, _| sale.validity = until(TimeDelta::minutes(1)),
            not_well: &[("validity", Some(false))],
            sentence: "before claims open",
        },
        Case {
            change: |sale, _| sale.validity = until(TimeDelta::zero()),
            not_well: &[("validity", Some(false))],
            sentence: "none could be used",
        },
        Case {
            change: |sale, _| sale.stock = 0,
            not_well: &[("stock", Some(false))],
            sentence: "None of 1000 coupons is left.",
        },
        Case {
            change: |sale, _| sale.is_gate_loaded = Some(false),
            not_well: &[("gate", Some(false))],
            sentence: "The gate is not loaded",
        },
        Case {
            change: |sale, _| sale.is_gate_loaded = None,
            not_well: &[("gate", None)],
            sentence: "It is not known whether all is ready: It is not known whether the gate",
        },
        Case {
            change: |sale, _| {
                sale.is_gate_loaded = Some(false);
                sale.preload = TimeDelta::seconds(59);
            },
            not_well: &[],
            sentence: "All is ready.",
        },
        Case {
            change: |_, facts| kill_server(facts, "kafka"),
            not_well: &[("servers", Some(false)), ("lists", Some(false))],
            sentence: "Not every process can use Kafka.",
        },
        Case {
            change: |_, facts| break_part(of(facts, Kind::SyncConsumer), "view", "refused"),
            not_well: &[("servers", Some(false))],
            sentence: "Not every process can use the lists' Redis.",
        },
        Case {
            change: |_, facts| of(facts, Kind::Api).is_read_only = Some(true),
            not_well: &[("servers", Some(false))],
            sentence: "MySQL is read-only",
        },
        Case {
            change: |_, facts| of(facts, Kind::Api).clock_ahead = Some(-0.5),
            not_well: &[("clocks", Some(false))],
            sentence: "The clock of api differs",
        },
        Case {
            change: |_, facts| {
                facts.processes.iter_mut().for_each(|process| process.clock_ahead = None);
            },
            not_well: &[("clocks", None)],
            sentence: "No process has compared its clock",
        },
        Case {
            change: |_, facts| lose_leader(facts),
            not_well: &[("lists", Some(false))],
            sentence: "Nobody publishes changes",
        },
        Case {
            change: |_, facts| facts.list_lag = Some(40.0),
            not_well: &[("lists", Some(false))],
            sentence: "Users' lists are 40 s late.",
        },
        Case {
            change: |_, facts| kill(facts, Kind::ClaimLander),
            not_well: &[("processes", Some(false))],
            sentence: "No process answers of claim-lander.",
        },
        Case {
            change: |sale, facts| {
                sale.may_queue = false;
                kill(facts, Kind::ClaimLander);
            },
            not_well: &[],
            sentence: "All is ready.",
        },
        Case {
            change: |_, facts| facts.processes.truncate(1),
            not_well: &[("lists", None), ("processes", None)],
            sentence: "It is not known whether all is ready: It is not known how late",
        },
    ];

    #[test]
    fn each_item_says_what_is_so_and_what_to_do_and_the_first_that_is_wrong_is_said_first() {
        for Case { change, not_well, sentence } in &CASES {
            let mut sale = sale();
            let mut facts = well();
            change(&mut sale, &mut facts);
            let readiness = Readiness::of(&sale, &facts);
            let found: Vec<(&str, Option<bool>)> = readiness
                .items
                .iter()
                .filter(|item| item.ok != Some(true))
                .map(|item| (item.name, item.ok))
                .collect();
            assert_eq!(found, *not_well, "{readiness:#?}");
            assert!(readiness.sentence.contains(sentence), "{sentence}: {readiness:#?}");
            let is_any = |ok: Option<bool>| not_well.iter().any(|(_, found)| *found == ok);
            let ready = match (is_any(Some(false)), is_any(None)) {
                (true, _) => Some(false),
                (false, true) => None,
                (false, false) => Some(true),
            };
            assert_eq!(readiness.ready, ready, "{readiness:#?}");
            for item in &readiness.items {
                assert_eq!(item.action.is_none(), item.ok == Some(true), "{item:?}");
                let told = format!("{} {}", item.sentence, item.action.as_deref().unwrap_or(""));
                assert!(!told.contains(".test:"), "no address of the platform: {told}");
            }
        }
    }
}
