//! MySQL: each method is one transaction or statement.

use coupon::TemplateState;

use super::{
    Protocol,
    bounds::{Change, IDS, MOVEMENTS_MAX, Mode},
    gate::{Message, one},
};
use crate::{Bug, gate::Numbers};

/// The rows of one template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Truth {
    /// `template_stock.total`.
    pub total: i16,
    /// `template_stock.stock`.
    pub stock: i16,
    /// `template_stock.epoch`, which guards direct landings.
    pub epoch: u8,
    /// `template_stock.queued_epoch`, which guards queued landings.
    pub queued_epoch: u8,
    /// `template_stock.open`.
    pub open: Open,
    /// `coupon_template.version`.
    pub version: u8,
    /// `coupon_template.state`.
    pub state: TemplateState,
    /// `coupon_template.claim_mode`.
    pub mode: Mode,
    /// Whether the mode was ever another than direct.
    pub ever_queued: bool,
    /// The last `stock_movement.seq`.
    pub movement: u8,
    /// `stock_movement.delta`, from `seq` 1 on.
    pub deltas: [i16; MOVEMENTS_MAX],
    /// Whether the queue was closed after the end, for good.
    pub closed: bool,
    /// Coupons that cuts took away.
    pub cut: u8,
    /// `claim`, by id.
    pub rows: [Row; IDS],
}

/// `template_stock.open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Open {
    /// Nothing lands.
    Nothing,
    /// Only accepted claims land.
    Accepted,
    All,
}

/// The `claim` row of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Row {
    /// There is no row.
    #[default]
    Absent,
    /// Landed, under the client's key, with its coupon's number.
    Landed(u8),
    /// Rejected for good, under the client's key.
    Rejected(Reason),
    /// A fence, under a key of its own.
    Void,
    /// A fence in another template, from a lookup that named the wrong one.
    Foreign,
}

/// Why a queued claim is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The stock does not suffice.
    Short,
    /// All numbers of the user are taken.
    Limit,
    /// Paused or ended with `accepted: reject`.
    NotOpen,
    /// It cannot be landed.
    Failed,
}

/// What a reread shows; the first variant that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    /// An earlier attempt landed.
    Landed,
    /// It was rejected.
    Rejected,
    /// Its key was answered under another id.
    Elsewhere,
    Fenced,
    /// The epoch differs.
    Stale,
    /// The number is taken; the lowest free one, if any.
    NumberTaken(Option<u8>),
    NotOpen,
    Short,
    /// Nothing prevents the landing any more.
    Retry,
}

/// What a client is told about a queued claim by its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Outcome {
    #[default]
    Processing,
    /// The claim landed, or its key landed under another id.
    Succeeded,
    /// The claim was rejected, or its key was rejected under another id.
    Rejected,
    /// The claim has not landed and never lands: the same key may be sent again.
    Lost,
}

impl Truth {
    /// Creates a published template.
    pub(super) fn new(total: i16, mode: Mode) -> Self {
        Self {
            total,
            stock: total,
            epoch: 1,
            queued_epoch: 1,
            open: Open::All,
            version: 1,
            state: TemplateState::Published,
            mode,
            ever_queued: mode != Mode::Direct,
            movement: 0,
            deltas: [0; MOVEMENTS_MAX],
            closed: false,
            cut: 0,
            rows: [Row::Absent; IDS],
        }
    }

    pub(super) fn row(&self, id: u8) -> Row {
        self.rows[usize::from(id)]
    }

    pub(super) fn has_landed(&self, id: u8) -> bool {
        matches!(self.row(id), Row::Landed(_))
    }

    /// Commits an operator's change. Returns whether it is possible.
    pub(super) fn change(&mut self, change: Change) -> bool {
        if let Change::Move(delta) = change {
            if self.stock + delta < 0 {
                return false;
            }
            self.total += delta;
            self.stock += delta;
            self.deltas[usize::from(self.movement)] = delta;
            self.movement += 1;
            self.cut += u8::try_from(-delta).unwrap_or(0);
            return true;
        }
        if self.state == TemplateState::Ended {
            return false;
        }
        match change {
            Change::Pause => (self.state, self.open) = (TemplateState::Paused, Open::Accepted),
            Change::PauseReject => (self.state, self.open) = (TemplateState::Paused, Open::Nothing),
            Change::Resume => (self.state, self.open) = (TemplateState::Published, Open::All),
            Change::End => (self.state, self.open) = (TemplateState::Ended, Open::Accepted),
            Change::EndReject => (self.state, self.open) = (TemplateState::Ended, Open::Nothing),
            Change::Mode(mode) => {
                self.mode = mode;
                self.ever_queued |= mode != Mode::Direct;
            }
            Change::Move(_) => {}
        }
        self.version += 1;
        true
    }

    /// `set queued_epoch = ? where epoch = ?`
    pub(super) fn set_queued_epoch(&mut self, epoch: u8) -> bool {
        if self.epoch != epoch {
            return false;
        }
        self.queued_epoch = epoch;
        true
    }

    /// `set epoch = epoch + 1, queued_epoch = epoch, open = 0 where epoch = ?`, after the end.
    pub(super) fn close(&mut self, epoch: u8) -> bool {
        if self.epoch != epoch {
            return false;
        }
        self.epoch += 1;
        (self.queued_epoch, self.open) = (self.epoch, Open::Nothing);
        self.closed = true;
        true
    }
}

impl Protocol {
    /// Returns the id whose row stands under the client's key.
    pub(super) fn answered_under(&self, truth: &Truth, key: u8) -> Option<u8> {
        let stands = |id: &u8| matches!(truth.row(*id), Row::Landed(_) | Row::Rejected(_));
        (0..IDS as u8).filter(|id| self.attempt(*id).key == key).find(stands)
    }

    /// The numbers of the user's landed coupons.
    pub(super) fn landed_numbers(&self, truth: &Truth, user: u8) -> Numbers {
        let of_user = (0..IDS as u8).filter(|id| self.attempt(*id).user == user);
        let numbers = of_user.filter_map(|id| match truth.row(id) {
            Row::Landed(number) => Some(number),
            Row::Absent | Row::Rejected(_) | Row::Void | Row::Foreign => None,
        });
        numbers.collect()
    }

    /// Decides how a claim continues after its landing was rolled back; `queued`: whether the landing was a queued one.
    pub(super) fn decide(&self, truth: &Truth, message: Message, queued: bool) -> Decision {
        let Message { id, epoch, number } = message;
        let user = self.attempt(id).user;
        let key = self.attempt(id).key;
        match self.answered_under(truth, key) {
            Some(other) if truth.has_landed(other) && other == id => return Decision::Landed,
            Some(other) if truth.has_landed(other) => return Decision::Elsewhere,
            Some(_) if !queued && self.bounds.has(Bug::RejectionUnknownToDirect) => {}
            Some(other) if other == id => return Decision::Rejected,
            Some(_) => return Decision::Elsewhere,
            None => {}
        }
        if self.is_fenced(truth, id) {
            return Decision::Fenced;
        }
        if !self.is_of_epoch(truth, epoch, queued) {
            return Decision::Stale;
        }
        let taken = self.landed_numbers(truth, user);
        if taken.meets(one(number)) {
            let free = (1..=self.bounds.limit).find(|number| !taken.meets(one(*number)));
            return Decision::NumberTaken(free);
        }
        let least = if queued { Open::Accepted } else { Open::All };
        if truth.open < least {
            Decision::NotOpen
        } else if truth.stock < 1 {
            Decision::Short
        } else {
            Decision::Retry
        }
    }

    pub(super) fn is_fenced(&self, truth: &Truth, id: u8) -> bool {
        match truth.row(id) {
            Row::Void => true,
            Row::Foreign => self.bounds.has(Bug::ForeignFenceBinds),
            Row::Absent | Row::Landed(_) | Row::Rejected(_) => false,
        }
    }

    /// The reread of a queued landing: lifts a fence of another template.
    pub(super) fn lift_foreign(&self, truth: &mut Truth, id: u8) {
        let row = &mut truth.rows[usize::from(id)];
        if *row == Row::Foreign && !self.bounds.has(Bug::ForeignFenceBinds) {
            *row = Row::Absent;
        }
    }

    fn is_of_epoch(&self, truth: &Truth, epoch: u8, queued: bool) -> bool {
        if queued && !self.bounds.has(Bug::QueuedGuardHasDirectEpoch) {
            truth.queued_epoch <= epoch
        } else {
            truth.epoch == epoch
        }
    }

    /// The transaction of a landing.
    pub(super) fn land(&self, truth: &mut Truth, message: Message, queued: bool) -> bool {
        let key = self.attempt(message.id).key;
        let lands = truth.row(message.id) == Row::Absent
            && self.answered_under(truth, key).is_none()
            && self.decide(truth, message, queued) == Decision::Retry;
        if lands {
            truth.rows[usize::from(message.id)] = Row::Landed(message.number);
            truth.stock -= 1;
        }
        lands
    }

    /// Inserts a rejected row under the client's key, or finds another row there.
    pub(super) fn reject(&self, truth: &mut Truth, id: u8, reason: Reason) -> bool {
        let key = self.attempt(id).key;
        let free = truth.row(id) == Row::Absent && self.answered_under(truth, key).is_none();
        if free {
            truth.rows[usize::from(id)] = Row::Rejected(reason);
        }
        free
    }

    /// Inserts the fence `~id`, or moves it here from another template. Returns whether it stands.
    pub(super) fn fence(truth: &mut Truth, id: u8) -> bool {
        let row = &mut truth.rows[usize::from(id)];
        if matches!(*row, Row::Absent | Row::Foreign) {
            *row = Row::Void;
        }
        *row == Row::Void
    }

    /// Returns the outcome that a client with a receipt of this epoch is told, given the rows and a `queued_epoch`.
    pub(super) fn outcome(&self, truth: &Truth, id: u8, receipt: u8, queued: u8) -> Outcome {
        match truth.row(id) {
            Row::Landed(_) => Outcome::Succeeded,
            Row::Rejected(_) => Outcome::Rejected,
            Row::Void => match self.answered_under(truth, self.attempt(id).key) {
                Some(other) if truth.has_landed(other) => Outcome::Succeeded,
                Some(_) => Outcome::Rejected,
                None => Outcome::Lost,
            },
            Row::Absent | Row::Foreign if receipt < queued => Outcome::Lost,
            Row::Absent | Row::Foreign => Outcome::Processing,
        }
    }
}
