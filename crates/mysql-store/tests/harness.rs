//! A separate migrated database for each test, and rows to fill it with.

use std::{
    sync::atomic::{AtomicI64, Ordering},
    time::Duration,
};

use chrono::{DateTime, TimeDelta, Utc};
use coupon::{
    Admission, Claim, ClaimId, CouponId, Discount, DiscountKind, Epoch, LandedClaim, LandedCoupon,
    MerchantId, PayloadHash, RequestId, Template, TemplateId, TemplateState, UserId, Validity,
    Window,
};
use devstack::TestServers;
use mysql_store::{
    MySqlConnection, connect,
    landing::{self, Attempt, Landing},
    migrate, template,
};
use sqlx::Row;

pub(crate) const MERCHANT: MerchantId = MerchantId(1);
pub(crate) const TEMPLATE: TemplateId = TemplateId(10);
pub(crate) const USER: UserId = UserId(70);

/// The epoch of a new template.
pub(crate) const EPOCH: Epoch = Epoch(1);

/// Longest wait for another connection's next step.
const SOON: Duration = Duration::from_secs(10);

/// Interval between checks of another connection.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Source of ids that a test does not choose itself.
static NEXT_ID: AtomicI64 = AtomicI64::new(1_000_000);

pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) connection: MySqlConnection,
}

impl Store {
    pub(crate) async fn new(name: &str) -> Self {
        let url = TestServers::shared().scope(name).endpoints.database_url;
        migrate::run(&url).await.unwrap();
        let connection = connect::single(&url).await.unwrap();
        Self { url, connection }
    }

    /// Creates a database with [`TEMPLATE`] published and a stock of `stock` coupons.
    pub(crate) async fn with_template(name: &str, stock: i64) -> Self {
        let mut store = Self::new(name).await;
        store.publish(TEMPLATE, stock).await;
        store
    }

    pub(crate) async fn publish(&mut self, id: TemplateId, stock: i64) {
        let template = draft(id);
        template::create(&mut self.connection, &template, stock, "test", now()).await.unwrap();
        let next = TemplateState::Published;
        assert!(
            template::change_state(&mut self.connection, &template, next, now()).await.unwrap()
        );
    }

    pub(crate) async fn another(&self) -> MySqlConnection {
        connect::single(&self.url).await.unwrap()
    }

    pub(crate) async fn land(&mut self, landings: &[Landing]) -> Attempt {
        landing::land(&mut self.connection, landings).await.unwrap()
    }

    /// Returns the stock left in the template's stock row.
    pub(crate) async fn left(&mut self, template: TemplateId) -> i64 {
        number(
            &mut self.connection,
            &format!("select stock from template_stock where template_id = {template}"),
        )
        .await
    }

    /// Returns the number of claims and of coupons.
    pub(crate) async fn counts(&mut self) -> (i64, i64) {
        let claims = number(&mut self.connection, "select count(*) from claim").await;
        (claims, number(&mut self.connection, "select count(*) from user_coupon").await)
    }
}

pub(crate) async fn execute(connection: &mut MySqlConnection, sql: &str) {
    try_execute(connection, sql).await.unwrap();
}

pub(crate) async fn try_execute(
    connection: &mut MySqlConnection,
    sql: &str,
) -> Result<u64, sqlx::Error> {
    let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(connection).await?;
    Ok(done.rows_affected())
}

/// Returns the number that a statement selects.
pub(crate) async fn number(connection: &mut MySqlConnection, sql: &str) -> i64 {
    let row = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await.unwrap();
    row.try_get_unchecked(0).unwrap()
}

/// Returns the server's id of a connection.
pub(crate) async fn id_of(connection: &mut MySqlConnection) -> i64 {
    number(connection, "select connection_id()").await
}

/// Waits until the connection with this id waits for a locked row.
pub(crate) async fn waits_for_a_row(connection: &mut MySqlConnection, id: i64) {
    // Not `innodb_trx`: it repeats an answer for 100 ms.
    let thread = format!("thread id {id},");
    let waits = async {
        loop {
            let status = sqlx::raw_sql("show engine innodb status");
            let row = status.fetch_one(&mut *connection).await.unwrap();
            let text: String = row.try_get_unchecked("Status").unwrap();
            let mut transactions = text.split("---TRANSACTION");
            if transactions.any(|one| one.contains(&thread) && one.contains("LOCK WAIT")) {
                return;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(SOON, waits).await.unwrap();
}

/// Waits until the connection with this id waits for a locked table.
pub(crate) async fn waits_for_a_table(connection: &mut MySqlConnection, id: i64) {
    let sql = format!(
        "select count(*) from information_schema.processlist \
         where id = {id} and state = 'Waiting for table metadata lock'"
    );
    let waits = async {
        while number(connection, &sql).await != 1 {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(SOON, waits).await.unwrap();
}

/// The tests' current time: in the servers' future, since some rules depend on both clocks.
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(4_000_000_000_123).unwrap()
}

/// A template as an operator sends it.
pub(crate) fn draft(id: TemplateId) -> Template {
    Template {
        id,
        merchant_id: MERCHANT,
        name: "Zehn % 券".to_owned(),
        discount: Discount {
            kind: DiscountKind::PercentOff,
            value: 1_000,
            cap: Some(500),
            minimum_spend: 2_000,
            currency: "EUR".to_owned(),
        },
        per_user_limit: 5,
        max_per_claim: 5,
        window: Window {
            starts_at: now() - TimeDelta::hours(1),
            ends_at: now() + TimeDelta::hours(1),
        },
        validity: Validity::Relative { valid_for: TimeDelta::days(1) },
        self_redeem: false,
        state: TemplateState::Draft,
        version: 1,
    }
}

/// An admission of [`USER`] for [`TEMPLATE`] with its own rows, for tests to modify.
pub(crate) fn landing(key: &str, numbers: &[u8]) -> Landing {
    landing_of(TEMPLATE, USER, key, numbers)
}

pub(crate) fn landing_of(
    template_id: TemplateId,
    user_id: UserId,
    key: &str,
    numbers: &[u8],
) -> Landing {
    let quantity = u32::try_from(numbers.len()).unwrap();
    let claim = Claim {
        id: ClaimId(next_id()),
        template_id,
        user_id,
        request_id: RequestId::from_client(key).unwrap(),
        payload_hash: PayloadHash::of_quantity(quantity),
        quantity,
        claimed_at: now(),
        trace_parent: Some("00-trace-01".to_owned()),
    };
    let coupon =
        |number: &u8| LandedCoupon { id: CouponId(next_id()), claim_no: i64::from(*number) };
    let landed = LandedClaim {
        id: claim.id,
        template_id,
        user_id,
        payload_hash: claim.payload_hash,
        claimed_at: claim.claimed_at,
        valid_from: now(),
        valid_until: now() + TimeDelta::days(1),
        coupons: numbers.iter().map(coupon).collect(),
    };
    let admission = Admission { claim, epoch: EPOCH, numbers: numbers.to_vec() };
    Landing { admission, merchant_id: MERCHANT, terms: 1, landed }
}

/// Gives the admission another id.
pub(crate) fn set_id(landing: &mut Landing, id: ClaimId) {
    landing.admission.claim.id = id;
    landing.landed.id = id;
}

pub(crate) fn next_id() -> i64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}
