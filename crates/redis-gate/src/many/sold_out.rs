//! Looks at gates that were sold out, whether they still are: many at once, all servers at once.

use coupon::{Epoch, TemplateId};
use futures::future::join_all;
use redis::{FromRedisValue as _, RedisResult, Value};

use super::{Answers, Part, in_order, presence::millis};
use crate::{Gate, GateError, connection::Live, replica::lacks_script, verdict::NOTED};

/// A look at a gate that was sold out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoldOutLook {
    pub template: TemplateId,
    pub epoch: Epoch,
    /// How many users with an entry the caller knows, if it is to refuse all others. Absent: it only asks.
    pub users: Option<u64>,
}

/// A gate that refuses every user without an entry as sold out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoldOutGate {
    /// How many users have an entry. Never falls within an epoch.
    pub users: u64,
    /// Start and end of the claim window, in milliseconds since 1970. Outside it a claim is refused for another reason.
    pub window_ms: (i64, i64),
    /// Most coupons per user. A claim for more is refused for another reason.
    pub limit: i64,
}

impl Gate {
    /// Sends looks at gates that were sold out, and returns an answer to each. It is `None` if the gate is not in this
    /// epoch, or refuses users without an entry for another reason or not at all. If it has as many users as the look
    /// says, the caller may refuse all others for [`crate::REFUSING`], counted from before this call.
    pub async fn sold_out(
        &self,
        looks: &[SoldOutLook],
    ) -> Vec<Result<Option<SoldOutGate>, GateError>> {
        let parts = self.parts(looks, |look| look.template).into_iter();
        let answered = join_all(parts.map(async |part| {
            let found = self.looks_of(&part).await;
            part.answered(found)
        }));
        in_order(looks.len(), answered.await)
    }

    async fn looks_of(
        &self,
        part: &Part<'_, SoldOutLook>,
    ) -> Result<Answers<Option<SoldOutGate>>, GateError> {
        let live = part.live().await?;
        let looks = &part.items;
        let mut results = self.send_looks(&live, looks).await;
        if results.as_ref().is_ok_and(|results| results.iter().any(lacks_script)) {
            results = match self.scripts.sold_out.load_async(&mut live.connection.clone()).await {
                Ok(_) => self.send_looks(&live, looks).await,
                Err(error) => Err(error),
            };
        }
        let mut found = Vec::with_capacity(looks.len());
        for result in live.checked("sold_out", results).await? {
            found.push(match live.checked("sold_out", result).await {
                // A gate whose keys are of another type is not known to be sold out.
                Err(error) if error.is_of_keys() => Ok(None),
                answer => answer.map(|answer| sold_out(&answer)),
            });
        }
        Ok(found)
    }

    async fn send_looks(
        &self,
        live: &Live,
        looks: &[&SoldOutLook],
    ) -> RedisResult<Vec<RedisResult<Value>>> {
        let mut pipe = redis::pipe();
        pipe.ignore_errors();
        for look in looks {
            let keys = self.keys(look.template);
            pipe.cmd("EVALSHA")
                .arg(self.scripts.sold_out.get_hash())
                .arg(3)
                .arg(keys.meta())
                .arg(keys.users(look.epoch))
                .arg(keys.refusing())
                .arg(look.epoch.0)
                .arg(live.run.as_str())
                .arg(look.users.map_or_else(String::new, |users| users.to_string()))
                .arg(millis(NOTED));
        }
        pipe.query_async(&mut live.connection.clone()).await
    }
}

/// Decodes the answer of `sold_out.lua`; its header says what it is.
fn sold_out(answer: &Value) -> Option<SoldOutGate> {
    let (1, users, starts, ends, limit) =
        <(i64, u64, i64, i64, i64)>::from_redis_value_ref(answer).ok()?
    else {
        return None;
    };
    Some(SoldOutGate { users, window_ms: (starts, ends), limit })
}
