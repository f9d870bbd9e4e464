//! Claims and coupons of a span of templates and users: as many coupons as were claimed, each with its claim, and nobody
//! has more than the limit.

use coupon::FindingKind;
use mysql_store::{
    MySqlConnection, StoreError,
    verify::{self, Span},
};

use crate::finding::{About, Finding};

/// Looks for claims with more or fewer coupons than they are for.
///
/// # Errors
/// MySQL cannot be read.
pub async fn uneven(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Finding>, StoreError> {
    let claims = verify::uneven_claims_in(connection, span).await?;
    let found = claims.into_iter().map(|claim| {
        let id = claim.id;
        let quantity = claim.quantity;
        let coupons = claim.coupons;
        let line = format!("claim {id} is for {quantity} and has {coupons} coupons");
        Finding::of(FindingKind::Claim, claim.template, line)
            .about(About::Claim(id))
            .that(quantity, coupons)
            .of_coupons(coupons.saturating_sub(quantity))
    });
    Ok(found.collect())
}

/// Looks for coupons without a landed claim of their user.
///
/// # Errors
/// MySQL cannot be read.
pub async fn orphans(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Finding>, StoreError> {
    let coupons = verify::orphans_in(connection, span).await?;
    let found = coupons.into_iter().map(|coupon| {
        let line = format!("coupon {} has no landed claim", coupon.id);
        Finding::of(FindingKind::Claim, coupon.template, line)
            .about(About::User(coupon.user))
            .that("a landed claim", "none")
            .of_coupons(1)
    });
    Ok(found.collect())
}

/// Looks for users who have more coupons than the limit.
///
/// # Errors
/// MySQL cannot be read.
pub async fn over_limit(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Finding>, StoreError> {
    let holdings = verify::over_limit(connection, span).await?;
    let found = holdings.into_iter().map(|holding| {
        let line = format!(
            "user {} holds {} coupons (numbers {} to {}) of template {}, limit {}",
            holding.user,
            holding.coupons,
            holding.lowest,
            holding.highest,
            holding.template,
            holding.limit,
        );
        Finding::of(FindingKind::Limit, holding.template, line)
            .about(About::User(holding.user))
            .that(holding.limit, holding.coupons)
            .of_coupons(holding.coupons.saturating_sub(holding.limit).max(0))
    });
    Ok(found.collect())
}

/// Looks for coupons without a number within the limit.
///
/// # Errors
/// MySQL cannot be read.
pub async fn unnumbered(
    connection: &mut MySqlConnection,
    span: &Span,
) -> Result<Vec<Finding>, StoreError> {
    let coupons = verify::odd_numbers(connection, span).await?;
    let found = coupons.into_iter().map(|coupon| {
        let id = coupon.id;
        let line = format!("coupon {id} has no number within the limit, and gave none back");
        Finding::of(FindingKind::Limit, coupon.template, line)
            .about(About::User(coupon.user))
            .that("a number within the limit", id)
            .of_coupons(1)
    });
    Ok(found.collect())
}
