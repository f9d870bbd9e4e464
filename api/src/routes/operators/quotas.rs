//! Limits of what one merchant may have, and may do in an hour, so that none takes memory, disk or time from the others
//! without end. Quotas are counted in MySQL, in the transaction of the change, so that concurrent requests do not
//! exceed one together. The platform's own key has no quotas, except for the number of a merchant's keys: its holder
//! sets them.

use chrono::{DateTime, Utc};
use mysql_store::{MySqlConnection, quota};

use crate::{auth::Operator, code::Code, config::Quotas, problem::Problem};

impl Quotas {
    /// Rejects an open template beyond the quota. Call it in the transaction that makes the template, before it does.
    pub(crate) async fn one_more_open_template(
        &self,
        transaction: &mut MySqlConnection,
        operator: Operator,
        now: DateTime<Utc>,
    ) -> Result<(), Problem> {
        let most = self.merchant_open_templates;
        if most == 0 || operator.key_id.is_none() {
            return Ok(());
        }
        let open = quota::open_templates(transaction, operator.merchant_id, now).await?;
        if open < u64::from(most) {
            return Ok(());
        }
        let detail = format!(
            "A merchant has at most {most} open templates, drafts included; those whose window is over do not count. Delete \
             a draft, end one whose window is not over, or ask the platform for more."
        );
        Err(exceeded("open_templates", most, detail))
    }

    /// Returns the problem of a key beyond the quota.
    pub(crate) fn no_more_keys(&self) -> Problem {
        let most = self.merchant_keys;
        let detail = format!("A merchant has at most {most} keys. Revoke one first.");
        exceeded("keys", most, detail)
    }

    /// Counts an action against its merchant's hourly quota. Call it in the transaction of the action.
    pub(crate) async fn count(
        &self,
        transaction: &mut MySqlConnection,
        operator: Operator,
        action: &str,
        now: DateTime<Utc>,
    ) -> Result<(), Problem> {
        let (name, most) = match action {
            // There are as many as orders, and a refusal would stop a checkout.
            "coupon.use" | "coupon.unuse" | "coupon.lock" | "redemption.cancel"
            | "claim.cancel" => return Ok(()),
            // They stop an abuse, also one that has used the quota up. Each takes effect once for each counted change.
            "key.revoke" | "template.pause" | "template.end" => return Ok(()),
            "view.rebuild" => ("view_rebuilds_per_hour", self.merchant_view_rebuilds_per_hour),
            "gate.rebuild" => ("gate_rebuilds_per_hour", self.merchant_gate_rebuilds_per_hour),
            _ => ("changes_per_hour", self.merchant_changes_per_hour),
        };
        if most == 0 || operator.key_id.is_none() {
            return Ok(());
        }
        let used = quota::take(transaction, operator.merchant_id, name, now).await?;
        if used <= u64::from(most) {
            return Ok(());
        }
        let seconds = quota::until_next_hour(now).num_seconds() + 1;
        let detail = format!(
            "A merchant has {most} of these in an hour. Come back in {seconds} s, or ask the platform for more."
        );
        let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
        Err(Problem::hour_is_used_up(seconds, detail).with("quota", name).with("limit", most))
    }
}

fn exceeded(quota: &str, most: u32, detail: String) -> Problem {
    Problem::new(Code::QuotaExceeded, detail).with("quota", quota).with("limit", most)
}
