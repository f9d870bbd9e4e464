//! State that the drains of a process share: turns to check their queues, and the renewal of their leases. It keeps
//! the load of many drains on the servers as low as that of a few. While the broker is away, hundreds of templates may
//! wait, and their drains share the connections to MySQL with requests.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex as Lock, PoisonError},
    time::{Duration, Instant},
};

use coupon::{Epoch, TemplateId};
use mysql_store::{MySqlPool, StoreError, connect, lease, stock};
use tokio::sync::{Mutex, Semaphore};

use crate::gate::rebuild::LEASE;

/// Most checks of queues at a time. While the broker does not answer, each may hold a blocking thread, and the process
/// has 512 such threads in total.
const LOOKS_AT_ONCE: usize = 32;

/// Age up to which one renewal serves other drains too: half of the interval at which each drain asks for one. So the
/// process renews at most twice a second, however many drains ask; a lease needs only one renewal in [`LEASE`].
const RENEWED_MAX: Duration = Duration::from_millis(500);

/// What the drains of a process share.
pub(crate) struct Drains {
    /// [`LOOKS_AT_ONCE`].
    pub(super) looks: Semaphore,
    /// The leases of the drains that wait.
    leases: Lock<BTreeMap<TemplateId, String>>,
    renewed: Mutex<Option<Renewal>>,
}

/// The last renewal.
struct Renewal {
    began: Instant,
    /// The epochs of the templates that waited then, and those of their queued claims; `None`: MySQL did not say.
    epochs: Option<HashMap<TemplateId, (Epoch, Epoch)>>,
}

/// A drain that waits. Dropping it ends the renewal of its lease.
pub(super) struct Waiting<'a> {
    drains: &'a Drains,
    template: TemplateId,
    since: Instant,
}

/// What a renewal found out about a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// Its epoch, and that of its queued claims.
    Epochs(Epoch, Epoch),
    NoTemplate,
    /// MySQL did not answer, as another drain has reported.
    Unknown,
}

impl Default for Drains {
    fn default() -> Self {
        let leases = Lock::default();
        let renewed = Mutex::default();
        Self { looks: Semaphore::new(LOOKS_AT_ONCE), leases, renewed }
    }
}

impl Drains {
    /// Begins the wait of a drain that holds this lease.
    pub(super) fn wait(&self, template: TemplateId, lease: &str) -> Waiting<'_> {
        let mut leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.insert(template, lease.to_owned());
        drop(leases);
        Waiting { drains: self, template, since: Instant::now() }
    }

    fn leases(&self) -> (Vec<TemplateId>, Vec<String>) {
        let leases = self.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.iter().map(|(template, lease)| (*template, lease.clone())).unzip()
    }
}

impl Waiting<'_> {
    /// Renews the lease, with those of all other drains, unless that was done a moment ago. Returns what MySQL then
    /// said about the template.
    ///
    /// # Errors
    /// MySQL failed. The drains that asked meanwhile get [`Found::Unknown`].
    pub(super) async fn renew(&self, pool: &MySqlPool, holder: &str) -> Result<Found, StoreError> {
        let asked = Instant::now();
        let mut renewed = self.drains.renewed.lock().await;
        // A renewal that began before this wait may show an older epoch or lack this lease.
        let serves = |one: &&Renewal| {
            one.began >= self.since && asked.saturating_duration_since(one.began) < RENEWED_MAX
        };
        if let Some(renewal) = renewed.as_ref().filter(serves) {
            return Ok(renewal.found(self.template));
        }
        let began = Instant::now();
        let (templates, leases) = self.drains.leases();
        let epochs = connect::within(async {
            let mut connection = connect::acquire(pool).await?;
            lease::renew_all(&mut connection, &leases, holder, LEASE).await?;
            // If another process has taken a lease, the higher epoch that it sets shows that, now or later.
            stock::queue_epochs(&mut connection, &templates).await
        });
        let (epochs, failed) = match epochs.await {
            Ok(epochs) => (Some(epochs), None),
            Err(error) => (None, Some(error)),
        };
        let found = renewed.insert(Renewal { began, epochs }).found(self.template);
        failed.map_or(Ok(found), Err)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut leases = self.drains.leases.lock().unwrap_or_else(PoisonError::into_inner);
        leases.remove(&self.template);
    }
}

impl Renewal {
    fn found(&self, template: TemplateId) -> Found {
        let Some(epochs) = &self.epochs else { return Found::Unknown };
        epochs
            .get(&template)
            .map_or(Found::NoTemplate, |(epoch, queued)| Found::Epochs(*epoch, *queued))
    }
}
