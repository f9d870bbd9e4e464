//! Compares the stock of an open gate with MySQL's. A gate that holds too much is wrong, and so is one that certainly
//! lacks stock, which it would never sell. Movements between the two reads are taken into account.

use coupon::{Epoch, TemplateId};
use mysql_store::{
    connect,
    stock::{self, Stock},
    template::Watched,
};
use redis_gate::Meta;
use tracing::warn;

use crate::gate::{keeper::Keeper, rebuild::RebuildError};

/// A gate's side of the conservation identity at one moment.
pub(super) struct Account {
    epoch: Epoch,
    movement: i64,
    /// Stock left in the gate.
    stock: i64,
    /// The most that its admissions in flight may still take from MySQL.
    in_flight: i64,
}

impl Account {
    /// Returns how much certainly lacks, if MySQL has this `stock` now and it has `moved` so far since; at most zero if
    /// nothing does.
    fn lacks(&self, stock: i64, moved: i64) -> i64 {
        let Self { stock: left, in_flight, .. } = self;
        stock.saturating_sub(moved).saturating_sub(*left).saturating_sub(*in_flight)
    }
}

impl Keeper {
    /// Slow audit of the conservation identity, for gates that hold too little. Compares the gate's account at the
    /// previous check with MySQL's stock now. In between, only movements can raise MySQL's stock, and they are
    /// subtracted. If it still exceeds everything that the gate had left or in flight, the difference is certainly
    /// missing. Returns whether the gate is to be rebuilt for that, or for entries that it does not count; `is_right`
    /// says that nothing else is wrong with it.
    pub(super) async fn audit(
        &mut self,
        watched: &Watched,
        is_right: bool,
    ) -> Result<bool, RebuildError> {
        let template = &watched.template;
        let stock = &watched.stock;
        let mut is_wrong = false;
        if let Some(before) = self.accounts.remove(&template.id)
            && before.epoch == stock.epoch
            && let Some(moved) = self.moved(template.id, before.movement, stock.movement).await?
        {
            let missing = before.lacks(stock.stock, moved);
            if missing > 0 {
                warn!(template.id = %template.id, missing, "a gate holds less than MySQL: it is rebuilt");
                self.missing = self.missing.saturating_add(missing);
                is_wrong = true;
            }
        }
        let account = self.gates().gate().account(template.id, stock.epoch).await?;
        if let Some((meta, held)) = &account {
            is_wrong |= held.users != meta.users;
            if is_right && !is_wrong {
                self.gates().found_right(template.id);
                self.unchanged.note(watched, meta, held.admissions);
            }
        }
        // A gate with at least MySQL's stock lacks nothing.
        if let Some((meta, held)) = account.filter(|(meta, _)| meta.stock < stock.stock) {
            let most = i64::try_from(held.admissions).unwrap_or(i64::MAX);
            let in_flight = most.saturating_mul(template.max_per_claim.into());
            let Meta { epoch, movement, stock, .. } = meta;
            self.accounts.insert(template.id, Account { epoch, movement, stock, in_flight });
        }
        Ok(is_wrong)
    }

    /// Returns whether the gate's stock exceeds the one that MySQL had at the first read, so that it admits claims that
    /// cannot land. A correct gate holds MySQL's stock less what is in flight. Between the two reads only movements can
    /// raise MySQL's stock. A gate that contains a movement which MySQL does not show yet is not judged.
    pub(super) async fn holds_too_much(
        &self,
        template: TemplateId,
        meta: &Meta,
        before: &Stock,
    ) -> Result<bool, RebuildError> {
        // Most gates contain exactly the movements that MySQL shows.
        if meta.movement == before.movement {
            return Ok(meta.stock > before.stock);
        }
        let moved = self.moved(template, before.movement, meta.movement).await?;
        Ok(moved.is_some_and(|moved| meta.stock > before.stock.saturating_add(moved)))
    }

    /// Returns how the stock moved from the movement `from` to the movement `to`, which may be an earlier one.
    /// `None`: MySQL does not show all of them yet.
    async fn moved(
        &self,
        template: TemplateId,
        from: i64,
        to: i64,
    ) -> Result<Option<i64>, RebuildError> {
        if from == to {
            return Ok(Some(0));
        }
        let after = from.min(to);
        let last = from.max(to);
        let moved = connect::within(async {
            let mut connection = connect::acquire(self.gates().pool()).await?;
            stock::moved_between(&mut connection, template, after, last).await
        });
        Ok(moved.await?.map(|moved| if from < to { moved } else { moved.saturating_neg() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [i64; 8] =
        [i64::MIN, i64::MIN + 1, -1_000_000_000, -1, 0, 1, 1_000_000_000, i64::MAX];

    #[test]
    fn what_a_gate_lacks_is_exact_or_at_the_end_of_64_bits() {
        let is_small = |number: i64| number.unsigned_abs() <= 1_000_000_000;
        for stock in NUMBERS {
            for (left, moved) in NUMBERS.into_iter().zip(NUMBERS.into_iter().rev()) {
                for in_flight in NUMBERS {
                    let account =
                        Account { epoch: Epoch::FIRST, movement: 1, stock: left, in_flight };
                    let lacks = account.lacks(stock, moved);
                    if [stock, left, moved, in_flight].into_iter().all(is_small) {
                        assert_eq!(lacks, stock - moved - left - in_flight);
                    }
                }
            }
        }
    }
}
