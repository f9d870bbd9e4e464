//! A user's coupons: use, and the view behind "my coupons".

pub(crate) mod shown;
pub(crate) mod use_coupon;
pub(crate) mod view;
pub(crate) mod view_damaged;
pub(crate) mod view_gaps;
pub(crate) mod view_generation;
pub(crate) mod view_readers;

/// The full tier: CONTRIBUTING.md, "Two tiers".
pub(crate) mod full {
    pub(crate) mod dead_letters;
    pub(crate) mod redelivery;
    pub(crate) mod view_campaign;
    pub(crate) mod view_cluster;
    pub(crate) mod view_crowded;
    pub(crate) mod view_hot;
    pub(crate) mod view_pages;
}
