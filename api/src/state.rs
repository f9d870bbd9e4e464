//! State that all handlers share.

use std::{ops::Deref, sync::Arc};

use axum::extract::FromRef;
use coupon::MerchantId;
use landing::{claims::Claims, gates::Gates, ids::Ids};
use mysql_store::{
    MySqlPool,
    connect::{self, Transaction},
};
use redis_view::ViewReader;
use runtime::{Clock, FailPoints};

use crate::{
    auth::{Auth, fence_limit::FenceLimit, rate_limit::RateLimit},
    code::Code,
    config::Quotas,
    fleet::Fleet,
    live::Live,
    mysql_view_source::MySqlViewSource,
    problem::Problem,
    queue::Queue,
    receipt::Receipts,
    servers::sale_clock::SaleClock,
    shop::batches::Batches,
    shop::stock::ShopStock,
    stats::Stats,
    story::Stories,
    template_cache::TemplateCache,
    work_limits::Places,
};

/// The state of the api; clones share it.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

pub(crate) struct Parts {
    pub(crate) clock: Clock,
    /// Whether a sale has begun or is over is judged by this one.
    pub(crate) sale_clock: SaleClock,
    pub(crate) pool: MySqlPool,
    pub(crate) auth: Arc<Auth>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) templates: TemplateCache,
    pub(crate) gates: Gates,
    pub(crate) claims: Claims,
    pub(crate) queue: Arc<Queue>,
    /// Signs and reads the receipts of queued claims.
    pub(crate) receipts: Receipts,
    pub(crate) view: ViewReader<MySqlViewSource>,
    pub(crate) shop_stock: ShopStock,
    /// Counts answers to claims, and reads what all processes counted.
    pub(crate) stats: Stats,
    /// Reads the stories of claims for operators.
    pub(crate) stories: Stories,
    /// Limits how often a user may claim.
    pub(crate) claim_limit: RateLimit,
    /// Limits how often a user may read coupons and claims.
    pub(crate) read_limit: RateLimit,
    /// Limits the fences that lookups of unknown claims place.
    pub(crate) fence_limit: FenceLimit,
    pub(crate) quotas: Quotas,
    pub(crate) exports: Places<MerchantId>,
    /// Hands calls of shops to the tasks that serve several at once.
    pub(crate) batches: Batches,
    pub(crate) fleet: Arc<Fleet>,
    /// The live figures, for those who watch.
    pub(crate) live: Live,
    pub(crate) points: FailPoints,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Commits a transaction. The fail point `api.before_commit` is before it.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<(), Problem> {
        if self.points.reach("api.before_commit").await.is_err() {
            return Err(Problem::new(Code::StoreUnavailable, "Interrupted.").unknown());
        }
        Ok(connect::commit(transaction).await?)
    }
}

impl FromRef<App> for Arc<Auth> {
    fn from_ref(app: &App) -> Self {
        Self::clone(&app.auth)
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
