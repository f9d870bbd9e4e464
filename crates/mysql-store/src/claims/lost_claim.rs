//! `lost_claim`: claims that were answered with success and that a failover of MySQL lost.

use chrono::NaiveDateTime;
use coupon::{ClaimId, TemplateId, UserId};
use sqlx::MySqlConnection;

use crate::{StoreError, claims::look_up::ClaimFate};

/// A claim whose row a failover lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostClaim {
    pub id: ClaimId,
    pub template: TemplateId,
    pub user: UserId,
}

/// Records a lost claim. Returns false if it was recorded before.
pub async fn record(connection: &mut MySqlConnection, lost: LostClaim) -> Result<bool, StoreError> {
    let recorded = sqlx::query("insert ignore into lost_claim values (?, ?, ?, utc_timestamp(3))")
        .bind(lost.id.0)
        .bind(lost.template.0)
        .bind(lost.user.0)
        .execute(connection)
        .await
        .map_err(StoreError::query("record a lost claim"))?;
    Ok(recorded.rows_affected() == 1)
}

/// Returns the fate of a claim that was recorded as lost.
pub async fn get(
    connection: &mut MySqlConnection,
    id: ClaimId,
) -> Result<Option<ClaimFate>, StoreError> {
    let row: Option<(i64, i64, NaiveDateTime)> =
        sqlx::query_as("select template_id, user_id, found_at from lost_claim where claim_id = ?")
            .bind(id.0)
            .fetch_optional(connection)
            .await
            .map_err(StoreError::query("look for a lost claim"))?;
    Ok(row.map(|(template, user, found_at)| ClaimFate::Lost {
        id,
        template_id: TemplateId(template),
        user_id: UserId(user),
        at: found_at.and_utc(),
    }))
}
