//! What makes states different. Most of a search's time goes into fingerprints, so fields that cannot differ are left
//! out: those of processes that are not at work, and those of features that are switched off.

use std::hash::{Hash, Hasher};

use super::{
    sold_out::Memory,
    state::{RebuildStep, Rebuilder, State, Walk},
};

impl Hash for State {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { truth, gate, copy, walks, resolvers, rebuilders, operator, .. } = self;
        truth.hash(to);
        gate.hash(to);
        copy.hash(to);
        walks.hash(to);
        resolvers.hash(to);
        rebuilders.hash(to);
        operator.hash(to);
        let Self {
            consumed,
            check,
            packet,
            wrong,
            lied,
            servers,
            queue,
            holds,
            memory,
            halt,
            left,
            broken,
            ..
        } = self;
        consumed.hash(to);
        check.hash(to);
        packet.hash(to);
        wrong.hash(to);
        lied.hash(to);
        servers.hash(to);
        // No claim was queued before.
        if truth.ever_queued {
            queue.hash(to);
        }
        holds.hash(to);
        memory.hash(to);
        halt.hash(to);
        left.hash(to);
        broken.hash(to);
    }
}

impl Hash for Walk {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { at, known, message, terms, admissions, seen, over, run, wrote, wait } = self;
        at.hash(to);
        if self.is_under_way() {
            known.hash(to);
            message.hash(to);
            terms.hash(to);
            admissions.hash(to);
            seen.hash(to);
            over.hash(to);
            run.hash(to);
            wrote.hash(to);
            wait.hash(to);
        }
    }
}

impl Hash for Rebuilder {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self {
            next,
            epoch,
            history,
            end,
            never_queued,
            template,
            first,
            movement,
            stock,
            read,
        } = self;
        next.hash(to);
        if *next != RebuildStep::NextEpoch {
            epoch.hash(to);
            history.hash(to);
            end.hash(to);
            never_queued.hash(to);
            template.hash(to);
            first.hash(to);
            movement.hash(to);
            stock.hash(to);
            read.hash(to);
        }
    }
}

impl Hash for Memory {
    fn hash<H: Hasher>(&self, to: &mut H) {
        let Self { used, apis, since } = self;
        if *used {
            apis.hash(to);
            since.hash(to);
        }
    }
}
