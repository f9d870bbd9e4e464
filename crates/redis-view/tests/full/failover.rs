//! A Redis that failed over or restarted may lack writes that it acknowledged, so its older views are not trusted,
//! whatever they hold.

use std::{
    ops::RangeInclusive,
    sync::{Arc, Mutex},
    time::Duration,
};

use devstack::{OwnRedis, TestServers, at_last};
use redis::aio::MultiplexedConnection;
use redis_view::{Applied, GenerationsFuture, PageAnswer, ViewError, ViewStore};
use testkit::Proxy;

use crate::harness::{USER, first, rebuild, send, unused, used};

/// Longest wait for a running server.
const AT_LAST: Duration = Duration::from_secs(30);

/// Generations as MySQL keeps them: a slot gets a new one when its server changes.
#[derive(Default)]
struct Generations {
    /// For each slot, its server's run id and the generation of its views.
    of: Vec<(String, i64)>,
    highest: i64,
}

/// The state that all processes of a platform share.
#[derive(Clone, Default)]
pub(crate) struct Platform {
    generations: Arc<Mutex<Generations>>,
}

impl Platform {
    /// Starts another process.
    pub(crate) async fn process(&self, url: &str) -> Result<ViewStore, ViewError> {
        let stored = Arc::clone(&self.generations);
        let generations_of = Box::new(move |served: Vec<_>| -> GenerationsFuture {
            let met = stored.lock().unwrap().meet(served);
            Box::pin(async move { Ok(met) })
        });
        ViewStore::connect(url, "", generations_of).await
    }

    /// The highest generation so far.
    pub(crate) fn number(&self) -> i64 {
        self.generations.lock().unwrap().highest
    }
}

impl Generations {
    fn meet(
        &mut self,
        served: Vec<(RangeInclusive<u16>, String)>,
    ) -> Vec<(RangeInclusive<u16>, i64)> {
        let next = self.highest + 1;
        let known = std::mem::take(&mut self.of);
        for (slots, run) in served {
            for slot in slots {
                let same = known.get(usize::from(slot)).filter(|(before, _)| *before == run);
                let generation = same.map_or(next, |(_, generation)| *generation);
                self.highest = self.highest.max(generation);
                self.of.push((run.clone(), generation));
            }
        }
        (0..).zip(&self.of).map(|(slot, (_, generation))| (slot..=slot, *generation)).collect()
    }
}

async fn own(name: &str, settings: &[&str]) -> (OwnRedis, MultiplexedConnection) {
    let server = OwnRedis::view(&TestServers::shared().scope(name).database, settings).await;
    let server = server.unwrap();
    let redis = redis::Client::open(server.url()).unwrap();
    let redis = redis.get_multiplexed_async_connection().await.unwrap();
    (server, redis)
}

/// A master and its replica.
struct Pair {
    master: (OwnRedis, MultiplexedConnection),
    replica: (OwnRedis, MultiplexedConnection),
}

impl Pair {
    async fn start(name: &str) -> Self {
        let master = own(name, &["--repl-diskless-sync-delay", "0"]).await;
        let replica = own(name, &[]).await;
        let mut pair = Self { master, replica };
        let (host, port) = pair.address_of_master();
        send(&mut pair.replica.1, &["REPLICAOF", &host, &port]).await;
        pair
    }

    fn address_of_master(&self) -> (String, String) {
        let address = self.master.0.server.address();
        (address.ip().to_string(), address.port().to_string())
    }

    /// Waits until the replica has acknowledged every write so far.
    async fn in_step(&mut self) {
        let caught_up = async {
            // WAIT covers only the writes of its own connection.
            send(&mut self.master.1, &["SET", "mark", "1"]).await;
            while send(&mut self.master.1, &["WAIT", "1", "100"]).await != redis::Value::Int(1) {}
        };
        tokio::time::timeout(AT_LAST, caught_up).await.unwrap();
    }
}

/// Reads a page until the view answers: the first call may fail on the dead connection, and later ones during the pause
/// between attempts to connect.
pub(crate) async fn ask(store: &ViewStore) -> PageAnswer {
    at_last(async || store.page(USER, &first(10)).await).await
}

/// A view with one unused coupon on a master, and a replica with the same data that was just promoted. The proxy
/// still leads to the old master.
async fn promoted(platform: &Platform, name: &str) -> (Pair, Proxy, ViewStore) {
    let mut pair = Pair::start(name).await;
    let master = pair.master.0.url();
    let proxy = Proxy::before(&master).await;
    let store = platform.process(&proxy.instead_of(&master)).await.unwrap();
    rebuild(&store, &[unused(1)]).await;
    pair.in_step().await;
    send(&mut pair.replica.1, &["REPLICAOF", "NO", "ONE"]).await;
    (pair, proxy, store)
}

#[tokio::test]
async fn a_promoted_replica_that_lacks_a_write_shows_nobody_the_used_coupon() {
    let platform = Platform::default();
    let (pair, proxy, store) = promoted(&platform, "promoted").await;
    // Only the old master acknowledges this.
    assert_eq!(store.apply(USER, &[used(1)]).await.unwrap(), [Applied::Applied]);

    proxy.lead_to(pair.replica.0.server.address());
    proxy.cut();
    assert_eq!(ask(&store).await, PageAnswer::Cold);
    assert_eq!(platform.number(), 2);
    let contents = store.contents(USER).await.unwrap();
    assert!(!contents.trusted && contents.list.contains_key("1_1"), "it is there, not believed");
    // Replayed changes do not make the old view trusted either.
    assert_eq!(store.apply(USER, &[unused(1)]).await.unwrap(), [Applied::Cold]);
    rebuild(&store, &[used(1)]).await;
    assert!(matches!(ask(&store).await, PageAnswer::Page(page) if page.coupons.is_empty()));
}

#[tokio::test]
async fn a_master_that_became_a_replica_answers_no_page_on_connections_that_stand() {
    let platform = Platform::default();
    let (mut pair, proxy, store) = promoted(&platform, "demoted").await;
    let new = pair.replica.0.server.address();
    let host = new.ip().to_string();
    let port = new.port().to_string();
    send(&mut pair.master.1, &["REPLICAOF", &host, &port]).await;

    let error = store.page(USER, &first(10)).await.unwrap_err();
    assert!(matches!(error, ViewError::Command { .. }), "{error:?}");
    // While the proxy leads to the replica, it is refused and the generation stays.
    let error = platform.process(&proxy.instead_of(&pair.master.0.url())).await.err().unwrap();
    assert!(error.to_string().contains("point VIEW_REDIS_URL at the master"), "{error}");
    assert_eq!(platform.number(), 1);
    proxy.lead_to(new);
    assert_eq!(ask(&store).await, PageAnswer::Cold);
    assert_eq!(platform.number(), 2);
}

#[tokio::test]
async fn a_server_that_started_again_is_another_generation_even_with_all_its_data() {
    let kept = ["--appendonly", "yes", "--appendfsync", "always"];
    let (mut own, _) = own("started again", &kept).await;
    let platform = Platform::default();
    let store = platform.process(&own.url()).await.unwrap();
    rebuild(&store, &[unused(1)]).await;
    own.server.kill().unwrap();
    own.server.start().await.unwrap();
    assert_eq!(ask(&store).await, PageAnswer::Cold);
    assert_eq!(platform.number(), 2);
    assert!(store.contents(USER).await.unwrap().list.contains_key("1_1"));
}

/// A process that learned of the new generation late must not keep the old one.
#[tokio::test]
async fn a_reader_that_meets_a_view_of_a_later_generation_asks_for_it_again() {
    let (own, _) = own("late reader", &[]).await;
    let platform = Platform::default();
    let late = platform.process(&own.url()).await.unwrap();
    for (_, generation) in &mut platform.generations.lock().unwrap().of {
        *generation = 2;
    }
    let other = platform.process(&own.url()).await.unwrap();
    rebuild(&other, &[unused(1)]).await;
    let request = first(10);
    assert_eq!(late.page(USER, &request).await.unwrap(), PageAnswer::Cold);
    let begun = late.begin(USER, crate::harness::now()).await.unwrap();
    assert_eq!(begun, redis_view::Begun::Outdated);
    assert!(matches!(late.page(USER, &request).await.unwrap(), PageAnswer::Page(_)));
}
