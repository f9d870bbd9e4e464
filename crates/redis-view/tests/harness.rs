//! A separate view for each test, and ways to damage it.

use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

use chrono::{DateTime, Utc};
use coupon::{ClaimId, CouponId, CouponStatus, TemplateId, UserId};
use devstack::TestServers;
use redis::aio::MultiplexedConnection;
use redis_view::{Begun, Change, PageAnswer, PageRequest, ViewCoupon, ViewStore, keys};
use testkit::Proxy;

/// The tests' current time, in milliseconds since 1970.
pub(crate) const NOW_MS: i64 = 1_800_000_000_000;

/// Remaining validity of the tests' coupons, in milliseconds.
const VALID_MS: i64 = 1_000_000;

/// The user of most tests.
pub(crate) const USER: UserId = UserId(7);

pub(crate) struct TestView {
    pub(crate) store: ViewStore,
    pub(crate) redis: MultiplexedConnection,
    pub(crate) generation: Arc<AtomicI64>,
    /// Counts the connections of `store`.
    connections: Arc<AtomicU64>,
    url: String,
    prefix: String,
}

impl TestView {
    pub(crate) async fn new(name: &str) -> Self {
        let scope = TestServers::shared().scope(name);
        Self::on(scope.endpoints.view_redis_url, scope.key_prefix).await
    }

    /// Opens a view on any Redis.
    pub(crate) async fn on(url: String, prefix: String) -> Self {
        let generation = Arc::new(AtomicI64::new(1));
        let redis = redis::Client::open(url.as_str()).unwrap();
        let redis = redis.get_multiplexed_async_connection().await.unwrap();
        let connections = Arc::default();
        let store = connect(&url, &prefix, &generation, &connections).await;
        Self { store, redis, generation, connections, url, prefix }
    }

    /// Connects another process to the same view.
    pub(crate) async fn another(&self) -> ViewStore {
        connect(&self.url, &self.prefix, &self.generation, &Arc::default()).await
    }

    /// Connects another process, through a connection that the test can cut.
    pub(crate) async fn through_a_proxy(&self) -> (ViewStore, Proxy) {
        let proxy = Proxy::before(&self.url).await;
        let url = proxy.instead_of(&self.url);
        (connect(&url, &self.prefix, &self.generation, &Arc::default()).await, proxy)
    }

    pub(crate) fn list(&self) -> String {
        keys::list(&self.prefix, USER)
    }

    pub(crate) fn coupons(&self) -> String {
        keys::coupons(&self.prefix, USER)
    }

    /// Both keys of a user.
    pub(crate) fn keys_of(&self, user: UserId) -> [String; 2] {
        [keys::list(&self.prefix, user), keys::coupons(&self.prefix, user)]
    }

    pub(crate) async fn send(&self, words: &[&str]) {
        send(&mut self.redis.clone(), words).await;
    }

    /// Sends a command whose words need not be text.
    pub(crate) async fn send_bytes(&self, words: &[&[u8]]) {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.exec_async(&mut self.redis.clone()).await.unwrap();
    }

    /// How often the store has connected.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.load(Ordering::SeqCst)
    }

    /// Returns the key's value in `DUMP` format, or `None` if it is absent.
    pub(crate) async fn dump(&self, key: &str) -> Option<Vec<u8>> {
        redis::cmd("DUMP").arg(key).query_async(&mut self.redis.clone()).await.unwrap()
    }

    /// Returns the work of a server that serves this test alone.
    pub(crate) async fn costs(&self) -> Costs {
        let info: redis::InfoDict =
            redis::cmd("INFO").arg("all").query_async(&mut self.redis.clone()).await.unwrap();
        // `calls=7,usec=…`
        let calls = |command: &str| {
            let found: Option<String> = info.get(&format!("cmdstat_{command}"));
            let calls = found.and_then(|text| {
                text.strip_prefix("calls=")?.split(',').next()?.parse::<u64>().ok()
            });
            calls.unwrap_or_default()
        };
        Costs {
            list_reads: calls("zrevrange") + calls("zrangebyscore") + calls("zrevrangebyscore"),
            hash_reads: calls("hget") + calls("hmget"),
            script_calls: calls("evalsha"),
            bytes_sent: info.get("total_net_output_bytes").unwrap_or_default(),
        }
    }

    /// Rebuilds the user's view with these rows.
    pub(crate) async fn rebuild(&self, rows: &[Change]) {
        rebuild(&self.store, rows).await;
    }

    pub(crate) async fn ask(&self) -> PageAnswer {
        self.store.page(USER, &first(100)).await.unwrap()
    }

    /// Returns the ids on the first page of a view that must be whole.
    pub(crate) async fn shown(&self) -> Vec<i64> {
        match self.ask().await {
            PageAnswer::Page(page) => page.coupons.iter().map(|coupon| coupon.id.0).collect(),
            other => panic!("{other:?}"),
        }
    }
}

/// A server's counters of work.
pub(crate) struct Costs {
    pub(crate) list_reads: u64,
    pub(crate) hash_reads: u64,
    pub(crate) script_calls: u64,
    pub(crate) bytes_sent: u64,
}

async fn connect(
    url: &str,
    prefix: &str,
    generation: &Arc<AtomicI64>,
    connections: &Arc<AtomicU64>,
) -> ViewStore {
    let generation = Arc::clone(generation);
    let connections = Arc::clone(connections);
    let generations_of = Box::new(move |_served| -> redis_view::GenerationsFuture {
        connections.fetch_add(1, Ordering::SeqCst);
        let generation = generation.load(Ordering::SeqCst);
        Box::pin(async move { Ok(vec![(0..=u16::MAX, generation)]) })
    });
    ViewStore::connect(url, prefix, generations_of).await.unwrap()
}

pub(crate) async fn send(redis: &mut MultiplexedConnection, words: &[&str]) -> redis::Value {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(word);
    }
    command.query_async(redis).await.unwrap()
}

/// Rebuilds the user's view with these rows.
pub(crate) async fn rebuild(store: &ViewStore, rows: &[Change]) {
    let Begun::Begun(nonce) = store.begin(USER, now()).await.unwrap() else {
        panic!("the view is not cold");
    };
    assert!(store.load(USER, nonce, rows, now()).await.unwrap());
    assert!(store.complete(USER, nonce).await.unwrap());
}

pub(crate) fn now() -> DateTime<Utc> {
    DateTime::from_timestamp_millis(NOW_MS).unwrap()
}

pub(crate) fn first(limit: usize) -> PageRequest {
    PageRequest { limit, cursor: None, after: None, now: now() }
}

/// Version 1 of coupon `id`, claimed `id` milliseconds after 1970 began.
pub(crate) fn unused(id: i64) -> Change {
    let time = |ms| DateTime::from_timestamp_millis(ms).unwrap();
    let coupon = ViewCoupon {
        id: CouponId(id),
        template_id: TemplateId(1),
        claim_no: 1,
        claim_id: ClaimId(id),
        claimed_at: time(id),
        valid_from: time(0),
        valid_until: time(NOW_MS + VALID_MS),
    };
    Change { coupon, status: CouponStatus::Unused, version: 1 }
}

/// Version 2 of coupon `id`: used.
pub(crate) fn used(id: i64) -> Change {
    Change { status: CouponStatus::Used, version: 2, ..unused(id) }
}
