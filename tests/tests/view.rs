//! "My coupons" while its Redis loses keys: every answer holds what was committed before the coupon that
//! it was asked `after`, and none shows a coupon that was used or had ended before.

use coupon::UserId;
use devstack::{OwnView, TestServers};
use fastrand::Rng;
use pipeline_tests::{World, until};
use redis_view::keys;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::view_readers::{Progress, USERS, beside_readers};

/// Losses, of six kinds in turn.
const LOSSES: u64 = 18;
/// Memory of the view's Redis: it fits all views, and not [`JUNK`] beside them.
const MEMORY: &str = "4mb";
/// Values of 20,000 bytes that crowd the views out.
const JUNK: usize = 200;
/// Views are rebuilt more often than this: some losses hit none.
const REBUILDS: f64 = 10.0;

#[tokio::test]
async fn whatever_the_view_loses_each_answer_is_whole_and_shows_nothing_that_ended() {
    let server = OwnView::start("readers", &["--maxmemory", MEMORY]).await.unwrap();
    let servers = TestServers::shared().with_view(&server.url());
    let world = World::start_on(&servers, "readers", |options| options).await;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let progress = Progress::default();
    let losses = Losses {
        server,
        prefix: world.scope.key_prefix.clone(),
        progress: &progress,
        rng: Rng::with_seed(seed),
    };
    let ((server, happened), answers) =
        beside_readers(&world, &progress, seed, REBUILDS, losses.lose()).await;
    println!("{answers}; {happened}");
    // The verifier's own connection broke with the last restart, and is made anew.
    until(async || world.sources.view.users().await.is_ok(), |there| *there).await;
    world.assert_sound(None).await;
    world.end().await;
    drop(server);
}

/// Everything that a view's Redis may lose.
struct Losses<'a> {
    server: OwnView,
    prefix: String,
    progress: &'a Progress,
    rng: Rng,
}

impl Losses<'_> {
    /// Loses them in turn; returns the server, and what happened.
    async fn lose(mut self) -> (OwnView, String) {
        let (mut keys_lost, mut evicted, mut views_evicted) = (0, 0, 0);
        for turn in 0..LOSSES {
            self.progress.until_more_answers().await;
            match turn % 6 {
                0 | 2 => {
                    let user = UserId(self.rng.i64(1..=USERS));
                    let keys = [keys::list, keys::coupons].map(|key| key(&self.prefix, user));
                    // One of them, or both.
                    let which = self.rng.usize(0..3);
                    let lost = if which == 2 { keys.join(" ") } else { keys[which].clone() };
                    keys_lost += self.number(&format!("DEL {lost}")).await;
                }
                1 | 3 => {
                    let (all, views) = self.crowd_out().await;
                    evicted += all;
                    views_evicted += views;
                }
                4 => drop(self.send("FLUSHALL").await),
                _ => {
                    self.server.server.kill().unwrap();
                    self.server.server.start().await.unwrap();
                }
            }
        }
        assert!(keys_lost > 0 && evicted > 0, "{keys_lost} {evicted}");
        let happened = format!(
            "{keys_lost} keys deleted, {evicted} evicted ({views_evicted} of views, at least)"
        );
        (self.server, happened)
    }

    /// Fills the memory, and tells how many keys were evicted for it, and how many of the users' were
    /// not there again at once.
    async fn crowd_out(&mut self) -> (i64, i64) {
        let junk = "x".repeat(20_000);
        let keys = (1..=USERS).flat_map(|user| {
            [keys::list, keys::coupons].map(|key| key(&self.prefix, UserId(user)))
        });
        let exist = format!("EXISTS {}", keys.collect::<Vec<_>>().join(" "));
        let (before, views_before) = (self.evicted().await, self.number(&exist).await);
        for number in 0..JUNK {
            self.send(&format!("SET junk:{number} {junk}")).await;
        }
        let views = views_before - self.number(&exist).await;
        (self.evicted().await - before, views.max(0))
    }

    async fn evicted(&self) -> i64 {
        let stats = self.send("INFO stats").await;
        let evicted = stats.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
        evicted.unwrap().trim().parse().unwrap()
    }

    async fn number(&self, command: &str) -> i64 {
        self.send(command).await.trim_start_matches(':').trim().parse().unwrap()
    }

    /// Sends a command as a plain line; its answer must fit one packet, and be none of an error.
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
