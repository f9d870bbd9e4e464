//! `api_key`: operators' keys, without their secrets.

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{ApiKeyId, MerchantId, Scopes};
use sqlx::{FromRow, MySqlConnection, Row as _};

use crate::{
    StoreError,
    code::Code,
    datetime::{NullableTime, datetime},
    listed::{Listed, listed},
    operators::merchant,
};

/// Number of keys in one statement of [`note_uses`].
const USES_MAX: usize = 500;

/// SHA-256 of a whole key.
pub type Digest = [u8; 32];

/// A key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct ApiKey {
    #[sqlx(try_from = "i64")]
    pub id: ApiKeyId,
    #[sqlx(try_from = "i64")]
    pub merchant_id: MerchantId,
    pub name: String,
    #[sqlx(try_from = "Code")]
    pub scopes: Scopes,
    pub created_at: DateTime<Utc>,
    /// First instant at which it is not accepted; `None` if it does not expire.
    #[sqlx(try_from = "NullableTime")]
    pub expires_at: Option<DateTime<Utc>>,
    /// First instant at which it is not accepted because an operator revoked it. In the future while the key is being
    /// replaced.
    #[sqlx(try_from = "NullableTime")]
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last accepted, as far as recorded; `None` if never.
    #[sqlx(try_from = "NullableTime")]
    pub last_used_at: Option<DateTime<Utc>>,
}

/// Result of creating a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The key was created.
    Done,
    /// There is no such merchant.
    NoMerchant,
    /// The merchant already has the largest allowed number of keys.
    TooMany,
}

impl ApiKey {
    /// First instant at which it is not accepted, for whichever reason; `None` if it has no end.
    pub fn ends_at(&self) -> Option<DateTime<Utc>> {
        self.expires_at.into_iter().chain(self.revoked_at).min()
    }

    /// Returns whether it is accepted at `now`.
    pub fn is_live(&self, now: DateTime<Utc>) -> bool {
        self.ends_at().is_none_or(|end| now < end)
    }
}

/// Creates a key, unless its merchant already has `most` accepted ones; 0 means no limit. Call it in a transaction: the
/// merchant's row is locked while its keys are counted.
pub async fn create(
    transaction: &mut MySqlConnection,
    key: &ApiKey,
    digest: &Digest,
    most: u32,
) -> Result<Created, StoreError> {
    if !merchant::lock(transaction, key.merchant_id).await? {
        return Ok(Created::NoMerchant);
    }
    if most > 0 && live(transaction, key.merchant_id, key.created_at).await? >= i64::from(most) {
        return Ok(Created::TooMany);
    }
    sqlx::query(
        "insert into api_key (id, merchant_id, name, digest, scopes, created_at, expires_at, \
         revoked_at) values (?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(key.id.0)
    .bind(key.merchant_id.0)
    .bind(&key.name)
    .bind(digest.as_slice())
    .bind(key.scopes.code())
    .bind(datetime(key.created_at))
    .bind(key.expires_at.map(datetime))
    .bind(key.revoked_at.map(datetime))
    .execute(transaction)
    .await
    .map_err(StoreError::query("create the key"))?;
    Ok(Created::Done)
}

async fn live(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    now: DateTime<Utc>,
) -> Result<i64, StoreError> {
    sqlx::query_scalar(
        "select count(*) from api_key where merchant_id = ? \
         and (expires_at is null or expires_at > ?) and (revoked_at is null or revoked_at > ?)",
    )
    .bind(merchant.0)
    .bind(datetime(now))
    .bind(datetime(now))
    .fetch_one(connection)
    .await
    .map_err(StoreError::query("count the merchant's keys"))
}

#[derive(FromRow)]
struct WithDigest {
    #[sqlx(flatten)]
    key: ApiKey,
    digest: Vec<u8>,
}

/// Returns a key of any merchant, with the digest of the whole key that clients send.
pub async fn get(
    connection: &mut MySqlConnection,
    id: ApiKeyId,
) -> Result<Option<(ApiKey, Digest)>, StoreError> {
    let row: Option<WithDigest> = sqlx::query_as("select * from api_key where id = ?")
        .bind(id.0)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::query("read the key"))?;
    let Some(WithDigest { key, digest }) = row else { return Ok(None) };
    let digest =
        digest.try_into().map_err(|_| StoreError::unreadable("a digest of another length"))?;
    Ok(Some((key, digest)))
}

/// Returns a key, locked until the transaction ends.
pub async fn lock(
    transaction: &mut MySqlConnection,
    id: ApiKeyId,
) -> Result<Option<ApiKey>, StoreError> {
    sqlx::query_as("select * from api_key where id = ? for update")
        .bind(id.0)
        .fetch_optional(transaction)
        .await
        .map_err(StoreError::query("lock the key"))
}

/// Returns a merchant's keys: those that are accepted at `now`, then those that are no longer, each the newest first. The
/// rows of ended keys are kept, so `limit` must not leave out one that still opens the api. Names those that cannot be
/// read.
pub async fn list(
    connection: &mut MySqlConnection,
    merchant: MerchantId,
    now: DateTime<Utc>,
    limit: u32,
) -> Result<Vec<Listed<ApiKey, ApiKeyId>>, StoreError> {
    sqlx::query(
        "select * from api_key where merchant_id = ? \
         order by (expires_at is null or expires_at > ?) and (revoked_at is null or revoked_at > ?) desc, \
         id desc limit ?",
    )
    .bind(merchant.0)
    .bind(datetime(now))
    .bind(datetime(now))
    .bind(limit)
    .fetch_all(connection)
    .await
    .and_then(|rows| listed(&rows, ApiKey::from_row, |row| row.try_get("id").map(ApiKeyId)))
    .map_err(StoreError::query("read the keys"))
}

/// Ends a key at `at`, unless it ends earlier anyway. Returns whether that changed anything.
pub async fn revoke(
    connection: &mut MySqlConnection,
    id: ApiKeyId,
    at: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "update api_key set revoked_at = ? where id = ? and (revoked_at is null or revoked_at > ?)",
    )
    .bind(datetime(at))
    .bind(id.0)
    .bind(datetime(at))
    .execute(connection)
    .await
    .map_err(StoreError::query("revoke the key"))?;
    Ok(done.rows_affected() == 1)
}

/// Records that these keys were accepted at `now`, for each key at most once per `pause` over all processes.
pub async fn note_uses(
    connection: &mut MySqlConnection,
    keys: &[ApiKeyId],
    now: DateTime<Utc>,
    pause: TimeDelta,
) -> Result<(), StoreError> {
    for keys in keys.chunks(USES_MAX) {
        let places = vec!["?"; keys.len()].join(", ");
        let statement = format!(
            "update api_key set last_used_at = ? where id in ({places}) \
             and (last_used_at is null or last_used_at <= ?)"
        );
        let query = sqlx::query(sqlx::AssertSqlSafe(statement)).persistent(false);
        let query = keys.iter().fold(query.bind(datetime(now)), |query, key| query.bind(key.0));
        query
            .bind(datetime(now - pause))
            .execute(&mut *connection)
            .await
            .map_err(StoreError::query("write when keys were used"))?;
    }
    Ok(())
}
