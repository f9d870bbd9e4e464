//! What MySQL has under a client's key.

use coupon::{Claim, LandedClaim};
use mysql_store::{
    StoreError, connect,
    look_up::{self, StoredAnswer},
};

use super::{Answer, walk::Walk};

impl Walk {
    /// Returns the answer that MySQL has under the client's key.
    pub(super) async fn stored(&self, claim: &Claim) -> Result<Option<StoredAnswer>, StoreError> {
        let template = claim.template_id;
        let user = claim.user_id;
        connect::within(async {
            let mut connection = connect::acquire(&self.pool).await?;
            look_up::by_key(&mut connection, template, user, &claim.request_id).await
        })
        .await
    }

    /// Returns the answer that the key's row gives to this request, if there is one.
    pub(super) async fn stored_answer(&self, claim: &Claim) -> Result<Option<Answer>, StoreError> {
        let stored = self.stored(claim).await?;
        Ok(stored.map(|stored| match stored {
            StoredAnswer::Landed(landed) if landed.payload_hash == claim.payload_hash => {
                Answer::Landed { claim: landed, replayed: true }
            }
            StoredAnswer::Rejected { id, reason, payload_hash }
                if payload_hash == claim.payload_hash =>
            {
                Answer::Rejected { id, reason }
            }
            StoredAnswer::Landed(_) | StoredAnswer::Rejected { .. } => Answer::KeyReused,
        }))
    }

    /// Returns the landed claim under the client's key.
    pub(super) async fn stored_claim(
        &self,
        claim: &Claim,
    ) -> Result<Option<LandedClaim>, StoreError> {
        Ok(match self.stored(claim).await? {
            Some(StoredAnswer::Landed(landed)) => Some(landed),
            Some(StoredAnswer::Rejected { .. }) | None => None,
        })
    }
}
