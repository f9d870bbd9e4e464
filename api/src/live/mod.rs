//! The live figures of sales, as those who watch get them: one sample a second, made once for all of them
//! (`routes/operators/live/sampler.rs`), and only while somebody watches.

pub(crate) mod figures;

use std::{collections::HashMap, sync::Arc};

use coupon::MerchantId;
use tokio::sync::{Notify, watch};

use crate::{
    code::Code,
    problem::Problem,
    work_limits::{Full, Place, Places},
};

/// Most viewers of a process, and the part of its connections that they may take (one of eight): shops' operators, with
/// room for a wall of screens. Each costs its connection, and a copy of each sample.
const VIEWERS_MAX: usize = 2_048;
const OF_CONNECTIONS: usize = 8;

/// The part of these that one merchant may have (three of four), so that it does not lock out the platform's own.
const OF_MERCHANT: (usize, usize) = (3, 4);

/// The figures of a process, and who watches them.
pub(crate) struct Live {
    frames: watch::Sender<Option<Arc<Frames>>>,
    /// Notified when somebody begins to watch.
    watched: Notify,
    places: Places<MerchantId>,
}

/// One sample, written for each kind of viewer. Those who see the same share the text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Frames {
    /// For those who see every merchant's templates.
    pub(crate) all: Arc<str>,
    pub(crate) by_merchant: HashMap<MerchantId, Arc<str>>,
    /// For merchants without a template in it.
    pub(crate) others: Arc<str>,
}

/// The place of a viewer. Dropping it gives it back.
pub(crate) struct Viewer {
    frames: watch::Receiver<Option<Arc<Frames>>>,
    _place: Place<MerchantId>,
}

impl Live {
    /// Makes the figures of a process with at most this many connections.
    pub(crate) fn among(connections: usize) -> Self {
        let all = VIEWERS_MAX.min(connections / OF_CONNECTIONS);
        let (part, of) = OF_MERCHANT;
        let of_merchant = (all * part).div_ceil(of);
        let frames = watch::Sender::new(None);
        Self { frames, watched: Notify::new(), places: Places::new(all, of_merchant) }
    }

    /// Begins to watch.
    ///
    /// # Errors
    /// The process, or the merchant, has as many viewers as allowed.
    pub(crate) fn watch(&self, merchant: MerchantId) -> Result<Viewer, Problem> {
        let place = self.places.take(merchant).map_err(|full| match full {
            Full::Process => {
                let detail = "Too many watch here. Open the stream again in a moment.";
                Problem::new(Code::Overloaded, detail)
            }
            Full::Owner => {
                let detail =
                    "Too many of your streams are open here. Close one before you open another.";
                Problem::new(Code::TooManyAtOnce, detail)
            }
        })?;
        let mut frames = self.frames.subscribe();
        // The sample that others have got already is new to this viewer.
        frames.mark_changed();
        self.watched.notify_one();
        Ok(Viewer { frames, _place: place })
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.frames.receiver_count() > 0
    }

    /// Waits until somebody watches, and first forgets the last sample, which would be old by then.
    pub(crate) async fn until_watched(&self) {
        self.frames.send_replace(None);
        while !self.is_watched() {
            // Who came before this line has left a permit.
            self.watched.notified().await;
        }
    }

    /// Shows a sample to everybody who watches. Who is slow misses some.
    pub(crate) fn show(&self, frames: Frames) {
        self.frames.send_replace(Some(Arc::new(frames)));
    }
}

impl Frames {
    /// Returns the text for a viewer; `None`: one who sees every merchant's templates.
    pub(crate) fn of(&self, merchant: Option<MerchantId>) -> Arc<str> {
        let own = merchant.map(|merchant| self.by_merchant.get(&merchant).unwrap_or(&self.others));
        Arc::clone(own.unwrap_or(&self.all))
    }
}

impl Viewer {
    /// Waits for the next sample. `None`: there will be none.
    pub(crate) async fn next(&mut self) -> Option<Arc<Frames>> {
        loop {
            self.frames.changed().await.ok()?;
            let frames = self.frames.borrow_and_update().clone();
            if frames.is_some() {
                return frames;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    fn frames(text: &str) -> Frames {
        Frames { all: text.into(), ..Frames::default() }
    }

    fn code(refused: Result<Viewer, Problem>) -> Option<Code> {
        refused.err().map(|problem| problem.code())
    }

    #[tokio::test]
    async fn who_comes_gets_the_last_sample_and_who_is_slow_the_newest() {
        let live = Live::among(16_384);
        assert!(!live.is_watched());
        let mut first = live.watch(MerchantId(1)).unwrap();
        live.until_watched().await;
        live.show(frames("one"));
        assert_eq!(&*first.next().await.unwrap().all, "one");
        let mut second = live.watch(MerchantId(2)).unwrap();
        assert_eq!(&*second.next().await.unwrap().all, "one", "at once");
        live.show(frames("two"));
        live.show(frames("three"));
        assert_eq!(&*first.next().await.unwrap().all, "three", "it misses some");
        drop((first, second));
        assert!(!live.is_watched());
        let waits = timeout(Duration::from_millis(1), live.until_watched());
        // The permits of the first two may be left over.
        assert!(waits.await.is_err(), "nobody watches");
        let mut late = live.watch(MerchantId(1)).unwrap();
        let old = timeout(Duration::from_millis(1), late.next());
        assert!(old.await.is_err(), "an old sample is not shown");
    }

    #[test]
    fn viewers_leave_connections_to_requests_and_no_merchant_takes_all() {
        let live = Live::among(64);
        let own: Vec<_> = (0..6).map(|_| live.watch(MerchantId(1)).unwrap()).collect();
        assert_eq!(code(live.watch(MerchantId(1))), Some(Code::TooManyAtOnce));
        let others: Vec<_> = (0..2).map(|_| live.watch(MerchantId(2)).unwrap()).collect();
        assert_eq!(code(live.watch(MerchantId(2))), Some(Code::Overloaded));
        drop(own);
        assert_eq!(code(live.watch(MerchantId(1))), None);
        drop(others);
    }

    #[test]
    fn a_merchant_gets_its_own_text_and_never_anothers() {
        let frames = Frames {
            all: "all".into(),
            by_merchant: HashMap::from([(MerchantId(1), "one".into())]),
            others: "none".into(),
        };
        let texts = [None, Some(MerchantId(1)), Some(MerchantId(2))].map(|who| frames.of(who));
        assert_eq!(texts.map(|text| text.to_string()), ["all", "one", "none"]);
    }
}
