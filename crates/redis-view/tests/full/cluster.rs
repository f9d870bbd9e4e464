//! A view on a cluster keeps the guarantees of a single server while masters die, slots move, and nodes join.

use coupon::UserId;
use devstack::{OwnCluster, OwnRedis, TestServers, at_last};
use redis::{RedisResult, aio::MultiplexedConnection};
use redis_view::{Applied, Begun, Change, PageAnswer, ViewStore, keys};
use testkit::until_true;

use crate::{
    full::failover::Platform,
    harness::{USER, first, now, unused, used},
};

/// Enough users that each of three masters has some.
const USERS: std::ops::Range<i64> = 1..100;

async fn start(name: &str) -> OwnCluster {
    OwnCluster::start(&TestServers::shared().scope(name).database, &[]).await.unwrap()
}

/// Rebuilds a user's view with these rows.
async fn rebuild(store: &ViewStore, user: UserId, rows: &[Change]) {
    let begun = at_last(async || store.begin(user, now()).await).await;
    let Begun::Begun(nonce) = begun else { panic!("{begun:?}") };
    assert!(store.load(user, nonce, rows, now()).await.unwrap());
    assert!(store.complete(user, nonce).await.unwrap());
}

/// Returns the ids on the user's page, or `None` if the view is cold.
async fn shown(store: &ViewStore, user: UserId) -> Option<Vec<i64>> {
    match at_last(async || store.page(user, &first(10)).await).await {
        PageAnswer::Page(page) => Some(page.coupons.iter().map(|coupon| coupon.id.0).collect()),
        PageAnswer::Cold => None,
        PageAnswer::Unknown => panic!("nobody asked for a coupon"),
    }
}

/// A node, for an operator's commands.
struct Node(MultiplexedConnection);

impl Node {
    async fn of(view: &OwnRedis) -> Self {
        let client = redis::Client::open(view.url()).unwrap();
        Self(client.get_multiplexed_async_connection().await.unwrap())
    }

    async fn send<T: redis::FromRedisValue>(&mut self, words: &[&str]) -> RedisResult<T> {
        redis::cmd(words[0]).arg(&words[1..]).query_async(&mut self.0).await
    }

    async fn id(&mut self) -> String {
        self.send(&["CLUSTER", "MYID"]).await.unwrap()
    }
}

/// Returns the index of the node that has the user's slot.
async fn owner(cluster: &OwnCluster, user: UserId) -> usize {
    for (place, view) in cluster.nodes.iter().enumerate() {
        if Node::of(view).await.send::<i64>(&["EXISTS", &keys::list("", user)]).await.is_ok() {
            return place;
        }
    }
    panic!("nobody has the slot of {user}");
}

/// A slot that moves from one master to another.
struct Move {
    slot: String,
    from: Node,
    to: Node,
    port: String,
}

impl Move {
    async fn begin(from: &OwnRedis, to: &OwnRedis, user: UserId) -> Self {
        let port = to.server.address().port().to_string();
        let mut from = Node::of(from).await;
        let mut to = Node::of(to).await;
        let slot: i64 = from.send(&["CLUSTER", "KEYSLOT", &keys::list("", user)]).await.unwrap();
        let slot = slot.to_string();
        let old = from.id().await;
        let new = to.id().await;
        to.send::<()>(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &old]).await.unwrap();
        from.send::<()>(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &new]).await.unwrap();
        Self { slot, from, to, port }
    }

    async fn key(&mut self, key: &str) {
        let words = ["MIGRATE", "127.0.0.1", &self.port, key, "0", "5000"];
        self.from.send::<()>(&words).await.unwrap();
    }

    async fn view(&mut self) {
        self.key(&keys::list("", USER)).await;
        self.key(&keys::coupons("", USER)).await;
    }

    async fn end(mut self) {
        let new = self.to.id().await;
        for node in [&mut self.to, &mut self.from] {
            node.send::<()>(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &new]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn many_users_changes_go_to_all_masters_at_once_and_their_answers_come_in_order() {
    let cluster = start("view cluster").await;
    let platform = Platform::default();
    let store = platform.process(&cluster.url()).await.unwrap();
    let cold = UserId(USERS.end);
    for user in USERS {
        rebuild(&store, UserId(user), &[unused(user)]).await;
    }
    // One master has lost the scripts.
    Node::of(&cluster.nodes[1]).await.send::<()>(&["SCRIPT", "FLUSH"]).await.unwrap();
    let new: Vec<_> = USERS.map(|user| [unused(1000 + user), unused(user)]).collect();
    let mut changes: Vec<_> =
        USERS.zip(&new).map(|(user, changes)| (UserId(user), &changes[..])).collect();
    changes.insert(7, (cold, &new[0]));
    let mut expected = vec![vec![Applied::Applied, Applied::NotNewer]; new.len()];
    expected.insert(7, vec![Applied::Cold; 2]);
    assert_eq!(store.apply_all(&changes).await.unwrap(), expected);
    changes.remove(7);

    for place in 0..3 {
        let mut node = Node::of(&cluster.nodes[place]).await;
        let found: Vec<String> = node.send(&["KEYS", "*:list"]).await.unwrap();
        let user = found[0].split(['{', '}']).nth(1).unwrap().parse::<i64>().unwrap();
        let key = keys::list("", UserId(user));
        let member = format!("1_{}", 1000 + user);
        assert_eq!(node.send::<i64>(&["ZREM", &key, &member]).await.unwrap(), 1);
    }
    assert_eq!(store.read_back_all(&changes).await.unwrap(), 3);
    assert_eq!(store.users().await.unwrap(), USERS.map(UserId).collect::<Vec<_>>());
    for user in USERS {
        assert_eq!(shown(&store, UserId(user)).await, Some(vec![1000 + user, user]));
        assert!(store.contents(UserId(user)).await.unwrap().trusted);
    }
    assert_eq!(store.drop_all().await.unwrap(), new.len());
    // Dropping reconnects, even right after another reconnect.
    assert_eq!(store.drop_all().await.unwrap(), 0);
    for user in USERS {
        assert_eq!(shown(&store, UserId(user)).await, None);
    }
}

#[tokio::test]
async fn the_views_of_a_master_that_dies_are_cold_on_its_replica_and_the_others_stay_warm() {
    let mut cluster = start("view cluster failover").await;
    let platform = Platform::default();
    let store = platform.process(&cluster.url()).await.unwrap();
    let dying = owner(&cluster, USER).await;
    let mut others = Vec::new();
    for user in USERS.map(UserId) {
        rebuild(&store, user, &[unused(user.0)]).await;
        if owner(&cluster, user).await != dying {
            others.push(user);
        }
    }
    assert!(!others.is_empty());
    cluster.nodes[dying].server.kill().unwrap();
    assert_eq!(shown(&store, USER).await, None);
    assert_eq!(platform.number(), 2);
    for user in others {
        assert_eq!(shown(&store, user).await, Some(vec![user.0]));
    }
    cluster.nodes.remove(dying);
    assert!(owner(&cluster, USER).await >= 2, "one of the three replicas has the slot now");
    rebuild(&store, USER, &[used(1), unused(2)]).await;
    assert_eq!(shown(&store, USER).await, Some(vec![2]));
}

#[tokio::test]
async fn a_slot_that_moves_takes_no_view_along_that_missed_a_change() {
    let cluster = start("view cluster move").await;
    let platform = Platform::default();
    let store = platform.process(&cluster.url()).await.unwrap();
    rebuild(&store, USER, &[unused(1), unused(2)]).await;
    let from = owner(&cluster, USER).await;
    let to = (from + 1) % 3;
    let mut moving = Move::begin(&cluster.nodes[from], &cluster.nodes[to], USER).await;
    assert_eq!(
        store.apply(USER, &[used(1)]).await.unwrap(),
        [Applied::Applied],
        "it is still here"
    );
    assert_eq!(shown(&store, USER).await, Some(vec![2]));

    moving.key(&keys::list("", USER)).await;
    is_left_to_mysql(&store).await;
    assert_eq!(store.read_back(USER, &[unused(2)]).await.unwrap(), 0);
    assert_eq!(store.apply(USER, &[used(2)]).await.unwrap(), [Applied::Cold], "half of it is here");
    // Both keys are gone from both nodes, so cancelling the move brings nothing back.
    for node in [from, to] {
        let mut node = Node::of(&cluster.nodes[node]).await;
        assert_eq!(node.send::<i64>(&["DBSIZE"]).await.unwrap(), 0);
    }
    is_left_to_mysql(&store).await;
    assert_eq!(platform.number(), 1);

    moving.end().await;
    assert_eq!(shown(&store, USER).await, None);
    assert_eq!(platform.number(), 2, "of this slot alone");
    rebuild(&store, USER, &[used(1), used(2), unused(3)]).await;
    assert_eq!(shown(&store, USER).await, Some(vec![3]));
    assert_eq!(owner(&cluster, USER).await, to);
}

#[tokio::test]
async fn a_view_that_moves_whole_is_cold_where_it_arrives() {
    let cluster = start("view cluster whole").await;
    let platform = Platform::default();
    let store = platform.process(&cluster.url()).await.unwrap();
    rebuild(&store, USER, &[unused(1)]).await;
    let from = owner(&cluster, USER).await;
    let to = (from + 1) % 3;
    let mut moving = Move::begin(&cluster.nodes[from], &cluster.nodes[to], USER).await;
    moving.view().await;
    moving.end().await;
    assert_eq!(shown(&store, USER).await, None);
    let contents = store.contents(USER).await.unwrap();
    assert!(!contents.trusted && contents.list.contains_key("1_1"), "it is there, not believed");
    rebuild(&store, USER, &[used(1)]).await;
    assert_eq!(shown(&store, USER).await, Some(vec![]));
}

#[tokio::test]
async fn a_slot_that_moves_while_nobody_reads_has_its_generation_after_the_next_look() {
    let cluster = start("view cluster idle").await;
    let platform = Platform::default();
    let store = platform.process(&cluster.url()).await.unwrap();
    rebuild(&store, USER, &[unused(1)]).await;
    let from = owner(&cluster, USER).await;
    let mut moving = Move::begin(&cluster.nodes[from], &cluster.nodes[(from + 1) % 3], USER).await;
    moving.view().await;
    moving.end().await;
    assert_eq!(platform.number(), 1);
    until_true(async || store.check_fit().await.is_ok() && platform.number() == 2).await;
    store.check_fit().await.unwrap();
    assert_eq!(platform.number(), 2, "nothing has moved since");
}

#[tokio::test]
async fn a_slot_that_moves_to_a_node_that_has_joined_is_followed_there() {
    let mut cluster = start("view cluster grows").await;
    let platform = Platform::default();
    let store = platform.process(&cluster.url()).await.unwrap();
    rebuild(&store, USER, &[unused(1)]).await;
    let from = owner(&cluster, USER).await;
    let scope = TestServers::shared().scope("view cluster grows");
    cluster.join_another(&scope.database).await.unwrap();
    let new = cluster.nodes.last().unwrap();
    let mut moving = Move::begin(&cluster.nodes[from], new, USER).await;
    moving.view().await;

    // The connections are older than the node.
    let applied = at_last(async || store.apply(USER, &[used(1)]).await).await;
    assert_eq!(applied, [Applied::Cold]);
    assert_eq!(Node::of(new).await.send::<i64>(&["DBSIZE"]).await.unwrap(), 0);
    moving.end().await;
    assert_eq!(shown(&store, USER).await, None);
    rebuild(&store, USER, &[unused(2)]).await;
    assert_eq!(shown(&store, USER).await, Some(vec![2]));
    assert_eq!(Node::of(new).await.send::<i64>(&["DBSIZE"]).await.unwrap(), 2);
}

/// While some or all of a view's keys have moved with a slot, the view gives no answer.
async fn is_left_to_mysql(store: &ViewStore) {
    let error = store.page(USER, &first(10)).await.unwrap_err();
    let said = format!("{error:?}");
    assert!(said.contains("source: Ask") || said.contains("source: TryAgain"), "{said}");
}
