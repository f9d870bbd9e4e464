//! Worries about claims on their way from the gate to MySQL.

use testkit::until;

use super::Stage;

/// Clients that claim and hang up. Within a minute the api must hold more than four fifths of what it may hold at most.
const IMPATIENT: usize = 256;

/// Clients that claim while landings are slow.
const AT_ONCE: usize = 16;

/// Coupons for them: as many as may be under way.
const STOCK: i64 = 16_384;

impl Stage {
    /// An api leaves an admission alone, although it runs.
    pub(super) async fn abandoned_admission(&mut self, say: &impl Fn(String)) {
        let template = self.template(5, |new| new).await;
        let hold = self.hold("claims.after_gate");
        let claim = self.claim_aside(template, 1);
        self.fires(&["AdmissionsAbandoned"], say).await;
        drop(hold);
        claim.await.unwrap();
    }

    /// Claims pile up where they pass: behind the gate, before MySQL, and behind it.
    pub(super) async fn held_claims(&mut self, say: &impl Fn(String)) {
        let template = self.template(STOCK, |new| new).await;
        let behind_gate = self.hold("claims.after_gate");
        // The resolver would end what is held.
        let resolver = self.hold("resolver.before_fence");
        let claims = self.impatient_claims(template, IMPATIENT);
        self.fires(&["ClaimsShed"], say).await;
        drop(claims);
        let before_mysql = self.hold("landing.before_begin");
        drop(behind_gate);
        self.fires(&["LandingQueued"], say).await;
        let before_settling = self.hold("settler.before_settle");
        drop(before_mysql);
        self.fires(&["SettlingBehind"], say).await;
        drop(before_settling);
        drop(resolver);
        let api = &self.platform.apis[0];
        let settling = async || api.metric("coupon_settling_queue_admissions").await.unwrap();
        until(settling, |waiting| *waiting < 1.0).await;
        self.slow_landings(say).await;
    }

    /// Landings seem to take MySQL long: more than one in a hundred of five minutes' landings must.
    async fn slow_landings(&mut self, say: &impl Fn(String)) {
        let template = self.template(STOCK, |new| new).await;
        let claims = self.claims(&[template], AT_ONCE);
        let held = self.held_again_and_again("landing.before_begin");
        self.fires(&["LandingSlow"], say).await;
        drop(claims);
        drop(held);
    }
}
