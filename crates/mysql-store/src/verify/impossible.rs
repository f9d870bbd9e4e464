//! Values that no version writes: codes that nobody knows, times that are none, numbers out of range.
//!
//! The server looks for them, table by table, in one pass over each. A value that the verifier could not even read is so
//! named with its row, and the statements that count and compare rows need not expect it.

use coupon::{ClaimState, PayloadHash, limit};
use sqlx::{AssertSqlSafe, MySqlConnection, Row};

use super::{EXAMPLES, read_all};
use crate::{StoreError, coupons::redemption};

/// A table, or some joined, in which values are looked for.
pub struct Table {
    /// SQL for the row's name: the table in a word, and the key.
    name: &'static str,
    /// What stands behind `from`.
    from: String,
    rules: Vec<Rule>,
}

enum Rule {
    /// A column must hold a time, or be null if it may.
    Time(&'static str),
    /// Something is wrong under a condition.
    Not { says: &'static str, if_true: String },
}

/// A row with values that no version writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImpossibleRow {
    /// The table in a word, and the key.
    pub row: String,
    /// What is wrong with it: at least one thing.
    pub wrong: Vec<String>,
}

/// Returns rows of a table with values that no version writes.
pub async fn impossible_rows(
    connection: &mut MySqlConnection,
    table: &Table,
) -> Result<Vec<ImpossibleRow>, StoreError> {
    let of_rules = |text: fn(&Rule) -> String, separator: &str| {
        table.rules.iter().map(text).collect::<Vec<_>>().join(separator)
    };
    let name = table.name;
    let from = &table.from;
    let said = of_rules(|rule| format!("if({}, '{}', null)", rule.if_true(), rule.says()), ", ");
    let any = of_rules(Rule::if_true, " or ");
    let sql = format!(
        "select cast({name} as char) as name, cast(concat_ws(';', {said}) as char) as wrong \
         from {from} where {any} limit {EXAMPLES}"
    );
    let rows = sqlx::query(AssertSqlSafe(sql)).fetch_all(connection).await;
    read_all("look for values that no version writes", rows, |row| {
        let name: Option<String> = row.try_get("name")?;
        let wrong: String = row.try_get("wrong")?;
        Ok(ImpossibleRow {
            row: name.unwrap_or_else(|| "a row without a name".to_owned()),
            wrong: wrong.split(';').map(str::to_owned).collect(),
        })
    })
}

impl Rule {
    fn not(says: &'static str, if_true: impl Into<String>) -> Self {
        Self::Not { says, if_true: format!("({})", if_true.into()) }
    }

    fn if_true(&self) -> String {
        match self {
            // The last day of a month that does not exist is null.
            Self::Time(column) => format!("({column} is not null and last_day({column}) is null)"),
            Self::Not { if_true, .. } => if_true.clone(),
        }
    }

    fn says(&self) -> String {
        match self {
            Self::Time(column) => {
                format!("{} is no time", column.rsplit('.').next().unwrap_or(column))
            }
            Self::Not { says, .. } => (*says).to_owned(),
        }
    }
}

impl Table {
    /// Claims.
    pub fn claims() -> Self {
        let landed = ClaimState::Landed.code();
        let void = ClaimState::Void.code();
        let rejected = ClaimState::Rejected.code();
        let most = limit::QUANTITY_MAX;
        let hashes: Vec<String> =
            (1..=most).map(|quantity| hex(&PayloadHash::of_quantity(quantity))).collect();
        let hashes = hashes.join(", ");
        Self {
            name: "concat('claim ', claim.id)",
            from: "claim".to_owned(),
            rules: vec![
                Rule::not(
                    "state is unknown",
                    format!("claim.state not in ({landed}, {void}, {rejected})"),
                ),
                Rule::not(
                    "quantity is out of range",
                    format!(
                        "if(claim.state = {void}, claim.quantity <> 0, claim.quantity not between 1 and {most})"
                    ),
                ),
                Rule::not(
                    "payload_hash is not that of its quantity",
                    format!(
                        "claim.state <> {void} and claim.payload_hash <> elt(claim.quantity, {hashes})"
                    ),
                ),
                Rule::not(
                    "reason is set, and it was not rejected",
                    format!("claim.state <> {rejected} and claim.reason is not null"),
                ),
                // A fence's key is compared with its id elsewhere.
                Rule::not(
                    "request_id is no key",
                    format!(
                        "claim.state <> {void} and (length(claim.request_id) = 0 \
                         or convert(claim.request_id using latin1) regexp '[^!-~]')"
                    ),
                ),
                // Within these bounds it is what the gate said, which may have been wrong.
                Rule::not(
                    "left_after is out of range",
                    format!("claim.left_after not between 0 and {}", limit::STOCK_MAX),
                ),
                Rule::not(
                    "left_after is set, and it is a fence",
                    format!("claim.state = {void} and claim.left_after is not null"),
                ),
                Rule::not(
                    "valid_until is not after valid_from",
                    format!("claim.state = {landed} and claim.valid_until <= claim.valid_from"),
                ),
                Rule::Time("claim.valid_from"),
                Rule::Time("claim.valid_until"),
                Rule::Time("claim.created_at"),
                Rule::Time("claim.admitted_at"),
                Rule::Time("claim.held_until"),
            ],
        }
    }

    /// Templates without their own stock row. What else is wrong with one shows when it is read.
    pub fn templates() -> Self {
        Self {
            name: "concat('template ', template.id)",
            from: "coupon_template template left join template_stock stock on stock.template_id = template.id"
                .to_owned(),
            rules: vec![
                Rule::not("it has no stock row", "stock.template_id is null"),
                Rule::not("self_redeem is neither 0 nor 1", "template.self_redeem not in (0, 1)"),
                Rule::not("stackable is neither 0 nor 1", "template.stackable not in (0, 1)"),
                Rule::not("version is below 1", "template.version < 1"),
                Rule::Time("template.created_at"),
                Rule::Time("template.changed_at"),
            ],
        }
    }

    /// Stock rows.
    pub fn stock() -> Self {
        Self {
            name: "concat('stock of template ', stock.template_id)",
            from: "template_stock stock left join coupon_template template on template.id = stock.template_id"
                .to_owned(),
            rules: vec![
                Rule::not("there is no such template", "template.id is null"),
                Rule::not("total is out of range", format!("stock.total not between 0 and {}", limit::STOCK_MAX)),
                Rule::not("open is unknown", "stock.open not in (0, 1, 2)"),
                Rule::not("ever_queued is neither 0 nor 1", "stock.ever_queued not in (0, 1)"),
                Rule::not("queue_closed is neither 0 nor 1", "stock.queue_closed not in (0, 1)"),
                Rule::not("epoch is below 0", "stock.epoch < 0"),
                Rule::not("queued_epoch is below 0", "stock.queued_epoch < 0"),
            ],
        }
    }

    /// Moves of issued coupons to another validity.
    pub fn validity_moves() -> Self {
        Self {
            name: "concat('move of template ', template_id, ' to version ', version)",
            from: "validity_move".to_owned(),
            rules: vec![
                Rule::not("state is unknown", "state not in (0, 1, 2)"),
                Rule::not(
                    "valid_for_ms is out of range",
                    format!("valid_for_ms not between 1 and {}", limit::VALID_FOR_MS_MAX),
                ),
                Rule::not(
                    "it has no validity",
                    "valid_for_ms is null and (valid_from is null or valid_until is null)",
                ),
                Rule::Time("valid_from"),
                Rule::Time("valid_until"),
                Rule::Time("asked_at"),
                Rule::Time("started_at"),
                Rule::Time("ended_at"),
            ],
        }
    }

    /// Replacements.
    pub fn replacements() -> Self {
        Self {
            name: "concat('replacement ', replacement_id)",
            from: "coupon_replacement".to_owned(),
            rules: vec![Rule::Time("created_at"), Rule::Time("usable_since")],
        }
    }

    /// Payments.
    pub fn payments() -> Self {
        Self {
            name: "concat('payment ', payment_ref, ' of merchant ', merchant_id)",
            from: "coupon_payment".to_owned(),
            rules: vec![Rule::Time("confirmed_at")],
        }
    }

    /// Redemptions and rollbacks, also those that do not stand.
    pub fn redemptions() -> Self {
        let redeem = redemption::REDEEM;
        let rollback = redemption::ROLLBACK;
        let most = limit::AMOUNT_MAX;
        Self {
            name: "concat('redemption ', made.id)",
            from: "redemption made left join user_coupon coupon on coupon.id = made.coupon_id"
                .to_owned(),
            rules: vec![
                Rule::not("kind is unknown", format!("made.kind not in ({redeem}, {rollback})")),
                Rule::not(
                    "undoes does not fit its kind",
                    format!("(made.kind = {rollback}) <> (made.undoes is not null)"),
                ),
                Rule::not("its coupon is missing", "coupon.id is null"),
                Rule::not(
                    "merchant, template or user is another than its coupon has",
                    "coupon.merchant_id <> made.merchant_id or coupon.template_id <> made.template_id \
                     or coupon.user_id <> made.user_id",
                ),
                Rule::not(
                    "its money is there in part",
                    "(made.amount is null) + (made.discount is null) + (made.currency is null) not in (0, 3)",
                ),
                Rule::not(
                    "amount is out of range",
                    format!("made.amount not between 0 and {most}"),
                ),
                Rule::not(
                    "discount is out of range",
                    format!("made.discount not between 0 and {most}"),
                ),
                Rule::Time("made.created_at"),
            ],
        }
    }

    /// Locks of coupons for a checkout.
    pub fn locks() -> Self {
        let most = limit::LOCK_MS_MAX;
        Self {
            name: "concat('lock of coupon ', kept.coupon_id)",
            from: "coupon_lock kept left join user_coupon coupon on coupon.id = kept.coupon_id"
                .to_owned(),
            rules: vec![
                Rule::not("there is no such coupon", "coupon.id is null"),
                Rule::not("it names no order", "length(kept.order_ref) = 0"),
                Rule::not(
                    "locked_until is later than a lock may last",
                    format!(
                        "kept.locked_until > utc_timestamp(3) + interval {most} * 1000 microsecond"
                    ),
                ),
                Rule::Time("kept.locked_until"),
            ],
        }
    }
}

fn hex(hash: &PayloadHash) -> String {
    let digits: String = hash.0.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x'{digits}'")
}
