//! I15: the ledger is complete. Its sums are the total and the stock; its returns list exactly the returned coupons;
//! and its lapses are those that the platform counts.
//!
//! Only a few numbers of each return are in memory: of about [`COUPONS_PER_PASS`] coupons per pass, divided by user.

use std::collections::HashMap;

use coupon::{CouponStatus, Lapses, limit, read_returned};
use mysql_store::{
    MySqlConnection, connect,
    stock::Kind,
    verify::{
        self, ReturnedCoupon,
        topic_rows::{MovementRow, movements_from},
    },
};

use crate::{
    Outcome, Sources, VerifyError,
    checks::account,
    outcome::{Findings, count},
};

/// Rows per statement when reading MySQL.
const ROWS_PER_READ: u32 = 10_000;

/// Movements per statement: their lists are long.
const MOVEMENTS_PER_READ: u32 = 1_000;

/// Returned coupons compared per pass: about a hundred megabytes.
const COUPONS_PER_PASS: i64 = 1_000_000;

/// Most coupons of a template whose ledger is read through the view. The server would write a longer one to disk.
const VIEWED_MAX: i64 = 100_000;

/// I15: total and stock of every template are the sums of its movements and landed claims, also as the view
/// `stock_ledger` shows them; movements have no gaps; each return lists exactly its coupons; and the lapses of each
/// user are those of the movements since the last lift.
pub(crate) async fn adds_up(sources: &Sources) -> Result<Outcome, VerifyError> {
    let mut findings = Findings::of("I15", "stock, returns and lapses = sums of the ledger");
    let looked = look(sources, &mut findings).await;
    findings.end(looked)
}

async fn look(sources: &Sources, findings: &mut Findings) -> Result<String, VerifyError> {
    let mut connection = connect::acquire(&sources.pool).await?;
    let balances = findings.read(verify::balances(&mut connection).await)?;
    for balance in &balances {
        findings.report(account::ledger(&balance.account()));
        if balance.landed <= VIEWED_MAX {
            let viewed = verify::sum_of_ledger(&mut connection, balance.template).await;
            let viewed = findings.read(viewed.map(Some))?;
            findings.expect(viewed.is_none_or(|viewed| viewed == balance.stock), || {
                let template = balance.template;
                let stock = balance.stock;
                let viewed = viewed.unwrap_or_default();
                format!("template {template}: stock {stock}, the view of its ledger shows {viewed}")
            });
        }
    }
    for template in findings.read(verify::gaps_in_movements(&mut connection).await)? {
        findings.add(format!("template {template}: a number is missing among its movements"));
    }
    let returned: i64 = balances.iter().map(|balance| balance.returned).sum();
    let passes = returned / COUPONS_PER_PASS + 1;
    let mut sizes = HashMap::new();
    for pass in 0..passes {
        sources.progress.say(|| format!("I15: pass {} of {passes}", pass + 1));
        let part = Part { passes, pass };
        let mut look = LedgerPass { part, backs: HashMap::new(), lapses: HashMap::new() };
        look.at_coupons(&mut connection, &mut sizes).await?;
        look.at_movements(&mut connection, &mut sizes, findings).await?;
        look.leftovers(findings);
        look.at_lapses(&mut connection, findings).await?;
    }
    let mut rest: Vec<_> = sizes.into_iter().filter(|(_, coupons)| *coupons != 0).collect();
    rest.sort_unstable();
    for ((template, at), coupons) in rest {
        findings.add(format!(
            "template {template}: {coupons} more coupons came back at {at} than its movements say"
        ));
    }
    let returned = count(usize::try_from(returned).unwrap_or_default(), "coupon");
    Ok(format!("{}, {returned} returned", count(balances.len(), "template")))
}

/// A template, and a moment in milliseconds since 1970.
type Moment = (i64, i64);

/// A user's returned coupons of a template, of one moment.
#[derive(Debug, Default)]
struct Back {
    /// Numbers that can be freed.
    numbers: Vec<u8>,
    lapsed: i64,
    /// Whether a movement names the user.
    listed: bool,
}

/// Some of the users, for one pass.
#[derive(Debug, Clone, Copy)]
struct Part {
    passes: i64,
    pass: i64,
}

impl Part {
    fn has(self, user: i64) -> bool {
        user.rem_euclid(self.passes) == self.pass
    }

    /// Checks that concern no user run in the first pass only.
    fn is_first(self) -> bool {
        self.pass == 0
    }
}

/// A template's total after the movements up to one.
#[derive(Default)]
struct Total {
    template: i64,
    sum: i128,
}

impl Total {
    /// Adds a movement, which comes in the order of its key. Returns whether its answer told the total, and no more
    /// stock than that; movements of older versions tell nothing.
    fn is_as_answered(&mut self, movement: &MovementRow) -> bool {
        let MovementRow { template_id, delta, total_after, stock_after, .. } = movement;
        if self.template != template_id.0 {
            *self = Self { template: template_id.0, sum: 0 };
        }
        self.sum += i128::from(*delta);
        let is_total = total_after.is_none_or(|total| i128::from(total) == self.sum);
        is_total && stock_after.is_none_or(|stock| stock >= 0 && i128::from(stock) <= self.sum)
    }
}

/// What one pass knows.
struct LedgerPass {
    part: Part,
    /// By moment and user: the returned coupons that no movement has explained yet.
    backs: HashMap<(Moment, i64), Back>,
    /// By template and user: lapses since the last lift, and the movement that changed them last.
    lapses: HashMap<(i64, i64), (i64, i64)>,
}

impl LedgerPass {
    /// Records the returned coupons, and in the first pass their number at each moment.
    async fn at_coupons(
        &mut self,
        connection: &mut MySqlConnection,
        sizes: &mut HashMap<Moment, i64>,
    ) -> Result<(), VerifyError> {
        let mut from = Some(i64::MIN);
        while let Some(id) = from {
            let page = verify::returned_coupons_from(connection, id, ROWS_PER_READ).await?;
            from = page.next;
            for ReturnedCoupon { template, user, issued_no, status, changed_at, .. } in page.rows {
                let moment = (template.0, changed_at.timestamp_millis());
                if self.part.is_first() {
                    *sizes.entry(moment).or_default() += 1;
                }
                if self.part.has(user.0) {
                    let back = self.backs.entry((moment, user.0)).or_default();
                    let number = u8::try_from(issued_no).ok();
                    back.numbers.extend(number.filter(|n| u32::from(*n) <= limit::PER_USER_MAX));
                    back.lapsed += i64::from(status == CouponStatus::Lapsed);
                }
            }
        }
        Ok(())
    }

    async fn at_movements(
        &mut self,
        connection: &mut MySqlConnection,
        sizes: &mut HashMap<Moment, i64>,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        let mut from = Some((i64::MIN, i64::MIN));
        let mut total = Total::default();
        while let Some((template, seq)) = from {
            let page = movements_from(connection, template, seq, MOVEMENTS_PER_READ).await?;
            from = page.next;
            for movement in &page.rows {
                if self.part.is_first() {
                    findings.expect(has_its_form(movement), || at(movement, "is of no kind"));
                    findings.expect(total.is_as_answered(movement), || {
                        at(movement, "left another total or stock than it was answered with")
                    });
                    if movement.kind == Kind::Return {
                        let stock = movement.delta_stock.unwrap_or(movement.delta);
                        let size = sizes.entry(moment_of(movement)).or_default();
                        *size = size.saturating_sub(stock.saturating_sub(movement.delta));
                    }
                }
                self.read(movement, findings);
            }
            for unreadable in page.unreadable.iter().filter(|_| self.part.is_first()) {
                findings.add(unreadable.to_string());
            }
        }
        Ok(())
    }

    /// Removes the coupons that a movement explains, and adds up its lapses.
    fn read(&mut self, movement: &MovementRow, findings: &mut Findings) {
        let Some(Ok(list)) = movement.returned.as_deref().map(read_returned) else {
            findings.expect(movement.returned.is_none(), || at(movement, "cannot be read"));
            return;
        };
        let part = self.part;
        let template = movement.template_id.0;
        let moment = moment_of(movement);
        for entry in list.iter().filter(|entry| part.has(entry.user.0)) {
            let user = entry.user.0;
            let lapsed = match entry.lapses {
                Lapses::Add(lapsed) => i64::from(lapsed),
                Lapses::Lift => {
                    if let Some(known) = self.lapses.get_mut(&(template, user)) {
                        *known = (0, movement.seq);
                    }
                    continue;
                }
            };
            if lapsed > 0 {
                let known = self.lapses.entry((template, user)).or_default();
                *known = (known.0 + lapsed, movement.seq);
            }
            let back = self.backs.get_mut(&(moment, user));
            let fits = back.is_some_and(|back| back.explain(&entry.numbers, lapsed));
            findings.expect(fits, || {
                at(movement, &format!("gives user {user} what did not come back then"))
            });
        }
    }

    /// Reports returned coupons that no movement explains.
    fn leftovers(&mut self, findings: &mut Findings) {
        self.backs.retain(|_, back| !back.is_explained());
        let mut left: Vec<_> = self.backs.drain().collect();
        left.sort_unstable_by_key(|(key, _)| *key);
        for (((template, _), user), _) in left {
            findings.add(format!(
                "template {template}: what came back of user {user} is in no movement of that moment"
            ));
        }
    }

    /// Compares the lapses with the counts of the platform.
    async fn at_lapses(
        &mut self,
        connection: &mut MySqlConnection,
        findings: &mut Findings,
    ) -> Result<(), VerifyError> {
        let part = self.part;
        let mut from = Some((i64::MIN, i64::MIN));
        while let Some((template, user)) = from {
            let page = verify::lapses_from(connection, template, user, ROWS_PER_READ).await?;
            from = page.next;
            for row in page.rows.iter().filter(|row| part.has(row.user.0)) {
                let truth = self.lapses.remove(&(row.template.0, row.user.0));
                findings.expect(truth == Some((row.count, row.seq)), || {
                    let template = row.template;
                    let user = row.user;
                    let known = (row.count, row.seq);
                    format!("template {template}: lapses of user {user} are {known:?}, by the movements {truth:?}")
                });
            }
        }
        for ((template, user), (lapses, _)) in self.lapses.drain() {
            findings.add(format!(
                "template {template}: {lapses} lapses of user {user} are not counted"
            ));
        }
        Ok(())
    }
}

impl Back {
    /// Removes a movement's numbers and lapses. Returns false if a number was missing.
    fn explain(&mut self, numbers: &[u8], lapsed: i64) -> bool {
        self.listed = true;
        self.lapsed -= lapsed;
        let mut there = true;
        for number in numbers {
            match self.numbers.iter().position(|known| known == number) {
                Some(index) => drop(self.numbers.swap_remove(index)),
                None => there = false,
            }
        }
        there
    }

    fn is_explained(&self) -> bool {
        self.listed && self.lapsed == 0 && self.numbers.is_empty()
    }
}

/// Whether a movement's columns fit its kind.
fn has_its_form(movement: &MovementRow) -> bool {
    let MovementRow { kind, delta, delta_stock, returned, .. } = movement;
    match kind {
        Kind::Total => delta_stock.is_none_or(|stock| stock == *delta) && returned.is_none(),
        Kind::Return => match (*delta, *delta_stock) {
            (0, Some(stock)) => stock > 0 && returned.is_some(),
            (total, Some(0)) => total < 0 && returned.is_some(),
            (_, _) => false,
        },
        Kind::Lift => {
            (*delta, *delta_stock) == (0, Some(0))
                && returned.as_deref().is_some_and(|list| list.ends_with("/lift"))
        }
    }
}

fn moment_of(movement: &MovementRow) -> Moment {
    (movement.template_id.0, movement.created_at.timestamp_millis())
}

fn at(movement: &MovementRow, what: &str) -> String {
    format!("template {}: movement {} {what}", movement.template_id, movement.seq)
}
