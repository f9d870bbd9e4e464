//! For a shop's operators: campaigns, stock, keys, and repairs.

pub(crate) mod api_key_json;
pub(crate) mod api_keys;
pub(crate) mod before_sale;
pub(crate) mod claim_state;
pub(crate) mod claim_story;
pub(crate) mod console_session;
pub(crate) mod dead_letters;
pub(crate) mod desk;
pub(crate) mod drain;
pub(crate) mod expiry;
pub(crate) mod findings;
pub(crate) mod health;
pub(crate) mod live;
pub(crate) mod merchants;
pub(crate) mod quotas;
pub(crate) mod repair;
pub(crate) mod reports;
pub(crate) mod stock;
pub(crate) mod stock_movements;
pub(crate) mod templates;
pub(crate) mod whoami;
