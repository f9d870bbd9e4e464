//! Makes the samples of the live figures: one a second for all who watch, and none while nobody does.
//!
//! MySQL is read first, all templates at one moment, and then each gate at one moment. A server that does not answer in
//! time leaves its figures out, and the sample comes all the same: a viewer takes a late sample for a dead stream.

use std::{collections::HashMap, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use coupon::{Epoch, MerchantId, Template, TemplateId, TemplateState};
use futures::future::join_all;
use mysql_store::balance::{Asked, Balance, balances};
use redis_gate::Gate;
use runtime::Context;
use tokio::{
    task::JoinSet,
    time::{Instant, Interval, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    fleet::{Seen, first_sentence::FirstSentence, impact::ImpactJson},
    live::{
        Frames,
        figures::{Figures, GateLook},
    },
    routes::operators::live::sample_json::{AtGate, LiveTemplateJson, Sample, Shown},
    state::App,
    stats::last_second::LastSecond,
};

/// Interval between samples: as often as people read figures.
const EVERY: Duration = Duration::from_secs(1);

/// Most templates of a sample, of all merchants: as many as have their answers counted one by one. A sample of them has
/// about 150 kB.
const TEMPLATES_MAX: usize = 256;

/// Most templates whose held coupons are counted for a sample, each up to 10,000 entries of an index.
const HELD_MAX: usize = 16;

/// Longest waits for MySQL, for a gate, and for the processes' answers to a sample. Together they are shorter than the
/// interval, so samples come in time while a server hangs.
const MYSQL_MAX: Duration = Duration::from_millis(400);
const GATE_MAX: Duration = Duration::from_millis(250);
const FLEET_MAX: Duration = Duration::from_millis(150);

/// Age from which the processes' answers say nothing any more. They are asked all the time, and one that hangs delays them
/// by four seconds.
const FLEET_AGE_MAX: Duration = Duration::from_secs(10);

/// Starts the task that makes samples.
pub(crate) fn start(app: &App, context: &Context) {
    context.spawn("live figures", make(app.clone(), context.stop_token()));
}

async fn make(app: App, stop: CancellationToken) -> anyhow::Result<()> {
    let mut sampler = Sampler::new(app);
    while stop.run_until_cancelled(sampler.turn()).await.is_some() {}
    Ok(())
}

struct Sampler {
    app: App,
    /// The gates, by a connection that no claim waits behind.
    gate: Gate,
    tick: Interval,
    /// The gates as of the sample before.
    before: HashMap<TemplateId, GateLook>,
    /// A question to the processes that is under way, and their last answers.
    asking: JoinSet<Seen>,
    seen: Option<(Instant, Seen)>,
}

/// What one look at a gate found.
#[derive(Debug, Clone, Copy)]
enum Looked {
    Open { look: GateLook, is_halted: bool },
    NotLoaded,
    Unknown,
}

/// The templates of a sample.
struct Chosen {
    templates: Vec<Arc<Template>>,
    left_out: HashMap<MerchantId, u64>,
}

impl Sampler {
    fn new(app: App) -> Self {
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let gate = app.gates.gate().apart();
        Self { app, gate, tick, before: HashMap::new(), asking: JoinSet::new(), seen: None }
    }

    /// Shows a sample as soon as one is due and somebody watches.
    async fn turn(&mut self) {
        if !self.app.live.is_watched() {
            self.before.clear();
            // Old answers would pass for new ones.
            self.asking = JoinSet::new();
            self.seen = None;
            self.app.live.until_watched().await;
            self.tick.reset_immediately();
        }
        self.tick.tick().await;
        let frames = self.sample().await;
        self.app.live.show(frames);
    }

    async fn sample(&mut self) -> Frames {
        self.ask_fleet();
        let now = self.app.sale_clock.now();
        let chosen = self.chosen(now);
        let templates = match chosen {
            Some(chosen) => Some(self.shown(chosen, now).await),
            None => None,
        };
        self.hear_fleet().await;
        let said = self.said();
        Sample {
            now,
            for_merchants: said.clone().map(ImpactJson::for_merchants),
            for_on_call: said.map(ImpactJson::of),
            templates,
        }
        .frames()
    }

    /// Chooses the templates: what is open, then what is paused, then what opens soon.
    fn chosen(&self, now: DateTime<Utc>) -> Option<Chosen> {
        let app = &self.app;
        let wanted = |template: &Template| {
            let is_paused = template.state == TemplateState::Paused;
            app.gates.wants(template, now) || (is_paused && now < template.window.ends_at)
        };
        let mut templates = app.templates.current(wanted)?;
        templates
            .sort_by_key(|template| (rank(template, now), template.window.starts_at, template.id));
        let mut left_out: HashMap<MerchantId, u64> = HashMap::new();
        for template in templates.iter().skip(TEMPLATES_MAX) {
            *left_out.entry(template.merchant_id).or_default() += 1;
        }
        templates.truncate(TEMPLATES_MAX);
        Some(Chosen { templates, left_out })
    }

    async fn shown(&mut self, chosen: Chosen, now: DateTime<Utc>) -> Shown {
        let Chosen { templates, left_out } = chosen;
        let accounts = self.accounts(&templates).await;
        let looks = templates.iter().map(|template| {
            let account = accounts.get(&template.id);
            let known = || self.app.gates.known(template.id);
            let epoch = account.map_or_else(known, |account| account.epoch);
            looked(self.gate.clone(), template.id, epoch)
        });
        let looks = join_all(looks).await;
        let second = self.app.stats.last_second();
        let mut after = HashMap::new();
        let mut shown = Vec::with_capacity(templates.len());
        for (template, look) in templates.iter().zip(looks) {
            let look_at_gate = look.gate();
            let before = self.before.get(&template.id);
            let account = accounts.get(&template.id);
            let figures =
                Figures::of(account, before, look_at_gate.as_ref(), template.max_per_claim);
            after.extend(look_at_gate.map(|gate| (template.id, gate)));
            let rates = second.as_deref().and_then(|second: &LastSecond| second.of(template.id));
            let json = LiveTemplateJson::of(template, figures, look.told(), rates, now);
            shown.push((template.merchant_id, json));
        }
        self.before = after;
        Shown { templates: shown, left_out }
    }

    /// Reads the accounts of templates. Those that MySQL does not tell in time are absent.
    async fn accounts(&self, templates: &[Arc<Template>]) -> HashMap<TemplateId, Balance> {
        let mut counted = 0;
        let mut asked = Vec::with_capacity(templates.len());
        for template in templates {
            let with_held = template.hold.holds() && counted < HELD_MAX;
            counted += usize::from(with_held);
            asked.push(Asked { template: template.id, with_held });
        }
        let mut accounts = match timeout(MYSQL_MAX, balances(&self.app.pool, &asked)).await {
            Ok(Ok(accounts)) => accounts,
            Ok(Err(error)) => {
                runtime::seldom!("live figures lack MySQL's", runtime::report(&error));
                HashMap::new()
            }
            Err(_) => {
                runtime::seldom!("live figures lack MySQL's", "it did not answer in time");
                HashMap::new()
            }
        };
        for template in templates.iter().filter(|template| !template.hold.holds()) {
            if let Some(account) = accounts.get_mut(&template.id) {
                account.held = Some(0);
            }
        }
        accounts
    }

    /// Asks the processes, unless they are being asked.
    fn ask_fleet(&mut self) {
        if self.asking.is_empty() {
            let fleet = Arc::clone(&self.app.fleet);
            self.asking.spawn(async move { fleet.ask().await });
        }
    }

    /// Waits a moment for the processes' answers.
    async fn hear_fleet(&mut self) {
        if let Ok(Some(Ok(seen))) = timeout(FLEET_MAX, self.asking.join_next()).await {
            self.seen = Some((Instant::now(), seen));
        }
    }

    /// Returns the first sentence by the last answers.
    fn said(&self) -> Option<FirstSentence> {
        let (at, seen) = self.seen.as_ref()?;
        if at.elapsed() >= FLEET_AGE_MAX {
            return None;
        }
        Some(FirstSentence::of(&seen.facts_with(self.app.gates.not_loaded())))
    }
}

impl Looked {
    fn gate(self) -> Option<GateLook> {
        match self {
            Self::Open { look, .. } => Some(look),
            Self::NotLoaded | Self::Unknown => None,
        }
    }

    fn told(self) -> AtGate {
        match self {
            Self::Open { look, is_halted } => AtGate {
                is_loaded: Some(true),
                is_halted,
                claims_in_flight: Some(look.claims()),
                claims_queued: Some(look.queued),
            },
            Self::NotLoaded => AtGate { is_loaded: Some(false), ..AtGate::default() },
            Self::Unknown => AtGate::default(),
        }
    }
}

/// Order of a sample: what is open comes first, then what is paused, then what is ahead.
fn rank(template: &Template, now: DateTime<Utc>) -> u8 {
    match (template.state, now < template.window.starts_at) {
        (TemplateState::Paused, _) => 1,
        (_, false) => 0,
        (_, true) => 2,
    }
}

/// Looks at a gate.
async fn looked(gate: Gate, template: TemplateId, epoch: Epoch) -> Looked {
    match timeout(GATE_MAX, gate.account(template, epoch)).await {
        Ok(Ok(Some((meta, held)))) => Looked::Open {
            look: GateLook {
                epoch: meta.epoch,
                stock: meta.stock,
                movement: meta.movement,
                direct: held.admissions.saturating_sub(held.queued),
                queued: held.queued,
            },
            is_halted: meta.halt.is_some(),
        },
        Ok(Ok(None)) => Looked::NotLoaded,
        // A gate with such keys counts as lost.
        Ok(Err(error)) if error.is_of_keys() => Looked::NotLoaded,
        Ok(Err(error)) => {
            runtime::seldom!("live figures lack the gates'", runtime::report(&error));
            Looked::Unknown
        }
        Err(_) => Looked::Unknown,
    }
}
