//! Finds the claim that a call confirms or cancels, and the coupons of it that the call names.

use std::sync::Arc;

use coupon::{ClaimId, CouponId, LandedClaim, Template, TemplateId, UserId, limit};
use landing::claims::fate::Fate;
use mysql_store::look_up::ClaimFate;

use crate::{
    access,
    auth::Operator,
    code::Code,
    problem::Problem,
    routes::{
        bodies::coupon_json,
        operators::claim_state::{self, Found},
        shop::checkout::named,
        shopper::claim_poll::{fate_of_own, not_found, template_needed},
    },
    state::App,
};

/// A claim that has landed, with its template.
pub(super) struct Claim {
    pub(super) landed: LandedClaim,
    pub(super) template: Arc<Template>,
}

/// Finds a landed claim of the shop's templates. Its template may be named, for one that has not landed.
pub(super) async fn of_shop(
    app: &App,
    shop: Operator,
    id: ClaimId,
    template: Option<TemplateId>,
) -> Result<Claim, Problem> {
    access::note_claim(id);
    let landed = match claim_state::find(app, shop, id, template).await? {
        Found::Decided(fate) => landed(fate)?,
        Found::Processing { template, .. } => {
            return Err(pending(&format!("/v1/claim-states/{id}?template={template}")));
        }
    };
    let template = app.templates.visible_by_now(landed.template_id).await?;
    Ok(Claim { landed, template: template.ok_or_else(not_found)? })
}

/// Finds a landed claim of the user.
pub(super) async fn of_user(
    app: &App,
    user: UserId,
    id: ClaimId,
    template: Option<TemplateId>,
) -> Result<Claim, Problem> {
    access::note_claim(id);
    let landed = own(app, user, id, template).await?;
    let template = app.templates.visible_by_now(landed.template_id).await?;
    Ok(Claim { landed, template: template.ok_or_else(not_found)? })
}

fn landed(fate: ClaimFate) -> Result<LandedClaim, Problem> {
    match fate {
        ClaimFate::Landed(claim) => Ok(claim),
        ClaimFate::Rejected { .. } | ClaimFate::Lost { .. } | ClaimFate::GivenUp { .. } => {
            Err(not_found())
        }
    }
}

/// Finds the user's claim, whatever its template.
async fn own(
    app: &App,
    user: UserId,
    id: ClaimId,
    template: Option<TemplateId>,
) -> Result<LandedClaim, Problem> {
    match fate_of_own(app, user, id, template).await? {
        Fate::Decided(fate) => landed(fate),
        Fate::Never => Err(not_found()),
        Fate::Processing { .. } => {
            let template = template.ok_or_else(template_needed)?;
            Err(pending(&format!("/v1/claims/{id}?template={template}")))
        }
        Fate::TemplateNeeded => Err(template_needed()),
    }
}

/// The claim is on its way: nothing of it can be confirmed or cancelled before it lands.
fn pending(poll: &str) -> Problem {
    let detail = "The claim has not landed yet, and nothing was done. Send the request again when it has: look at \
                  `poll`.";
    Problem::new(Code::ClaimPending, detail).with("poll", poll)
}

/// Checks that a list names each coupon once, and not too many.
pub(super) fn checked(
    coupons: Option<&[CouponId]>,
    invalid: impl Fn(&str) -> Problem,
) -> Result<(), Problem> {
    let Some(coupons) = coupons else { return Ok(()) };
    let most = limit::QUANTITY_MAX;
    if coupons.is_empty() || coupons.len() > most as usize {
        return Err(invalid(&format!("name 1 to {most}, or leave it out for all")));
    }
    let mut each = coupons.to_vec();
    each.sort_unstable();
    each.dedup();
    if each.len() < coupons.len() {
        return Err(invalid("name each once"));
    }
    Ok(())
}

impl Claim {
    /// Returns the coupons that a call names, ascending; all of the claim, as issued, if it names none.
    pub(super) fn coupons(&self, asked: Option<&[CouponId]>) -> Result<Vec<CouponId>, Problem> {
        let own: Vec<CouponId> = self.landed.coupons.iter().map(|coupon| coupon.id).collect();
        let mut ids = asked.map_or_else(|| own.clone(), <[CouponId]>::to_vec);
        if let Some(id) = ids.iter().find(|id| !own.contains(id)) {
            return Err(named(coupon_json::not_found(), *id));
        }
        ids.sort_unstable();
        Ok(ids)
    }
}
