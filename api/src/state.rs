//! What every handler shares.

use std::{ops::Deref, sync::Arc};

use landing::{claims::Claims, gates::Gates, ids::Ids};
use mysql_store::MySqlPool;
use redis_view::ViewReader;
use runtime::Clock;

use crate::{
    auth::Auth, rate_limit::RateLimit, shop_stock::ShopStock, template_cache::TemplateCache,
};

/// The state of the api; clones share it.
#[derive(Clone)]
pub(crate) struct App(Arc<Parts>);

/// The parts of the state.
pub(crate) struct Parts {
    pub(crate) clock: Clock,
    pub(crate) pool: MySqlPool,
    pub(crate) auth: Arc<Auth>,
    pub(crate) ids: Arc<Ids>,
    pub(crate) templates: TemplateCache,
    pub(crate) gates: Gates,
    pub(crate) claims: Claims,
    pub(crate) view: ViewReader,
    pub(crate) shop_stock: ShopStock,
    pub(crate) rate_limit: RateLimit,
}

impl App {
    pub(crate) fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }
}

impl Deref for App {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}
