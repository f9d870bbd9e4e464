//! The guard of a landing: takes the stock of all its templates, where their rows allow it.

use std::collections::BTreeMap;

use coupon::{LandingMode, TemplateId};
use sqlx::{AssertSqlSafe, MySqlConnection};

use super::Landing;
use crate::{StoreError, rows};

/// A batch's demand on one stock row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Demand {
    template: TemplateId,
    epoch: i64,
    /// The oldest terms in the batch.
    terms: i64,
    quantity: i64,
}

impl Demand {
    pub(super) fn of(landing: &Landing) -> Self {
        Self {
            template: landing.claim().template_id,
            epoch: landing.admission.epoch.0,
            terms: landing.terms,
            quantity: i64::from(landing.claim().quantity),
        }
    }
}

/// Returns one demand per template and epoch, ordered by template. A batch with two epochs of a template has two
/// demands for it. They match one row, which changes once, so fewer rows match than there are demands.
pub(super) fn sums(all: impl Iterator<Item = Demand>) -> Vec<Demand> {
    let mut sums: BTreeMap<(TemplateId, i64), Demand> = BTreeMap::new();
    for one in all {
        let none = Demand { quantity: 0, ..one };
        let sum = sums.entry((one.template, one.epoch)).or_insert(none);
        sum.terms = sum.terms.min(one.terms);
        sum.quantity += one.quantity;
    }
    sums.into_values().collect()
}

/// Takes the stock of all templates in one statement and returns the number of matched rows: sqlx requests found rows, and
/// a matched row always changes.
pub(super) async fn take(
    connection: &mut MySqlConnection,
    mode: LandingMode,
    demands: &[Demand],
) -> Result<u64, StoreError> {
    let done = if let [one] = demands {
        sqlx::query(of_one(mode))
            .bind(one.quantity)
            .bind(one.template.0)
            .bind(one.epoch)
            .bind(one.terms)
            .bind(one.quantity)
            .execute(connection)
            .await
    } else {
        // Padded with a template that does not exist, so that few statement sizes are prepared.
        let count = demands.len().next_power_of_two();
        let nothing = Demand { template: TemplateId(-1), epoch: 0, terms: 0, quantity: 0 };
        let padded = demands.iter().chain(std::iter::repeat(&nothing)).take(count);
        let mut query = sqlx::query(AssertSqlSafe(join(mode, count)));
        for demand in padded {
            let Demand { template, epoch, terms, quantity } = demand;
            query = query.bind(template.0).bind(epoch).bind(terms).bind(quantity);
        }
        query.execute(connection).await
    };
    done.map(|done| done.rows_affected()).map_err(StoreError::query("take the stock"))
}

fn of_one(mode: LandingMode) -> &'static str {
    match mode {
        LandingMode::Direct => {
            "update template_stock set stock = stock - ? \
             where template_id = ? and epoch = ? and open = 1 and terms <= ? and stock >= ?"
        }
        LandingMode::Queued => {
            "update template_stock set stock = stock - ? where template_id = ? \
             and queued_epoch <= ? and open >= 1 and terms <= ? and stock >= ?"
        }
    }
}

/// The guard's SQL for `count` templates. The derived table comes first, so rows are locked in the order of templates.
/// Without the index hint, MySQL would read all rows for a batch with most of the templates, and wait for other landers'
/// rows.
pub fn join(mode: LandingMode, count: usize) -> String {
    let allowed = match mode {
        LandingMode::Direct => "stock.epoch = demand.epoch and stock.open = 1",
        LandingMode::Queued => "stock.queued_epoch <= demand.epoch and stock.open >= 1",
    };
    let tail = format!(
        ") demand straight_join template_stock stock force index (primary) \
         on stock.template_id = demand.template_id \
         set stock.stock = stock.stock - demand.quantity \
         where {allowed} and stock.terms <= demand.terms and stock.stock >= demand.quantity"
    );
    rows::repeat(
        "update (",
        "select cast(? as signed) as template_id, cast(? as signed) as epoch, \
         cast(? as signed) as terms, cast(? as signed) as quantity",
        " union all ",
        count,
        &tail,
    )
}
