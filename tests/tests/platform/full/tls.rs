//! Every connection to a server uses TLS, and the gate is found by sentinels.

use coupon::UserId;
use devstack::{
    Certificates, Endpoints, Flavor, OwnBroker, OwnDatabase, OwnPair, OwnRedis, TestServers,
    free_port,
};
use pipeline_tests::{World, histories};
use shopper::{NewTemplate, Wish};

/// Users of one wave: enough that the gate's master dies in the middle of it.
const WAVE: i64 = 600;

/// Servers reachable by TLS; the platform gets only their addresses.
struct ByTls {
    _database: OwnDatabase,
    gate: OwnPair,
    _view: OwnRedis,
    _kafka: OwnBroker,
    endpoints: Endpoints,
    _certificates: Certificates,
}

impl ByTls {
    async fn start() -> Self {
        let certificates = Certificates::make("tls-ca").unwrap();
        let ca = certificates.ca();
        let certificate = certificates.certificate();
        let settings = [
            format!("--ssl-cert={certificate}"),
            format!("--ssl-key={}", certificates.key()),
            "--require-secure-transport=ON".to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let database =
            OwnDatabase::start("tls-database", Flavor::Mariadb, &settings).await.unwrap();
        let fit = ["--maxmemory-policy", "noeviction"];
        let gate = OwnPair::start("tls-gate", &fit).await.unwrap();
        let view_port = free_port().unwrap();
        let settings = certificates.redis_settings(view_port);
        let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
        let view = OwnRedis::view("tls-view", &settings).await.unwrap();
        let (kafka, kafka_port) = OwnBroker::with_tls("tls-kafka", &certificates).await.unwrap();
        let endpoints = Endpoints {
            database_url: format!("{}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}", database.url()),
            gate_redis_url: gate.url(),
            view_redis_url: format!("rediss://127.0.0.1:{view_port}?ssl-ca={ca}"),
            kafka_brokers: format!("ssl://127.0.0.1:{kafka_port}?ssl-ca={ca}"),
        };
        let _database = database;
        let _view = view;
        let _kafka = kafka;
        let _certificates = certificates;
        Self { _database, gate, _view, _kafka, endpoints, _certificates }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn coupons_go_all_their_way_by_tls_and_a_gate_that_fails_over_sells_exactly_the_stock() {
    let mut servers = ByTls::start().await;
    let at = TestServers::at(servers.endpoints.clone());
    let world = World::start_on(&at, "tls", |options| options).await;
    let lasting = world.template(2 * WAVE, |new| new).await;
    let brief = world.template(WAVE, |new| NewTemplate { valid_for_ms: 1_000, ..new }).await;
    world.warm_views((1..=WAVE).step_by(10)).await;
    let ended: Vec<Wish> = (1..=WAVE).map(|user| Wish::one(brief, UserId(user))).collect();
    let mut runs = vec![world.crowd().run(ended).await.unwrap()];

    let wishes: Vec<Wish> =
        (1..=2 * WAVE + 50).map(|user| Wish::one(lasting, UserId(user))).collect();
    let crowd = world.crowd();
    let wave = tokio::spawn(async move { crowd.run(wishes).await.unwrap() });
    world.until(lasting, |counts| counts.all() > WAVE / 4).await;
    servers.gate.master.server.kill().unwrap();
    assert!(!wave.is_finished(), "the master should have died under load");
    runs.push(wave.await.unwrap());

    assert!(runs.iter().all(|run| run.given_up == 0));
    assert_eq!(world.count(lasting).await.all(), 2 * WAVE);
    assert_eq!(world.until(brief, |counts| counts.unused == 0).await.expired, WAVE);
    world.assert_sound(Some(&histories(runs))).await;
    world.end().await;
}
