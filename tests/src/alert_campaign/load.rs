//! Loads of requests whose answers are ignored. Each ends when its handle is dropped.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use coupon::{TemplateId, UserId};
use shopper::Api;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{Hold, LOOK_EVERY, Stage};

/// Tasks of a load without a number of its own.
const AT_ONCE: usize = 16;

/// How long a client waits before it hangs up: by then the api has its claim.
const HANGS_UP_AFTER: Duration = Duration::from_millis(500);

/// How long an api that is held again and again stands still, and how long it then runs.
const HELD_FOR: Duration = Duration::from_millis(700);
const GOES_ON_FOR: Duration = Duration::from_millis(100);

/// Users that claim, each once.
#[derive(Clone)]
struct Users {
    api: Api,
    next: Arc<AtomicI64>,
}

impl Users {
    async fn claim(&self, template: TemplateId) {
        let user = UserId(self.next.fetch_add(1, Ordering::Relaxed));
        drop(self.api.shopper(user).unwrap().claim(template, None, 1).await);
    }
}

impl Stage {
    fn users(&self) -> Users {
        Users { api: self.api.clone(), next: Arc::clone(&self.next_user) }
    }

    /// Claims from these templates in turn, `at_once` at a time.
    pub(super) fn claims(&self, templates: &[TemplateId], at_once: usize) -> JoinSet<()> {
        let mut load = JoinSet::new();
        for first in 0..at_once {
            let users = self.users();
            let templates = templates.to_vec();
            load.spawn(async move {
                for template in templates.iter().cycle().skip(first) {
                    users.claim(*template).await;
                }
            });
        }
        load
    }

    /// Claims once a second from each of these templates.
    pub(super) fn claims_each_second(&self, templates: &[TemplateId]) -> JoinSet<()> {
        let mut load = JoinSet::new();
        for some in templates.chunks(templates.len().div_ceil(AT_ONCE)) {
            let users = self.users();
            let some = some.to_vec();
            load.spawn(async move {
                let mut seconds = interval(Duration::from_secs(1));
                seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    seconds.tick().await;
                    for template in &some {
                        users.claim(*template).await;
                    }
                }
            });
        }
        load
    }

    /// Claims from a template, `at_once` at a time, and hangs up before the answer.
    pub(super) fn impatient_claims(&self, template: TemplateId, at_once: usize) -> JoinSet<()> {
        let mut load = JoinSet::new();
        for _ in 0..at_once {
            let users = self.users();
            load.spawn(async move {
                loop {
                    drop(timeout(HANGS_UP_AFTER, users.claim(template)).await);
                }
            });
        }
        load
    }

    /// Holds the api at a fail point, lets it go for a moment, and so on.
    pub(super) fn held_again_and_again(&self, point: &'static str) -> JoinSet<()> {
        let file = self.dir.join(point);
        let mut holds = JoinSet::new();
        holds.spawn(async move {
            loop {
                let hold = Hold::at(file.clone());
                sleep(HELD_FOR).await;
                drop(hold);
                sleep(GOES_ON_FOR).await;
            }
        });
        holds
    }

    /// Has users read their lists, each for the first time.
    pub(super) fn first_reads(&self) -> JoinSet<()> {
        let mut load = JoinSet::new();
        for _ in 0..AT_ONCE {
            let Users { api, next } = self.users();
            load.spawn(async move {
                loop {
                    let user = UserId(next.fetch_add(1, Ordering::Relaxed));
                    drop(api.shopper(user).unwrap().all_coupons().await);
                }
            });
        }
        load
    }

    /// Asks for a template that MySQL must be asked about.
    pub(super) fn unknown_templates(&self) -> JoinSet<()> {
        let mut load = JoinSet::new();
        for _ in 0..AT_ONCE {
            let api = self.api.clone();
            load.spawn(async move {
                loop {
                    drop(api.template(TemplateId(1)).await);
                    sleep(LOOK_EVERY).await;
                }
            });
        }
        load
    }
}
