//! "My coupons" while its Redis loses keys: every answer contains all that was committed before the coupon given as
//! `after`, and none shows a coupon that was used or had ended before.

use std::collections::HashSet;

use coupon::UserId;
use devstack::{OwnRedis, TestServers};
use fastrand::Rng;
use pipeline_tests::{World, until};
use redis_view::keys;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::coupons::view_readers::{ReaderProgress, USERS, beside_readers};

/// Losses, of six kinds in turn.
const LOSSES: u64 = 18;
/// Memory of the view's Redis: enough for all views, but not with [`JUNK`] besides.
const MEMORY: &str = "4mb";
/// Number of 20,000-byte values that make Redis evict the views.
const JUNK: usize = 200;
/// More view rebuilds than this are required; fewer than the losses, as some hit no view.
const REBUILDS: f64 = 10.0;
/// Redis publishes keyspace events (`E`) of each evicted key (`e`).
const NOTIFY_EVICTIONS: [&str; 2] = ["--notify-keyspace-events", "Ee"];
/// Channel of these events, in the only database.
const EVICTIONS: &str = "__keyevent@0__:evicted";
/// Published on the same channel after all values are written; not a key.
const WRITTEN: &str = "all-is-written";

#[tokio::test]
async fn whatever_the_view_loses_each_answer_is_whole_and_shows_nothing_that_ended() {
    devstack::quick_fault_test_of("view");
    let settings = ["--maxmemory", MEMORY, NOTIFY_EVICTIONS[0], NOTIFY_EVICTIONS[1]];
    let server = OwnRedis::view("readers", &settings).await.unwrap();
    let servers = TestServers::shared().with_view(&server.url());
    let world = World::start_on(&servers, "readers", |options| options).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let progress = ReaderProgress::default();
    let losses = Losses {
        server,
        prefix: world.scope.key_prefix.clone(),
        progress: &progress,
        rng: Rng::with_seed(seed),
    };
    let ((server, happened), answers) =
        beside_readers(&world, &progress, seed, REBUILDS, losses.lose()).await;
    println!("{answers}; {happened:?}");
    // The verifier's own connection broke with the last restart, and reconnects.
    until(async || world.sources.view.users().await.is_ok(), |there| *there).await;
    world.assert_sound(None).await;
    world.end().await;
    drop(server);
}

/// Losses by kind.
#[derive(Debug, Default)]
struct Lost {
    /// Keys deleted: the list alone, the coupons alone, both together.
    deleted: [i64; 3],
    /// Keys evicted, junk included, as `INFO` counts them.
    evicted: i64,
    /// Keys of views evicted, by the server's events.
    views_evicted: usize,
}

/// Generator of losses of a view's Redis.
struct Losses<'a> {
    server: OwnRedis,
    prefix: String,
    progress: &'a ReaderProgress,
    rng: Rng,
}

impl Losses<'_> {
    /// Causes losses in turn; returns the server and what was lost.
    async fn lose(mut self) -> (OwnRedis, Lost) {
        let mut lost = Lost::default();
        let mut deletions = 0;
        for turn in 0..LOSSES {
            self.progress.until_more_answers().await;
            match turn % 6 {
                0 | 2 => {
                    let user = UserId(self.rng.i64(1..=USERS));
                    let keys = self.keys_of(user);
                    // The first, the second, or both, equally often.
                    let which = deletions % 3;
                    deletions += 1;
                    let keys = if which == 2 { keys.join(" ") } else { keys[which].clone() };
                    // The view may still be cold from the previous loss.
                    let delete = async || self.number(&format!("DEL {keys}")).await;
                    lost.deleted[which] += until(delete, |deleted| *deleted > 0).await;
                }
                1 | 3 => {
                    let before = self.evicted().await;
                    // The least recently used keys go first, and views are read all the time, so this may take
                    // several tries.
                    let crowd_out = async || self.crowd_out().await;
                    lost.views_evicted += until(crowd_out, |views| *views > 0).await;
                    lost.evicted += self.evicted().await - before;
                }
                4 => drop(self.send("FLUSHALL").await),
                _ => {
                    self.server.server.kill().unwrap();
                    self.server.server.start().await.unwrap();
                }
            }
        }
        // Losses that hit nothing would prove nothing.
        let Lost { deleted, evicted, views_evicted } = &lost;
        assert!(deleted.iter().all(|keys| *keys > 0), "{lost:?}");
        assert!(*views_evicted > 0 && *evicted >= *views_evicted as i64, "{lost:?}");
        (self.server, lost)
    }

    /// Fills the memory with new values; returns how many keys of views were evicted.
    async fn crowd_out(&self) -> usize {
        let old: Vec<_> = (0..JUNK).map(|number| format!("junk:{number}")).collect();
        self.send(&format!("DEL {}", old.join(" "))).await;
        let mut events = self.listen().await;
        // At once: Redis tells ages by seconds, and would evict older junk before views that were read since.
        let junk = "x".repeat(20_000);
        let mut writes: String = old.iter().map(|key| format!("SET {key} {junk}\r\n")).collect();
        writes.push_str(&format!("PUBLISH {EVICTIONS} {WRITTEN}\r\n"));
        let mut redis = TcpStream::connect(self.server.server.address()).await.unwrap();
        redis.write_all(writes.as_bytes()).await.unwrap();
        // The last reply is the number of listeners.
        read_until(&mut redis, ":1\r\n").await;
        let views: HashSet<_> = (1..=USERS).flat_map(|user| self.keys_of(UserId(user))).collect();
        let notified = read_until(&mut events, WRITTEN).await;
        notified.lines().filter(|line| views.contains(*line)).count()
    }

    /// Opens a connection that receives eviction events from now on.
    async fn listen(&self) -> TcpStream {
        let mut redis = TcpStream::connect(self.server.server.address()).await.unwrap();
        redis.write_all(format!("SUBSCRIBE {EVICTIONS}\r\n").as_bytes()).await.unwrap();
        // The reply ends with the number of subscribed channels.
        read_until(&mut redis, ":1\r\n").await;
        redis
    }

    fn keys_of(&self, user: UserId) -> [String; 2] {
        [keys::list, keys::coupons].map(|key| key(&self.prefix, user))
    }

    async fn evicted(&self) -> i64 {
        let stats = self.send("INFO stats").await;
        let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        evicted.unwrap().trim().parse().unwrap()
    }

    async fn number(&self, command: &str) -> i64 {
        self.send(command).await.trim_start_matches(':').trim().parse().unwrap()
    }

    /// Sends an inline command. Its reply must fit one read, and must not be an error.
    async fn send(&self, command: &str) -> String {
        let mut redis = TcpStream::connect(self.server.server.address()).await.unwrap();
        redis.write_all(format!("{command}\r\n").as_bytes()).await.unwrap();
        let mut answer = vec![0; 64 * 1024];
        let length = redis.read(&mut answer).await.unwrap();
        let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
        assert!(!answer.starts_with('-'), "{command:.40}: {answer}");
        answer
    }
}

/// Reads from a connection up to these words.
async fn read_until(redis: &mut TcpStream, words: &str) -> String {
    let mut all = String::new();
    let mut some = vec![0; 64 * 1024];
    while !all.contains(words) {
        let length = redis.read(&mut some).await.unwrap();
        assert!(length > 0, "the connection ended: {all:.400}");
        all.push_str(&String::from_utf8_lossy(&some[..length]));
    }
    all
}
