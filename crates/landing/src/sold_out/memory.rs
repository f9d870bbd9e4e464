//! The memory that requests read: the templates that are sold out, their users with an entry, and until when all other
//! users are refused. Only the watch adds templates and prolongs refusals; any task may make it forget a template.

use std::collections::HashMap;

use coupon::{Epoch, TemplateId, UserId};
use redis_gate::SoldOutGate;

use crate::sync::{Arc, AtomicU64, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Most templates that a process refuses from memory. A shop has a few sales at a time; the gate answers for others.
pub(super) const TEMPLATES_MAX: usize = 256;

/// Most users of all these templates together, eight bytes each: 16 MB. For a template that does not fit, the gate
/// answers.
pub(super) const USERS_MAX: usize = 2_000_000;

/// Time since the process's start, in microseconds of a clock that never goes back.
pub(super) type Micros = u64;

/// A template that was sold out when its users were read.
pub(super) struct Known {
    pub(super) epoch: Epoch,
    /// The gate's answer to the first look. Later looks must find the same.
    pub(super) gate: SoldOutGate,
    /// All users with an entry, ascending.
    users: Box<[i64]>,
    /// All other users are refused before this moment.
    until: AtomicU64,
    /// When a user last claimed.
    asked_at: AtomicU64,
}

/// The parts of a claim that decide here.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt {
    pub(super) template: TemplateId,
    pub(super) user: UserId,
    pub(super) quantity: u32,
    /// Milliseconds since 1970, as sent to the gate.
    pub(super) now_ms: i64,
}

pub(super) struct Memory(RwLock<HashMap<TemplateId, Arc<Known>>>);

impl Known {
    /// Creates a template that refuses nobody yet: a look must first confirm that these are all users with an entry.
    /// `users` are ascending, each once.
    pub(super) fn new(epoch: Epoch, gate: SoldOutGate, users: Vec<i64>, at: Micros) -> Self {
        Self {
            epoch,
            gate,
            users: users.into(),
            until: AtomicU64::new(0),
            asked_at: AtomicU64::new(at),
        }
    }

    pub(super) fn users(&self) -> u64 {
        self.users.len() as u64
    }

    /// Returns whether a look found the same gate, with as many users as known here.
    pub(super) fn is(&self, gate: SoldOutGate) -> bool {
        gate == self.gate && gate.users == self.users()
    }

    /// Allows refusals until this moment, and at least as long as before.
    pub(super) fn allow(&self, until: Micros) {
        self.until.fetch_max(until, Ordering::AcqRel);
    }

    pub(super) fn is_allowed(&self, at: Micros) -> bool {
        at < self.until.load(Ordering::Acquire)
    }

    pub(super) fn asked_at(&self) -> Micros {
        self.asked_at.load(Ordering::Relaxed)
    }

    /// Returns whether the first refusal of `claim.lua` that applies to this claim is that it is sold out.
    fn covers(&self, attempt: &Attempt) -> bool {
        let (starts, ends) = self.gate.window_ms;
        (starts..ends).contains(&attempt.now_ms)
            && i64::from(attempt.quantity) <= self.gate.limit
            && self.users.binary_search(&attempt.user.0).is_err()
    }
}

impl Memory {
    pub(super) fn new() -> Self {
        Self(RwLock::new(HashMap::new()))
    }

    /// Returns whether a claim is refused as sold out without asking the gate.
    pub(super) fn refuses(&self, attempt: &Attempt, at: Micros) -> bool {
        let known = read(&self.0);
        let Some(known) = known.get(&attempt.template) else { return false };
        known.asked_at.store(at, Ordering::Relaxed);
        known.is_allowed(at) && known.covers(attempt)
    }

    /// Remembers a template, if there is room.
    pub(super) fn insert(&self, template: TemplateId, known: Arc<Known>) -> bool {
        let mut all = write(&self.0);
        all.remove(&template);
        let users = all.values().map(|known| known.users.len()).sum::<usize>();
        let fits = all.len() < TEMPLATES_MAX && users + known.users.len() <= USERS_MAX;
        if fits {
            all.insert(template, known);
        }
        fits
    }

    /// Forgets a template. A later answer to a look has no effect, because it prolongs only the forgotten value.
    pub(super) fn forget(&self, template: TemplateId) {
        // Usually there is nothing to forget; then readers need not wait.
        if read(&self.0).contains_key(&template) {
            write(&self.0).remove(&template);
        }
    }

    /// Forgets a template, unless a newer scan has replaced it by now.
    pub(super) fn forget_this(&self, template: TemplateId, known: &Arc<Known>) {
        let mut all = write(&self.0);
        if all.get(&template).is_some_and(|present| Arc::ptr_eq(present, known)) {
            all.remove(&template);
        }
    }

    pub(super) fn all(&self) -> Vec<(TemplateId, Arc<Known>)> {
        read(&self.0).iter().map(|(template, known)| (*template, Arc::clone(known))).collect()
    }

    pub(super) fn knows(&self, template: TemplateId) -> bool {
        read(&self.0).contains_key(&template)
    }

    /// Returns how many more users fit.
    pub(super) fn room(&self) -> usize {
        let known = read(&self.0);
        if known.len() >= TEMPLATES_MAX {
            return 0;
        }
        USERS_MAX - known.values().map(|known| known.users.len()).sum::<usize>()
    }

    /// Returns for how many templates users are refused now, and how many bytes of users are held.
    pub(super) fn size(&self, at: Micros) -> (usize, usize) {
        let known = read(&self.0);
        let refusing = known.values().filter(|known| known.is_allowed(at)).count();
        (refusing, known.values().map(|known| size_of_val(&*known.users)).sum())
    }
}

type Templates = HashMap<TemplateId, Arc<Known>>;

fn read(lock: &RwLock<Templates>) -> RwLockReadGuard<'_, Templates> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write(lock: &RwLock<Templates>) -> RwLockWriteGuard<'_, Templates> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use loom::thread;

    use super::*;

    const TEMPLATE: TemplateId = TemplateId(1);
    const GATE: SoldOutGate = SoldOutGate { users: 2, window_ms: (100, 200), limit: 2 };

    fn known() -> Arc<Known> {
        Arc::new(Known::new(Epoch(1), GATE, vec![7, 9], 0))
    }

    fn attempt(user: i64) -> Attempt {
        Attempt { template: TEMPLATE, user: UserId(user), quantity: 1, now_ms: 150 }
    }

    #[test]
    fn only_what_the_gate_would_refuse_as_sold_out_is_refused() {
        loom::model(|| {
            let memory = Memory::new();
            let known = known();
            assert!(memory.insert(TEMPLATE, Arc::clone(&known)));
            assert!(!memory.refuses(&attempt(8), 10), "no look allowed it");
            known.allow(20);
            let refused = |attempt| memory.refuses(&attempt, 19);
            assert!(refused(attempt(8)) && refused(attempt(6)) && refused(attempt(10)));
            assert!(!refused(attempt(7)) && !refused(attempt(9)), "they have an entry");
            assert!(!refused(Attempt { quantity: 3, ..attempt(8) }), "beyond the limit");
            assert!(!refused(Attempt { now_ms: 99, ..attempt(8) }), "not open");
            assert!(!refused(Attempt { now_ms: 200, ..attempt(8) }), "closed");
            assert!(!refused(Attempt { template: TemplateId(2), ..attempt(8) }));
            assert!(!memory.refuses(&attempt(8), 20), "the lease is over");
        });
    }

    #[test]
    fn after_a_forgetting_nobody_is_refused_by_a_look_that_was_under_way() {
        loom::model(|| {
            let memory = Arc::new(Memory::new());
            let known = known();
            memory.insert(TEMPLATE, Arc::clone(&known));
            let looking = thread::spawn(move || known.allow(20));
            let forgetting = {
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.forget(TEMPLATE))
            };
            // User 8 may be refused or not.
            memory.refuses(&attempt(8), 10);
            forgetting.join().unwrap();
            assert!(!memory.refuses(&attempt(8), 10));
            looking.join().unwrap();
            assert!(!memory.refuses(&attempt(8), 10));
        });
    }

    #[test]
    fn a_look_that_fails_forgets_what_it_looked_for_and_nothing_newer() {
        loom::model(|| {
            let memory = Arc::new(Memory::new());
            let old = known();
            let new = known();
            memory.insert(TEMPLATE, Arc::clone(&old));
            let failing = {
                let memory = Arc::clone(&memory);
                thread::spawn(move || memory.forget_this(TEMPLATE, &old))
            };
            new.allow(20);
            memory.insert(TEMPLATE, new);
            failing.join().unwrap();
            assert!(memory.refuses(&attempt(8), 10));
        });
    }

    #[test]
    fn a_slow_look_does_not_shorten_what_a_later_one_allowed() {
        loom::model(|| {
            let known = known();
            let slow = {
                let known = Arc::clone(&known);
                thread::spawn(move || known.allow(10))
            };
            known.allow(20);
            slow.join().unwrap();
            assert!(known.is_allowed(19));
        });
    }

    #[test]
    fn memory_is_bounded() {
        loom::model(|| {
            let memory = Memory::new();
            let many = |users: usize| {
                let users = (0..users as i64).collect();
                Arc::new(Known::new(Epoch(1), GATE, users, 0))
            };
            assert!(memory.insert(TemplateId(1), many(USERS_MAX - 1)));
            assert!(!memory.insert(TemplateId(2), many(2)));
            assert_eq!(memory.room(), 1);
            assert!(memory.insert(TemplateId(2), many(1)));
            assert!(memory.insert(TemplateId(1), many(2)), "in the place of itself");
            assert_eq!(memory.size(0), (0, 24));
        });
    }
}
