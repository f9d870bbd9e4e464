//! Accounts of templates. They hold at every moment, because a landing and a return are one transaction each, and an
//! account is one statement.

use coupon::{FindingKind, TemplateId};
use mysql_store::{
    MySqlConnection, StoreError,
    verify::{self, Account, Balance},
};

use crate::finding::Finding;

/// Looks at one template's stock row and ledger.
///
/// # Errors
/// MySQL cannot be read.
pub async fn ledger_of(
    connection: &mut MySqlConnection,
    template: TemplateId,
) -> Result<Option<Finding>, StoreError> {
    Ok(verify::account(connection, template).await?.and_then(|account| ledger(&account)))
}

/// Describes an account that differs from the sum of its ledger.
pub(crate) fn ledger(account: &Account) -> Option<Finding> {
    let Account { template, total, stock, epoch, moved, moved_stock, landed } = *account;
    let found = |line| Finding::of(FindingKind::Account, template, line).at_epoch(epoch);
    if total != moved {
        let line = format!("template {template}: total {total}, sum of movements {moved}");
        let more = total.saturating_sub(moved);
        return Some(found(line).that(moved, total).of_coupons(more));
    }
    // Wider than the columns, which may hold anything.
    let left = i128::from(moved_stock) - i128::from(landed);
    (i128::from(stock) != left).then(|| {
        let line = format!(
            "template {template}: stock {stock}, movements {moved_stock} - landed {landed}"
        );
        let more = i64::try_from(i128::from(stock) - left).unwrap_or(i64::MAX);
        found(line).that(left, stock).of_coupons(more)
    })
}

/// Describes a balance that differs from the template's coupons or from its ledger.
pub(crate) fn balance(balance: &Balance) -> Option<Finding> {
    let Balance { template, total, stock, epoch, landed, coupons, returned, .. } = *balance;
    let live = coupons - returned;
    // Wider than the columns, which may hold anything.
    let taken = i128::from(total) - i128::from(stock);
    if live > total || stock < 0 {
        let line = format!("template {template} gave {live} of {total}, stock {stock}");
        let found = Finding::of(FindingKind::Oversold, template, line).at_epoch(epoch);
        let more = live.saturating_sub(total).max(stock.saturating_neg());
        return Some(found.that(total, live).of_coupons(more));
    }
    if taken != i128::from(live) || landed != coupons {
        let line = format!(
            "template {template}: total {total} - stock {stock}, landed {landed}, coupons {coupons}, \
             of them returned {returned}"
        );
        let found = Finding::of(FindingKind::Account, template, line).at_epoch(epoch);
        let more = i64::try_from(i128::from(live) - taken).unwrap_or(i64::MAX);
        return Some(found.that(taken, live).of_coupons(more));
    }
    ledger(&balance.account())
}
