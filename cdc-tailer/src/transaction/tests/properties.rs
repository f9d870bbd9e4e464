//! Tests the assembler against a simple model: any transactions in any order, over connections that break anywhere, and
//! from any position that a tailer may have saved.

use std::collections::BTreeMap;

use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;
use crate::error::Directive;

/// One event inside a transaction, or a few that belong together.
#[derive(Debug, Clone)]
enum Step {
    Row {
        compressed: bool,
    },
    Foreign,
    Savepoint(u8),
    RollBackTo(u8),
    /// Heartbeat or annotation: has no effect anywhere.
    Noise(u8),
}

#[derive(Debug, Clone)]
enum Plan {
    /// BEGIN … COMMIT. With `packed`, MySQL's compressed transaction.
    Plain {
        steps: Vec<Step>,
        end: &'static str,
        packed: bool,
    },
    /// DDL under its own GTID.
    Ddl,
    /// CREATE TABLE … SELECT.
    CreateSelect(Vec<Step>),
    XaOnePhase(Vec<Step>),
    XaPrepare(u8, Vec<Step>),
    XaCommit(u8),
    XaRollback(u8),
    /// The server crashes in the middle; the transaction never happened.
    Crash(Vec<Step>),
}

/// An expected or actual transaction: sequence, values, resumable.
type Out = (u64, Vec<u8>, bool);

/// Events that a server writes for the plans, and the expected transactions.
#[derive(Default)]
struct Model {
    /// One list per transaction, with the events before it.
    packets: Vec<Vec<Packet>>,
    expected: Vec<Out>,
    /// Rows of XA transactions between their phases.
    prepared: BTreeMap<u8, Vec<u8>>,
    /// For each transaction that is an XA COMMIT, the index of its XA PREPARE.
    commits: Vec<Option<usize>>,
    prepared_at: BTreeMap<u8, usize>,
    /// Packets that were written after the last transaction that ended.
    before: Vec<Packet>,
    value: u8,
}

impl Model {
    fn of(plans: &[Plan]) -> Self {
        let mut model = Self::default();
        for plan in plans {
            model.plan(plan);
        }
        model
    }

    fn plan(&mut self, plan: &Plan) {
        match plan {
            Plan::Plain { steps, end, packed } => {
                let (mut inside, mut values) = self.steps(steps);
                let last = if *end == "XID" { packet(XID, &[0; 8]) } else { query(end) };
                inside.push(last);
                if *packed {
                    inside.retain(|packet| ![27, 160].contains(&packet.event()[4]));
                    inside.insert(0, query("BEGIN"));
                    inside = vec![payload(&inside)];
                }
                if *end == "ROLLBACK" {
                    values.clear();
                }
                self.transaction(0, inside, values, None);
            }
            Plan::Ddl => self.transaction(41, vec![query("create index i on t (a)")], vec![], None),
            Plan::CreateSelect(steps) => {
                let steps: Vec<Step> =
                    steps.iter().filter(|step| matches!(step, Step::Row { .. })).cloned().collect();
                let (mut inside, values) = self.steps(&steps);
                inside.insert(0, query("CREATE TABLE t (a int)"));
                inside.push(packet(XID, &[0; 8]));
                self.transaction(40, inside, values, None);
            }
            Plan::XaOnePhase(steps) => {
                let (inside, values) = self.steps(steps);
                let begin = query("XA START X'7a',X'',1");
                let end = [query("XA END X'7a',X'',1"), query("XA COMMIT X'7a',X'',1 ONE PHASE")];
                // Servers do not log a transaction without rows.
                if !values.is_empty() {
                    let inside = [begin].into_iter().chain(inside).chain(end).collect();
                    self.transaction(0, inside, values, None);
                }
            }
            Plan::XaPrepare(name, steps) => {
                if self.prepared.contains_key(name) {
                    return;
                }
                let (mut inside, values) = self.steps(steps);
                inside.push(query(&format!("XA END X'{name:02x}',X'',1")));
                inside.push(prepare(*name));
                self.prepared.insert(*name, values);
                self.prepared_at.insert(*name, self.expected.len());
                self.transaction(64, inside, vec![], None);
            }
            Plan::XaCommit(name) => {
                let Some(values) = self.prepared.remove(name) else { return };
                let inside = vec![query(&format!("XA COMMIT X'{name:02x}',X'',1"))];
                self.transaction(128, inside, values, self.prepared_at.get(name).copied());
            }
            Plan::XaRollback(name) => {
                self.prepared.remove(name);
                let inside = vec![query(&format!("XA ROLLBACK X'{name:02x}',X'',1"))];
                self.transaction(128, inside, vec![], None);
            }
            Plan::Crash(steps) => {
                let begin = gtid(self.next(), 0);
                let (inside, _) = self.steps(steps);
                self.before.push(begin);
                self.before.extend(inside);
                self.before.push(packet(15, &[]));
            }
        }
    }

    fn next(&self) -> u64 {
        u64::try_from(self.expected.len()).unwrap() + 1
    }

    fn transaction(
        &mut self,
        flags: u8,
        inside: Vec<Packet>,
        values: Vec<u8>,
        of_prepare: Option<usize>,
    ) {
        let resumable = self.prepared.values().all(Vec::is_empty);
        let sequence = self.next();
        let mut all = std::mem::take(&mut self.before);
        all.push(gtid(sequence, flags));
        all.extend(inside);
        self.packets.push(all);
        self.commits.push(of_prepare);
        self.expected.push((sequence, values, resumable));
    }

    /// Returns the packets of the steps and the rows that remain. Each savepoint stores all rows so far.
    fn steps(&mut self, steps: &[Step]) -> (Vec<Packet>, Vec<u8>) {
        let mut packets = Vec::new();
        let mut values = Vec::new();
        let mut savepoints: Vec<(u8, Vec<u8>)> = Vec::new();
        for step in steps {
            match step {
                Step::Row { compressed } => {
                    self.value = self.value.wrapping_add(1);
                    values.push(self.value);
                    packets.push(table_map(FOLLOWED));
                    let row = rows(FOLLOWED, self.value);
                    packets.push(if *compressed { mariadb_compressed(&row) } else { row });
                }
                Step::Foreign => packets.extend([table_map(FOREIGN), rows(FOREIGN, 0)]),
                Step::Savepoint(name) => {
                    savepoints.retain(|(known, _)| known != name);
                    savepoints.push((*name, values.clone()));
                    packets.push(query(&format!("SAVEPOINT `s{name}`")));
                }
                Step::RollBackTo(name) => {
                    if let Some(at) = savepoints.iter().position(|(known, _)| known == name) {
                        savepoints.truncate(at + 1);
                        values.clone_from(&savepoints[at].1);
                        packets.push(query(&format!("ROLLBACK TO `S{name}`")));
                    }
                }
                Step::Noise(kind) => packets.push(packet(*kind, &[])),
            }
        }
        (packets, values)
    }
}

/// Compresses a rows event like MariaDB.
fn mariadb_compressed(rows: &Packet) -> Packet {
    let (head, images) = rows.event()[HEADER_LENGTH..].split_at(10);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zlib, images).unwrap();
    let length = u8::try_from(images.len()).unwrap();
    packet(166, &[head, &[0x81, length], &zlib.finish().unwrap()].concat())
}

/// Compresses a transaction like MySQL.
fn payload(events: &[Packet]) -> Packet {
    let mut all = Vec::new();
    for packet in events {
        let mut event = packet.event().to_vec();
        let length = u32::try_from(event.len()).unwrap();
        event[9..13].copy_from_slice(&length.to_le_bytes());
        all.extend(event);
    }
    let length = u16::try_from(all.len()).unwrap().to_le_bytes();
    let zstd = compress_to_vec(all.as_slice(), CompressionLevel::Fastest);
    packet(40, &[&[2, 1, 0, 3, 3, 0xfc, length[0], length[1], 0], zstd.as_slice()].concat())
}

fn take(assembler: &mut Assembler, packets: &[Packet]) -> Result<Vec<Out>, TailError> {
    let mut out = Vec::new();
    for packet in packets {
        if let Assembled::Transaction(transaction) = assembler.accept(packet.clone())? {
            let Gtid::MariaDb { sequence, .. } = transaction.gtid else { unreachable!() };
            out.push((sequence, values(&transaction), transaction.resumable));
        }
    }
    Ok(out)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => any::<bool>().prop_map(|compressed| Step::Row { compressed }),
        1 => Just(Step::Foreign),
        2 => (0u8..3).prop_map(Step::Savepoint),
        2 => (0u8..3).prop_map(Step::RollBackTo),
        1 => prop_oneof![Just(27), Just(160)].prop_map(Step::Noise),
    ];
    prop::collection::vec(step, 0..10)
}

fn plans() -> impl Strategy<Value = Vec<Plan>> {
    let end = prop_oneof![3 => Just("XID"), 2 => Just("COMMIT"), 1 => Just("ROLLBACK")];
    let plain = (steps(), end, any::<bool>());
    let plan = prop_oneof![
        4 => plain.prop_map(|(steps, end, packed)| Plan::Plain { steps, end, packed }),
        1 => Just(Plan::Ddl),
        1 => steps().prop_map(Plan::CreateSelect),
        1 => steps().prop_map(Plan::XaOnePhase),
        3 => (0u8..3, steps()).prop_map(|(name, steps)| Plan::XaPrepare(name, steps)),
        3 => (0u8..3).prop_map(Plan::XaCommit),
        2 => (0u8..3).prop_map(Plan::XaRollback),
        1 => steps().prop_map(Plan::Crash),
    ];
    prop::collection::vec(plan, 0..12)
}

proptest! {
    /// A new connection starts after the last transaction that was returned.
    #[test]
    fn what_comes_out_is_what_was_committed_wherever_connections_break(
        plans in plans(),
        breaks in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..3), 12),
    ) {
        let model = Model::of(&plans);
        let mut assembler = assembler();
        let mut out = Vec::new();
        for (packets, breaks) in model.packets.iter().zip(breaks) {
            for at in breaks {
                let sent = &packets[..at.index(packets.len())];
                prop_assert_eq!(take(&mut assembler, sent).unwrap(), []);
                assembler.reconnected("");
            }
            out.extend(take(&mut assembler, packets).unwrap());
        }
        prop_assert_eq!(out, model.expected);
    }

    /// A tailer that starts at a saved position returns exactly the transactions after it. The one exception is an XA
    /// transaction prepared before the position with no rows of followed tables: its XA COMMIT requires a snapshot.
    #[test]
    fn from_each_position_that_may_be_saved_nothing_is_missing(plans in plans()) {
        let model = Model::of(&plans);
        for from in 0..model.packets.len() {
            if from > 0 && !model.expected[from - 1].2 {
                continue;
            }
            let known = |prepare: &usize| *prepare >= from;
            let end = (from..model.packets.len())
                .find(|at| model.commits[*at].as_ref().is_some_and(|prepare| !known(prepare)));
            let mut assembler = assembler();
            for at in from..model.packets.len() {
                let out = take(&mut assembler, &model.packets[at]);
                if Some(at) == end {
                    prop_assert_eq!(out.unwrap_err().directive(), Directive::Resnapshot);
                    prop_assert_eq!(&model.expected[at].1, &[] as &[u8]);
                    break;
                }
                prop_assert_eq!(&out.unwrap(), &model.expected[at..=at]);
            }
        }
    }
}
