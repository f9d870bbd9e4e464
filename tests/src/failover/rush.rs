//! [`Rush`]: users who claim at once, and what they were answered.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use coupon::{ClaimId, TemplateId, UserId};
use shopper::{Accepted, Api, Claimed};
use tokio::task::JoinHandle;

use crate::World;

/// Idempotency key of every claim: each user claims each template once.
pub const RUSH_KEY: &str = "the-key";

/// Users who claim at once.
const AT_ONCE: usize = 12;

/// A claim that was answered with 201 or 202.
#[derive(Debug, Clone)]
pub struct Promised {
    pub template: TemplateId,
    pub user: UserId,
    pub id: ClaimId,
    /// With 202.
    pub accepted: Option<Accepted>,
    /// Whether it was sent behind the failover.
    pub is_behind: bool,
}

/// Each user claims once of each template, until the rush is ended. An answer that is not definite is left.
pub struct Rush {
    shared: Arc<Shared>,
    users: Vec<JoinHandle<Vec<Promised>>>,
}

struct Shared {
    templates: Vec<TemplateId>,
    next_user: AtomicI64,
    is_behind: AtomicBool,
    is_over: AtomicBool,
}

impl Rush {
    /// Begins with this user.
    pub fn start(world: &World, templates: &[TemplateId], first_user: i64) -> Self {
        let shared = Arc::new(Shared {
            templates: templates.to_vec(),
            next_user: AtomicI64::new(first_user),
            is_behind: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let users = (0..AT_ONCE).map(|place| {
            let api = world.apis[place % world.apis.len()].clone();
            tokio::spawn(claim_on(api, Arc::clone(&shared)))
        });
        let users = users.collect();
        Self { shared, users }
    }

    /// Says that all claims from now on come behind the failover.
    pub fn behind(&self) {
        self.shared.is_behind.store(true, Ordering::Release);
    }

    /// Ends it, and returns what was promised.
    ///
    /// # Panics
    /// A user's task panicked.
    pub async fn end(self) -> Vec<Promised> {
        self.shared.is_over.store(true, Ordering::Release);
        let mut promised = Vec::new();
        for user in self.users {
            promised.extend(user.await.unwrap());
        }
        promised
    }
}

async fn claim_on(api: Api, shared: Arc<Shared>) -> Vec<Promised> {
    let mut promised = Vec::new();
    while !shared.is_over.load(Ordering::Acquire) {
        let user = UserId(shared.next_user.fetch_add(1, Ordering::Relaxed));
        let shopper = api.shopper(user).unwrap();
        for template in shared.templates.iter().copied() {
            let is_behind = shared.is_behind.load(Ordering::Acquire);
            let Ok(answer) = shopper.claim(template, Some(RUSH_KEY), 1).await else { continue };
            let accepted = Accepted::read(&answer, template, user, Some(RUSH_KEY), 1);
            let id = match (answer.status, &accepted) {
                (201, _) => answer.json::<Claimed>().unwrap().id,
                (202, Some(accepted)) => accepted.id,
                _ => continue,
            };
            promised.push(Promised { template, user, id, accepted, is_behind });
        }
    }
    promised
}
