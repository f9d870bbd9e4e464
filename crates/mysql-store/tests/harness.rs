//! A separate migrated database for each test, and rows to fill it with.

use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, Utc};
use coupon::{
    AcceptedClaims, Admission, Claim, ClaimId, ClaimMode, CouponId, Discount, DiscountKind, Epoch,
    LandingMode, Template, TemplateId, TemplateState, UserId,
};
use devstack::TestServers;
use mysql_store::{
    Listed, MySqlConnection, connect,
    landing::{self, Attempt, Landing},
    template, verify,
};
use sqlx::Row;
pub(crate) use testkit::MERCHANT;
use testkit::{until_listed, until_true};

pub(crate) const TEMPLATE: TemplateId = TemplateId(10);
pub(crate) const USER: UserId = UserId(70);

/// The epoch of a new template.
pub(crate) const EPOCH: Epoch = Epoch(1);

/// Source of ids that a test does not choose itself.
static NEXT_ID: AtomicI64 = AtomicI64::new(1_000_000);

pub(crate) struct Store {
    pub(crate) url: String,
    pub(crate) connection: MySqlConnection,
}

impl Store {
    pub(crate) async fn new(name: &str) -> Self {
        Self::at(TestServers::shared().scope(name).endpoints.database_url).await
    }

    async fn at(url: String) -> Self {
        verify::copy_schema(&url).await.unwrap();
        let connection = connect::single(&url).await.unwrap();
        Self { url, connection }
    }

    /// Creates a database with [`TEMPLATE`] published and a stock of `stock` coupons.
    pub(crate) async fn with_template(name: &str, stock: i64) -> Self {
        let mut store = Self::new(name).await;
        store.publish(TEMPLATE, stock).await;
        store
    }

    /// Like [`Self::with_template`], with claims that are queued.
    pub(crate) async fn with_queue(name: &str, stock: i64) -> Self {
        let mut store = Self::new(name).await;
        let template = Template { claim_mode: ClaimMode::Queued, ..draft(TEMPLATE) };
        store.publish_as(&template, stock).await;
        store
    }

    pub(crate) async fn publish(&mut self, id: TemplateId, stock: i64) {
        self.publish_as(&draft(id), stock).await;
    }

    pub(crate) async fn publish_as(&mut self, template: &Template, stock: i64) {
        template::create(&mut self.connection, template, stock, "test", now()).await.unwrap();
        let next = TemplateState::Published;
        assert!(template::change_state(&mut self.connection, template, next, now()).await.unwrap());
    }

    /// Changes the state of [`TEMPLATE`].
    pub(crate) async fn change(&mut self, next: TemplateState, accepted: AcceptedClaims) {
        let connection = &mut self.connection;
        let current = template::get(connection, TEMPLATE).await.unwrap().unwrap();
        let changed = template::change_state_with(connection, &current, next, accepted, now());
        assert!(changed.await.unwrap());
    }

    pub(crate) async fn another(&self) -> MySqlConnection {
        connect::single(&self.url).await.unwrap()
    }

    pub(crate) async fn land(&mut self, landings: &[Landing]) -> Attempt {
        landing::land(&mut self.connection, LandingMode::Direct, landings).await.unwrap()
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

/// Returns the rows of a list, of which all can be read.
pub(crate) fn read<T, P>(listed: Vec<Listed<T, P>>) -> Vec<T> {
    let count = listed.len();
    let rows: Vec<T> = listed.into_iter().filter_map(Listed::into_row).collect();
    assert_eq!(rows.len(), count, "rows that cannot be read");
    rows
}

/// Returns the number that a statement selects.
pub(crate) async fn number(connection: &mut MySqlConnection, sql: &str) -> i64 {
    let row = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await.unwrap();
    row.try_get_unchecked(0).unwrap()
}

/// Returns the sum of the counters of a connection whose names are like `pattern`.
pub(crate) async fn session_status(connection: &mut MySqlConnection, pattern: &str) -> i64 {
    let sql = format!("show session status like '{pattern}'");
    let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_all(connection).await.unwrap();
    let value = |row: &sqlx::mysql::MySqlRow| -> i64 {
        let text: String = row.try_get_unchecked(1).unwrap();
        text.parse().unwrap()
    };
    rows.iter().map(value).sum()
}

/// Returns the server's id of a connection.
pub(crate) async fn id_of(connection: &mut MySqlConnection) -> i64 {
    number(connection, "select connection_id()").await
}

/// Waits until the connection with this id waits for a locked row.
pub(crate) async fn waits_for_a_row(connection: &mut MySqlConnection, id: i64) {
    // Not `innodb_trx`: it repeats an answer for 100 ms.
    let thread = format!("thread id {id},");
    until_true(async || {
        let status = sqlx::raw_sql("show engine innodb status");
        let row = status.fetch_one(&mut *connection).await.unwrap();
        let text: String = row.try_get_unchecked("Status").unwrap();
        let mut transactions = text.split("---TRANSACTION");
        transactions.any(|one| one.contains(&thread) && one.contains("LOCK WAIT"))
    })
    .await;
}

/// Waits until the connection with this id waits for a locked table.
pub(crate) async fn waits_for_a_table(connection: &mut MySqlConnection, id: i64) {
    let waits = format!("id = {id} and state = 'Waiting for table metadata lock'");
    until_listed(async || verify::sessions(connection, &waits).await.unwrap()).await;
}

/// The tests' current time: in the servers' future, since some rules depend on both clocks.
pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(4_000_000_000_123).unwrap()
}

/// A template as an operator sends it.
pub(crate) fn draft(id: TemplateId) -> Template {
    Template {
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
        ..testkit::draft(id, now())
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
        trace_parent: Some("00-trace-01".to_owned()),
        ..testkit::claim(ClaimId(next_id()), template_id, user_id, key, quantity, now())
    };
    let coupons = numbers.iter().map(|number| (CouponId(next_id()), i64::from(*number)));
    let landed = testkit::landed(&claim, coupons);
    let admission = Admission { claim, epoch: EPOCH, numbers: numbers.to_vec() };
    Landing {
        admission,
        merchant_id: MERCHANT,
        terms: 1,
        landed,
        admitted_at: None,
        left_after: None,
    }
}

/// Stock that the gate had left behind each queued claim.
pub(crate) const LEFT_AFTER: i64 = 9;

/// The same admission behind a queue.
pub(crate) fn queued(landing: Landing) -> Landing {
    Landing {
        admitted_at: Some(landing.admission.claim.claimed_at),
        left_after: Some(LEFT_AFTER),
        ..landing
    }
}

/// Gives the admission another id.
pub(crate) fn set_id(landing: &mut Landing, id: ClaimId) {
    landing.admission.claim.id = id;
    landing.landed.id = id;
}

pub(crate) fn next_id() -> i64 {
    NEXT_ID.fetch_add(1, Ordering::Relaxed)
}
