//! Rebuilds racing live events: seeded interleavings of the real scripts, one step at a time. After each step the view
//! is read. It must never fall behind the changes applied so far.
//!
//! The model (crates/model) explores all interleavings of a few steps; this test runs some interleavings of many steps,
//! on a real server. A failure names its seed; `Story::of(seed)` reproduces it.

use std::sync::Arc;

use chrono::TimeDelta;
use coupon::{
    CouponId,
    CouponStatus::{Unused, Used},
    UserId,
};
use fastrand::Rng;
use redis_view::{Applied, Begun, Change, Nonce, PageAnswer, PageRequest};
use tokio::task::JoinSet;

use crate::harness::{TestView, first, now, unused};

/// Number of stories; each is one interleaving.
const STORIES: u64 = 1_000;
/// Stories that run at the same time, over one connection.
const AT_A_TIME: u64 = 50;
/// Steps of a story.
const STEPS: usize = 50;
/// Coupons of a story's user.
const COUPONS: usize = 3;
/// Versions of a coupon: issued, used, given back.
const VERSIONS: i64 = 3;
/// Readers that rebuild at the same time.
const REBUILDERS: usize = 2;
/// Age at which a nonce is stale, in seconds.
const OLD_NONCE: i64 = 6;

/// Each coupon's version; 0 if it does not exist yet.
type Versions = [i64; COUPONS];

#[tokio::test]
async fn rebuilds_racing_live_events_never_show_less_or_older_than_was_acknowledged() {
    let view = Arc::new(TestView::new("interleavings").await);
    let seed = fastrand::u64(..);
    println!("stories of the seeds {seed} and on");
    let mut tasks = JoinSet::new();
    for first in 0..AT_A_TIME {
        let view = Arc::clone(&view);
        tasks.spawn(async move {
            let mut seen = Seen::default();
            for number in (first..STORIES).step_by(AT_A_TIME as usize) {
                seen.add(&Story::of(&view, seed.wrapping_add(number)).await);
            }
            seen
        });
    }
    let mut all = Seen::default();
    while let Some(seen) = tasks.join_next().await {
        all.add(&seen.unwrap());
    }
    println!("{all:?}");
    // Steps that never happen would prove nothing.
    let Seen { trusted, own, completed, overtaken, cold, written_again: _ } = all;
    assert!(trusted > STORIES && own > STORIES && completed > STORIES, "{all:?}");
    assert!(overtaken > 0 && cold > STORIES, "{all:?}");
}

/// Counts of events.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    /// Pages of a trusted view.
    trusted: u64,
    /// Trusted pages that had to know a coupon.
    own: u64,
    /// Rebuilds that made a view whole, and rebuilds that lost their view to another.
    completed: u64,
    overtaken: u64,
    /// Changes that found the view cold.
    cold: u64,
    /// Members written again.
    written_again: u64,
}

impl Seen {
    fn add(&mut self, other: &Self) {
        self.trusted += other.trusted;
        self.own += other.own;
        self.completed += other.completed;
        self.overtaken += other.overtaken;
        self.cold += other.cold;
        self.written_again += other.written_again;
    }
}

/// A change in progress: to be applied, or to be read back.
#[derive(Clone, Copy)]
enum Way {
    Apply(Change),
    ReadBack(Change),
}

/// A reader between two steps of its rebuild.
struct Rebuild {
    nonce: Nonce,
    /// The rows read from MySQL, and how many of them are loaded.
    read: Option<(Versions, usize)>,
}

/// The state of one user, one consumer, one zombie and some rebuilders.
struct Story<'a> {
    view: &'a TestView,
    seed: u64,
    user: UserId,
    rng: Rng,
    /// MySQL's state.
    truth: Versions,
    /// The topic, in commit order.
    topic: Vec<Change>,
    /// MySQL's state right after each coupon was issued.
    issued: [Versions; COUPONS],
    offset: usize,
    consumer: Option<Way>,
    /// A consumer that lost its partition without noticing.
    zombie: Option<Way>,
    rebuilds: [Option<Rebuild>; REBUILDERS],
    /// Time passed in the story.
    waited: TimeDelta,
    /// The oldest versions that a trusted view may show.
    floor: Versions,
    seen: Seen,
}

impl<'a> Story<'a> {
    /// Runs the story of a seed.
    async fn of(view: &'a TestView, seed: u64) -> Seen {
        let mut story = Self {
            view,
            seed,
            user: UserId((seed & (u64::MAX >> 1)).cast_signed()),
            rng: Rng::with_seed(seed),
            truth: [0; COUPONS],
            topic: Vec::new(),
            issued: [[0; COUPONS]; COUPONS],
            offset: 0,
            consumer: None,
            zombie: None,
            rebuilds: [const { None }; REBUILDERS],
            waited: TimeDelta::zero(),
            floor: [0; COUPONS],
            seen: Seen::default(),
        };
        for _ in 0..STEPS {
            story.step().await;
            story.look().await;
        }
        story.end().await;
        story.view.store.drop_view(story.user).await.unwrap();
        story.seen
    }

    async fn step(&mut self) {
        match self.rng.u8(0..100) {
            0..25 => self.commit(),
            25..55 => self.consume().await,
            55..85 => {
                let which = self.rng.usize(0..REBUILDERS);
                self.rebuild(which).await;
            }
            85..90 => self.evict().await,
            90..93 => self.replay(),
            93..97 => self.zombie_goes_on().await,
            97..99 => {
                let which = self.rng.usize(0..REBUILDERS);
                self.rebuilds[which] = None;
            }
            _ => self.put_aside().await,
        }
    }

    fn commit(&mut self) {
        let coupon = self.rng.usize(0..COUPONS);
        if self.truth[coupon] < VERSIONS {
            self.truth[coupon] += 1;
            self.topic.push(change(coupon, self.truth[coupon]));
            if self.truth[coupon] == 1 {
                self.issued[coupon] = self.truth;
            }
        }
    }

    async fn consume(&mut self) {
        let next = self.topic.get(self.offset).copied().map(Way::Apply);
        let Some(way) = self.consumer.take().or(next) else { return };
        self.consumer = self.walk(way).await;
        if self.consumer.is_none() {
            self.offset += 1;
        }
    }

    async fn zombie_goes_on(&mut self) {
        if let Some(way) = self.zombie.take() {
            self.zombie = self.walk(way).await;
        }
    }

    /// Takes a change one step further.
    async fn walk(&mut self, way: Way) -> Option<Way> {
        match way {
            Way::Apply(change) => {
                let applied = self.view.store.apply(self.user, &[change]).await.unwrap();
                self.raise(change);
                if applied == [Applied::Cold] {
                    self.seen.cold += 1;
                    return None;
                }
                Some(Way::ReadBack(change))
            }
            Way::ReadBack(change) => {
                let repaired = self.view.store.read_back(self.user, &[change]).await.unwrap();
                self.seen.written_again += repaired;
                None
            }
        }
    }

    /// Either the offsets are lost, or the consumer loses its partition and continues nevertheless.
    fn replay(&mut self) {
        let next = self.topic.get(self.offset).copied().map(Way::Apply);
        if self.rng.bool() {
            self.offset = 0;
            self.consumer = None;
        } else if self.zombie.is_none() {
            self.zombie = self.consumer.take().or(next);
        }
    }

    /// The next message cannot be read.
    async fn put_aside(&mut self) {
        if self.consumer.is_none()
            && let Some(change) = self.topic.get(self.offset).copied()
        {
            self.view.store.drop_view(self.user).await.unwrap();
            self.raise(change);
            self.offset += 1;
        }
    }

    /// Takes a rebuilding reader one step further.
    async fn rebuild(&mut self, which: usize) {
        let Some(rebuild) = self.rebuilds[which].take() else {
            self.waited += TimeDelta::seconds(self.rng.i64(0..2) * OLD_NONCE);
            let begun = self.view.store.begin(self.user, now() + self.waited).await.unwrap();
            if let Begun::Begun(nonce) = begun {
                self.rebuilds[which] = Some(Rebuild { nonce, read: None });
            }
            return;
        };
        let nonce = rebuild.nonce;
        let read = match rebuild.read {
            None => (self.truth, 0),
            Some((rows, loaded)) if loaded < COUPONS => {
                let row = (rows[loaded] > 0).then(|| change(loaded, rows[loaded]));
                let at = now() + self.waited;
                if !self.view.store.load(self.user, nonce, row.as_slice(), at).await.unwrap() {
                    self.seen.overtaken += 1;
                    return;
                }
                (rows, loaded + 1)
            }
            Some((rows, _)) => {
                if self.view.store.complete(self.user, nonce).await.unwrap() {
                    self.seen.completed += 1;
                    self.floor
                        .iter_mut()
                        .zip(rows)
                        .for_each(|(floor, row)| *floor = row.max(*floor));
                } else {
                    self.seen.overtaken += 1;
                }
                return;
            }
        };
        self.rebuilds[which] = Some(Rebuild { nonce, read: Some(read) });
    }

    async fn evict(&mut self) {
        let keys = self.view.keys_of(self.user);
        let which = self.rng.usize(0..=keys.len());
        for key in if which == keys.len() { &keys[..] } else { &keys[which..=which] } {
            self.view.send(&["DEL", key]).await;
        }
    }

    /// From now on a trusted view must show this version or a later one.
    fn raise(&mut self, change: Change) {
        let floor = &mut self.floor[index(change.coupon.id)];
        *floor = change.version.max(*floor);
    }

    /// Reads a page, and another one that must know a coupon.
    async fn look(&mut self) {
        if let Some(shown) = self.page(None).await {
            self.seen.trusted += 1;
            self.assert_between(shown, self.floor, "");
        }
        let coupon = self.rng.usize(0..COUPONS);
        if let Some(shown) = self.page(Some(coupon)).await {
            self.seen.own += 1;
            let mut floor = self.issued[coupon];
            floor
                .iter_mut()
                .zip(self.floor)
                .for_each(|(floor, acknowledged)| *floor = acknowledged.max(*floor));
            self.assert_between(shown, floor, "after one's own claim");
        }
    }

    async fn page(&self, after: Option<usize>) -> Option<[bool; COUPONS]> {
        let after = after.map(|coupon| change(coupon, 1).coupon.id);
        let request = PageRequest { after, ..first(100) };
        let PageAnswer::Page(page) = self.view.store.page(self.user, &request).await.unwrap()
        else {
            return None;
        };
        let mut shown = [false; COUPONS];
        page.coupons.iter().for_each(|coupon| shown[index(coupon.id)] = true);
        Some(shown)
    }

    /// Asserts that each coupon is shown as in some version between `floor` and MySQL's.
    fn assert_between(&self, shown: [bool; COUPONS], floor: Versions, when: &str) {
        for coupon in 0..COUPONS {
            let mut versions = floor[coupon]..=self.truth[coupon];
            let fits = versions.any(|version| is_unused(version) == shown[coupon]);
            let seed = self.seed;
            let truth = self.truth;
            assert!(
                fits,
                "seed {seed}: {shown:?} {when}, acknowledged {floor:?}, MySQL has {truth:?}"
            );
        }
    }

    /// Lets all actors finish, and asserts that the view equals MySQL.
    async fn end(&mut self) {
        while self.offset < self.topic.len() || self.consumer.is_some() {
            self.consume().await;
        }
        while self.zombie.is_some() {
            self.zombie_goes_on().await;
        }
        let is_cold = async |story: &Self| story.page(None).await.is_none();
        for which in 0..REBUILDERS {
            while self.rebuilds[which].is_some() {
                self.rebuild(which).await;
            }
        }
        while is_cold(self).await {
            self.rebuild(0).await;
        }
        let contents = self.view.store.contents(self.user).await.unwrap();
        let listed = (0..COUPONS).filter(|coupon| is_unused(self.truth[*coupon]));
        let listed = listed.map(|coupon| change(coupon, self.truth[coupon]).coupon);
        let expected: Vec<_> = listed.map(|coupon| (coupon.member(), coupon.score())).collect();
        let found: Vec<_> = contents.list.clone().into_iter().collect();
        assert_eq!(found, expected, "seed {}", self.seed);
        let versions = (0..COUPONS).filter(|coupon| self.truth[*coupon] > 0);
        for row in versions.map(|coupon| change(coupon, self.truth[coupon])) {
            let entry = contents.coupons.get(&row.coupon.id.to_string());
            assert_eq!(entry, Some(&row.entry()), "seed {}", self.seed);
        }
    }
}

/// Change to a version of a coupon; odd versions are unused.
fn change(coupon: usize, version: i64) -> Change {
    let status = if is_unused(version) { Unused } else { Used };
    Change { status, version, ..unused(i64::try_from(coupon).unwrap() + 1) }
}

fn index(id: CouponId) -> usize {
    usize::try_from(id.0).unwrap() - 1
}

fn is_unused(version: i64) -> bool {
    version % 2 == 1
}
