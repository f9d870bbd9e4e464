//! Puts the facts about a claim in the order of its hops, each with its duration and the usual one.

use chrono::{DateTime, Utc};
use coupon::{AcceptAfter, CouponStatus};
use mysql_store::user_coupon::UserCoupon;

use super::{
    facts::{Change, End, Facts, Known, Relayed, Seen},
    hop::{Hop, Traces},
    usual::{self, Usual},
};
use crate::http::instant::instant;

/// Returns the hops of a claim. Those of a claim that is under way end with the one that it waits for.
pub(crate) fn tell(facts: &Facts, now: DateTime<Utc>) -> Vec<Hop> {
    let hops = vec![Hop::done("received", Some(facts.received_at))];
    let mut way = Way { hops, last: facts.received_at, now };
    way.admitted(facts);
    way.relayed(facts);
    match &facts.end {
        End::UnderWay => way.waits(facts),
        End::Rejected { reason, at } => {
            let why = Traces { code: Some(reason.word()), ..Traces::default() };
            // Nothing keeps when a lander took it, so this contains its wait.
            let usual = matches!(facts.relayed, Known::Is(_)).then_some(usual::WAITED);
            way.done("rejected", Some(*at), usual, why);
        }
        End::Lost { at } => way.done("lost", Some(*at), None, Traces::default()),
        End::GivenUp { at } => way.done("given_up", Some(*at), None, Traces::default()),
        End::Landed(_) => way.landed(facts),
    }
    way.hops
}

/// The hops that were late, by name, each once.
pub(crate) fn late(hops: &[Hop]) -> Vec<&'static str> {
    let mut late: Vec<&'static str> = Vec::new();
    for hop in hops.iter().filter(|hop| hop.late == Some(true)) {
        if !late.contains(&hop.hop) {
            late.push(hop.hop);
        }
    }
    late
}

/// The hops so far.
struct Way {
    hops: Vec<Hop>,
    /// The time of the last hop whose time is known.
    last: DateTime<Utc>,
    now: DateTime<Utc>,
}

impl Way {
    fn done(
        &mut self,
        name: &'static str,
        at: Option<DateTime<Utc>>,
        usual: Option<Usual>,
        traces: Traces,
    ) {
        let hop = Hop::done(name, at).with(traces);
        let hop = match at {
            Some(at) => hop.took(self.last, at),
            None => hop.because("nothing says when"),
        };
        self.last = at.unwrap_or(self.last);
        self.hops.push(hop.beside(usual));
    }

    /// Adds the hop that is waited for.
    fn pending(&mut self, name: &'static str, usual: Option<Usual>, why: &str) {
        let hop = Hop::new(name, "pending").because(why).took(self.last, self.now);
        self.hops.push(hop.beside(usual));
    }

    fn skipped(&mut self, name: &'static str, why: &str) {
        self.hops.push(Hop::new(name, "skipped").because(why));
    }

    fn unknown(&mut self, name: &'static str, why: &str) {
        self.hops.push(Hop::new(name, "unknown").because(why));
    }

    fn admitted(&mut self, facts: &Facts) {
        match &facts.admitted {
            Known::Is(admitted) => {
                let (stock_from, stock_to) = admitted.stock.unzip();
                let stock = Traces { stock_from, stock_to, ..Traces::default() };
                self.done("admitted", Some(admitted.at), Some(usual::ANSWER), stock);
            }
            Known::NotYet(why) => self.pending("admitted", Some(usual::ANSWER), why),
            Known::Never(why) => self.skipped("admitted", why),
            Known::Unknown(why) => self.unknown("admitted", why),
        }
    }

    fn relayed(&mut self, facts: &Facts) {
        match &facts.relayed {
            Known::Is(relayed) => {
                let Relayed { topic, partition, offset, at, accept_after, .. } = relayed;
                let message = Traces {
                    topic: Some(topic.clone()),
                    partition: Some(*partition),
                    offset: Some(*offset),
                    ..Traces::default()
                };
                // Others are answered before the topic has them.
                let usual = (*accept_after == AcceptAfter::Topic).then_some(usual::ACCEPTED);
                self.done("relayed", *at, usual, message);
            }
            // A relay that works empties the outbox at once, whenever the claim was answered.
            Known::NotYet(why) => self.pending("relayed", Some(usual::ACCEPTED), why),
            Known::Never(why) => self.skipped("relayed", why),
            Known::Unknown(why) => self.unknown("relayed", why),
        }
    }

    /// Adds what a claim waits for that has no outcome.
    fn waits(&mut self, facts: &Facts) {
        match &facts.relayed {
            Known::Is(_) => {
                let why = "it waits in its queue, or is being landed";
                self.pending("taken", Some(usual::WAITED), why);
            }
            Known::NotYet(_) => {}
            Known::Never(_) | Known::Unknown(_) => {
                self.pending("landed", Some(usual::ANSWER), "MySQL has no row of it");
            }
        }
    }

    fn landed(&mut self, facts: &Facts) {
        match (&facts.relayed, facts.taken_at()) {
            (Known::Never(why), _) => self.skipped("taken", why),
            (relayed, Some(at)) => {
                // Where the message is not known, the time since the hop before contains more than the wait.
                let usual = matches!(relayed, Known::Is(_)).then_some(usual::WAITED);
                self.done("taken", Some(at), usual, Traces::default());
            }
            (_, None) => self.unknown("taken", "its coupons were not found"),
        }
        match &facts.change {
            Known::Is(change) => self.committed(change),
            Known::NotYet(why) => {
                self.untimed("landed", why);
                self.pending("published", Some(usual::PUBLISHED), why);
            }
            Known::Never(why) => {
                self.untimed("landed", why);
                self.skipped("published", why);
            }
            Known::Unknown(why) => {
                self.untimed("landed", why);
                self.unknown("published", why);
            }
        }
        match &facts.seen {
            Known::Is(Seen::Listed) => {
                self.untimed("visible", "the view shows it and keeps no times");
            }
            Known::Is(Seen::Cold) => {
                let why =
                    "the list is not in the view; when it is asked for, it is read from MySQL";
                self.untimed("visible", why);
            }
            // It waits for its event, which is what may be late.
            Known::NotYet(why) if matches!(facts.change, Known::NotYet(_)) => {
                self.hops.push(Hop::new("visible", "pending").because(*why));
            }
            Known::NotYet(why) => self.pending("visible", Some(usual::VISIBLE), why),
            Known::Never(why) => self.skipped("visible", why),
            Known::Unknown(why) => self.unknown("visible", why),
        }
        for coupon in &facts.coupons {
            self.armed(coupon, facts);
            self.ended(coupon);
        }
    }

    /// Adds a hop that was done at a time that nothing keeps.
    fn untimed(&mut self, name: &'static str, why: &str) {
        self.hops.push(Hop::done(name, None).because(why));
    }

    fn committed(&mut self, change: &Change) {
        let source = &change.source;
        let place = Traces {
            binlog_file: Some(source.file.clone()).filter(|_| !source.snapshot),
            binlog_position: Some(source.pos).filter(|_| !source.snapshot),
            gtid: source.gtid.clone(),
            ..Traces::default()
        };
        match change.committed_at() {
            Some(at) => self.done("landed", Some(at), Some(usual::ANSWER), place),
            None => self.untimed("landed", "a snapshot published it, which knows no commits"),
        }
        let message = Traces {
            topic: Some(change.topic.clone()),
            partition: Some(change.partition),
            offset: Some(change.offset),
            ..Traces::default()
        };
        let usual = Some(usual::PUBLISHED).filter(|_| !source.snapshot);
        self.done("published", change.at, usual, message);
    }

    /// The deadline is an index of the coupon's own row: the landing arms it.
    fn armed(&mut self, coupon: &UserCoupon, facts: &Facts) {
        let at = match &facts.change {
            Known::Is(change) => change.committed_at(),
            _ => None,
        };
        let armed = Hop::done("armed", at).with(of_coupon(coupon));
        self.hops.push(armed.because("by its landing, whose row is in the index of deadlines"));
    }

    fn ended(&mut self, coupon: &UserCoupon) {
        let due = coupon.valid_until;
        let traces = of_coupon(coupon);
        let hop = match coupon.status {
            CouponStatus::Used => {
                let traces = Traces { order_ref: coupon.order_ref.clone(), ..traces };
                Hop::done("redeemed", coupon.used_at).with(traces)
            }
            CouponStatus::Cancelled => Hop::done("cancelled", Some(coupon.changed_at)).with(traces),
            CouponStatus::Expired => {
                let expired = Hop::done("expired", Some(coupon.changed_at)).with(traces);
                expired.took(due, coupon.changed_at).beside(Some(usual::EXPIRED))
            }
            CouponStatus::Lapsed => {
                let lapsed = Hop::done("lapsed", Some(coupon.changed_at)).with(traces);
                lapsed.took(due, coupon.changed_at).beside(Some(usual::EXPIRED))
            }
            CouponStatus::Held if due <= self.now => {
                let overdue = Hop::new("lapsed", "pending").with(traces);
                let overdue = overdue.because("its hold is over, and it is not flipped yet");
                overdue.took(due, self.now).beside(Some(usual::EXPIRED))
            }
            CouponStatus::Held => {
                let held = Hop::new("confirmed", "pending").with(traces);
                held.because("it lapses unless it is confirmed before its deadline")
            }
            CouponStatus::Unused if due <= self.now => {
                let overdue = Hop::new("expired", "pending").with(traces);
                let overdue = overdue.because("its deadline is over, and it is not flipped yet");
                overdue.took(due, self.now).beside(Some(usual::EXPIRED))
            }
            CouponStatus::Unused => {
                let unused = Hop::new("expired", "pending").with(traces);
                unused.because("it can be redeemed until its deadline")
            }
        };
        self.hops.push(hop);
    }
}

fn of_coupon(coupon: &UserCoupon) -> Traces {
    Traces {
        coupon_id: Some(coupon.id.to_string()),
        due: Some(instant(coupon.valid_until)),
        ..Traces::default()
    }
}
