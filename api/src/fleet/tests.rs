//! The table of cases of the first sentence.

use chrono::{DateTime, TimeDelta, Utc};

use super::{
    facts::{ClosedGate, Facts, Part, Process, Silence},
    first_sentence::{Condition, FirstSentence},
    kind::Kind,
};

const SERVERS: [&str; 4] = ["mysql", "gate", "kafka", "view"];

/// 08:00:40 UTC. What broke, did so at 08:00:00.
pub(super) fn now() -> DateTime<Utc> {
    broke() + TimeDelta::seconds(40)
}

fn broke() -> DateTime<Utc> {
    DateTime::from_timestamp(1_800_000_000, 0).unwrap()
}

fn part(name: &str) -> Part {
    let is_server = SERVERS.contains(&name);
    Part {
        name: name.to_owned(),
        is_up: true,
        since: Some(broke() - TimeDelta::hours(1)),
        why: None,
        server: is_server.then(|| format!("{name}.test:1")),
    }
}

fn process(kind: Kind, parts: &[&str]) -> Process {
    Process {
        kind: Some(kind),
        address: (kind != Kind::Api).then(|| format!("{}.test:9", kind.word())),
        silence: None,
        parts: parts.iter().map(|name| part(name)).collect(),
        leads: kind == Kind::CdcTailer,
        is_read_only: (kind == Kind::Api).then_some(false),
        clock_ahead: [Kind::Api, Kind::ExpiryWorker].contains(&kind).then_some(0.0),
        flips: (kind == Kind::ExpiryWorker).then_some(true),
    }
}

/// A platform of six processes that lacks nothing.
pub(super) fn well() -> Facts {
    Facts {
        now: now(),
        processes: vec![
            process(Kind::Api, &["http", "mysql", "gate", "view", "kafka"]),
            process(Kind::OutboxRelay, &["gate", "kafka", "mysql", "workers"]),
            process(Kind::ClaimLander, &["kafka", "mysql", "gate", "partitions", "payments"]),
            process(Kind::CdcTailer, &["binlog", "mysql", "kafka"]),
            process(
                Kind::SyncConsumer,
                &["kafka", "mysql", "view", "gate", "partitions", "stores"],
            ),
            process(Kind::ExpiryWorker, &["kafka", "mysql", "partitions", "clock"]),
        ],
        led_at: Some(now()),
        publish_lag: Some(1.0),
        list_lag: Some(0.0),
        gates_not_loaded: Some(Vec::new()),
    }
}

pub(super) fn of(facts: &mut Facts, kind: Kind) -> &mut Process {
    facts.processes.iter_mut().find(|process| process.kind == Some(kind)).unwrap()
}

fn fall_silent(process: &mut Process) {
    let silence = Silence { why: "Connection refused".to_owned(), since: Some(broke()) };
    *process = Process {
        silence: Some(silence),
        parts: Vec::new(),
        leads: false,
        is_read_only: None,
        clock_ahead: None,
        flips: None,
        ..process.clone()
    };
}

pub(super) fn kill(facts: &mut Facts, kind: Kind) {
    fall_silent(of(facts, kind));
    match kind {
        Kind::CdcTailer => lose_leader(facts),
        Kind::SyncConsumer => facts.list_lag = None,
        _ => {}
    }
}

pub(super) fn lose_leader(facts: &mut Facts) {
    facts.processes.iter_mut().for_each(|process| process.leads = false);
    facts.led_at = Some(broke());
    facts.publish_lag = None;
    facts.list_lag = None;
}

pub(super) fn break_part(process: &mut Process, name: &str, why: &str) {
    for part in process.parts.iter_mut().filter(|part| part.name == name) {
        part.is_up = false;
        part.since = Some(broke());
        part.why = Some(why.to_owned());
    }
}

/// Takes a server away from every process, and from the figures what nobody knows without it.
pub(super) fn kill_server(facts: &mut Facts, name: &str) {
    facts.processes.iter_mut().for_each(|process| break_part(process, name, "refused"));
    if ["mysql", "kafka"].contains(&name) {
        lose_leader(facts);
    }
    if ["mysql", "gate"].contains(&name) {
        facts.gates_not_loaded = None;
    }
}

fn gate_opens_in(facts: &mut Facts, seconds: i64) {
    let opens_at = now() + TimeDelta::seconds(seconds);
    facts.gates_not_loaded = Some(vec![ClosedGate { template: "7".to_owned(), opens_at }]);
}

struct Case {
    change: fn(&mut Facts),
    condition: Condition,
    /// Of claims, queued claims, payments, lists and expiry, the first letters of works, late, stopped and unknown.
    abilities: &'static str,
    sentence: &'static str,
}

const CASES: [Case; 29] = [
    Case {
        change: |_| (),
        condition: Condition::Well,
        abilities: "wwwww",
        sentence: "All is well: claims, queued claims, payments, lists and expiry work.",
    },
    Case {
        change: |it| {
            it.processes.retain(|one| {
                one.kind != Some(Kind::OutboxRelay) && one.kind != Some(Kind::ClaimLander)
            });
        },
        condition: Condition::Well,
        abilities: "wuwww",
        sentence: "All is well: claims, payments, lists and expiry work.",
    },
    Case {
        change: |it| kill_server(it, "mysql"),
        condition: Condition::Down,
        abilities: "slsls",
        sentence: "Not selling; payments and expiry stopped, queued claims late, lists 40 s late since 08:00:00 UTC: \
                   MySQL at mysql.test:1 cannot be used: refused. Start MySQL",
    },
    Case {
        change: |it| of(it, Kind::Api).is_read_only = Some(true),
        condition: Condition::Down,
        abilities: "slsws",
        sentence: "Not selling; payments and expiry stopped, queued claims late: MySQL is read-only. Let the primary",
    },
    Case {
        change: |it| kill_server(it, "gate"),
        condition: Condition::Down,
        abilities: "sswww",
        sentence: "Not selling; queued claims stopped since 08:00:00 UTC: the gate's Redis at gate.test:1 cannot be \
                   used: refused. Start the gate's Redis",
    },
    Case {
        change: |it| kill_server(it, "kafka"),
        condition: Condition::Degraded,
        abilities: "wlllw",
        sentence: "Selling; queued claims and payments late, lists 40 s late since 08:00:00 UTC: Kafka at kafka.test:1 \
                   cannot be used: refused. Start the brokers",
    },
    Case {
        change: |it| kill_server(it, "view"),
        condition: Condition::Degraded,
        abilities: "wwwww",
        sentence: "Selling; all else works, but since 08:00:00 UTC: the view's Redis at view.test:1 cannot be used: \
                   refused. Start the view's Redis",
    },
    Case {
        change: |it| kill(it, Kind::OutboxRelay),
        condition: Condition::Degraded,
        abilities: "wlwww",
        sentence: "Selling; queued claims late since 08:00:00 UTC: outbox-relay at outbox-relay.test:9 does not \
                   answer: Connection refused. Start outbox-relay; ",
    },
    Case {
        change: |it| kill(it, Kind::ClaimLander),
        condition: Condition::Degraded,
        abilities: "wllww",
        sentence: "Selling; queued claims and payments late since 08:00:00 UTC: claim-lander at claim-lander.test:9 \
                   does not answer: Connection refused. Start claim-lander; ",
    },
    Case {
        change: |it| kill(it, Kind::CdcTailer),
        condition: Condition::Degraded,
        abilities: "wwwlw",
        sentence: "Selling; lists 40 s late since 08:00:00 UTC: cdc-tailer at cdc-tailer.test:9 does not answer: \
                   Connection refused. Start cdc-tailer; ",
    },
    Case {
        change: |it| kill(it, Kind::SyncConsumer),
        condition: Condition::Degraded,
        abilities: "wwwlw",
        sentence: "Selling; lists late since 08:00:00 UTC: sync-consumer at sync-consumer.test:9 does not answer: \
                   Connection refused. Start sync-consumer; ",
    },
    Case {
        change: |it| kill(it, Kind::ExpiryWorker),
        condition: Condition::Degraded,
        abilities: "wwwws",
        sentence: "Selling; expiry stopped since 08:00:00 UTC: expiry-worker at expiry-worker.test:9 does not answer: \
                   Connection refused. Start expiry-worker; ",
    },
    // Another api.
    Case {
        change: |it| {
            let mut other = of(it, Kind::Api).clone();
            other.address = Some("api.test:9".to_owned());
            fall_silent(&mut other);
            it.processes.push(other);
        },
        condition: Condition::Degraded,
        abilities: "wwwww",
        sentence: "Selling; all else works, but since 08:00:00 UTC: api at api.test:9 does not answer: Connection \
                   refused. Start api; ",
    },
    // A standby leads already.
    Case {
        change: |it| {
            let standby = of(it, Kind::CdcTailer).clone();
            fall_silent(of(it, Kind::CdcTailer));
            it.processes.push(standby);
        },
        condition: Condition::Degraded,
        abilities: "wwwww",
        sentence: "Selling; all else works, but since 08:00:00 UTC: cdc-tailer at cdc-tailer.test:9 does not answer: ",
    },
    Case {
        change: lose_leader,
        condition: Condition::Degraded,
        abilities: "wwwlw",
        sentence: "Selling; lists 40 s late since 08:00:00 UTC: no tailer leads. Start a cdc-tailer, or ",
    },
    // A tailer that has never led since the api began.
    Case {
        change: |it| {
            lose_leader(it);
            it.led_at = None;
            break_part(of(it, Kind::CdcTailer), "binlog", "joining the group of tailers");
        },
        condition: Condition::Degraded,
        abilities: "wwwlw",
        sentence: "Selling; lists late: no tailer leads: joining the group of tailers. ",
    },
    // Several at once: what explains most comes first.
    Case {
        change: |it| {
            kill_server(it, "view");
            kill_server(it, "kafka");
            kill(it, Kind::ExpiryWorker);
            gate_opens_in(it, 95);
        },
        condition: Condition::Degraded,
        abilities: "wllws",
        sentence: "Selling; expiry stopped, queued claims and payments late since 08:00:00 UTC: Kafka at kafka.test:1 ",
    },
    // One process alone does not reach a server.
    Case {
        change: |it| break_part(of(it, Kind::ClaimLander), "mysql", "timed out."),
        condition: Condition::Degraded,
        abilities: "wllww",
        sentence: "Selling; queued claims and payments late since 08:00:00 UTC: MySQL at mysql.test:1 cannot be used \
                   by claim-lander: timed out. Start MySQL",
    },
    // Only the api that asks is known.
    Case {
        change: |it| {
            it.processes.truncate(1);
            it.publish_lag = None;
            it.list_lag = None;
        },
        condition: Condition::Unknown,
        abilities: "wuwuu",
        sentence: "Selling; lists and expiry not known: ADMIN_PEERS does not name cdc-tailer, sync-consumer and \
                   expiry-worker. Add the admin addresses",
    },
    Case {
        change: |it| it.processes.clear(),
        condition: Condition::Unknown,
        abilities: "uuuuu",
        sentence: "Not known whether it sells; payments, lists and expiry not known: nothing is known of any process. ",
    },
    // A process that was dead before the api began, and that no setting names.
    Case {
        change: |it| {
            kill(it, Kind::ExpiryWorker);
            of(it, Kind::ExpiryWorker).kind = None;
        },
        condition: Condition::Degraded,
        abilities: "wwwwu",
        sentence: "Selling; expiry not known since 08:00:00 UTC: a process at expiry-worker.test:9 does not answer: \
                   Connection refused. Start it",
    },
    Case {
        change: |it| {
            let worker = of(it, Kind::ExpiryWorker);
            break_part(
                worker,
                "clock",
                "our clock is 3000 ms ahead of MySQL's: nothing is flipped",
            );
            worker.clock_ahead = Some(3.0);
            worker.flips = Some(false);
        },
        condition: Condition::Degraded,
        abilities: "wwwws",
        sentence: "Selling; expiry stopped since 08:00:00 UTC: the clock of expiry-worker at expiry-worker.test:9 is \
                   wrong by 3.0 s ahead of MySQL's, so it ends no coupons. Set its clock",
    },
    Case {
        change: |it| {
            break_part(of(it, Kind::ExpiryWorker), "partitions", "shards [3] are nobody's");
        },
        condition: Condition::Degraded,
        abilities: "wwwwl",
        sentence: "Selling; expiry late since 08:00:00 UTC: expiry-worker at expiry-worker.test:9 does not have its \
                   shards: shards [3] are nobody's. Start an expiry-worker",
    },
    Case {
        change: |it| break_part(of(it, Kind::SyncConsumer), "stores", "starting"),
        condition: Condition::Degraded,
        abilities: "wwwlw",
        sentence: "Selling; lists late since 08:00:00 UTC: sync-consumer at sync-consumer.test:9 is starting: it has \
                   no stores yet. Wait",
    },
    Case {
        change: |it| of(it, Kind::Api).clock_ahead = Some(-0.5),
        condition: Condition::Degraded,
        abilities: "wwwww",
        sentence: "Selling; all else works, but: the clock of this api is wrong by 0.5 s behind MySQL's. Set its clock",
    },
    // The keeper could not look, though both servers are there.
    Case {
        change: |it| it.gates_not_loaded = None,
        condition: Condition::Unknown,
        abilities: "wwwww",
        sentence: "Selling; all else works, but: it is not known which gates are loaded. An api's log",
    },
    Case {
        change: |it| gate_opens_in(it, 95),
        condition: Condition::Degraded,
        abilities: "wwwww",
        sentence: "Selling; all else works, but: the gate of template 7 is not loaded, and its window opens in 95 s. \
                   `coupon template rebuild-gate 7`",
    },
    Case {
        change: |it| gate_opens_in(it, -1),
        condition: Condition::Degraded,
        abilities: "llwww",
        sentence: "Selling in part; queued claims late: the gate of template 7 is not loaded, and its window is open. ",
    },
    Case {
        change: |it| it.list_lag = Some(42.4),
        condition: Condition::Degraded,
        abilities: "wwwlw",
        sentence: "Selling; lists 42 s late: sync-consumer is 42 s behind. If it is ready, start more",
    },
];

#[test]
fn the_first_sentence_of_each_case_names_impact_cause_and_action() {
    for Case { change, condition, abilities, sentence } in CASES {
        let mut facts = well();
        change(&mut facts);
        let said = FirstSentence::of(&facts);
        assert!(said.sentence.starts_with(sentence), "\n{}\nis not\n{sentence}", said.sentence);
        assert_eq!(said.condition, condition, "{sentence}");
        assert_eq!(letters(&said), abilities, "{sentence}");
        let is_well = condition == Condition::Well;
        assert_eq!((said.cause.is_none(), said.action.is_none()), (is_well, is_well), "{sentence}");
        assert!(said.sentence.ends_with('.'), "{}", said.sentence);
        // What merchants read names no server and no other merchant's template.
        let tells = |word: &str| said.effect.contains(word);
        assert!(!tells(".test:") && !tells("template") && said.effect.ends_with('.'), "{sentence}");
        assert!(said.cause.as_deref().is_none_or(|cause| !tells(cause)), "{}", said.effect);
    }
}

fn letters(said: &FirstSentence) -> String {
    let all = said.abilities;
    [all.claims, all.queued_claims, all.payments, all.lists, all.expiry]
        .map(|ability| ability.word().chars().next().unwrap())
        .iter()
        .collect()
}
