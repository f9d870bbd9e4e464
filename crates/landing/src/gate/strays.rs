//! Gates in Redis that are no longer on the keeper's list.

use std::{collections::HashSet, sync::Arc};

use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId};
use mysql_store::{connect, template};
use redis_gate::Unloaded;
use runtime::FailPoints;
use tracing::{info, warn};

use crate::gate::{
    keeper::{Keeper, TAIL},
    rebuild::RebuildError,
    resolver::{GRACE, ResolveError, Resolver},
};

impl Keeper {
    /// Removes loaded gates that are not on the list any more: every api, or Redis, was down for longer than [`TAIL`],
    /// or a process resumed loading one after the others had removed it.
    pub(super) async fn unload_strays(
        &self,
        watched: &HashSet<TemplateId>,
        now: DateTime<Utc>,
    ) -> Result<(), RebuildError> {
        let gate = self.gates().gate();
        for id in gate.templates().await?.into_iter().filter(|id| !watched.contains(id)) {
            let template = connect::within(async {
                let mut connection = connect::acquire(self.gates().pool()).await?;
                template::get(&mut connection, id).await
            });
            // Other processes may load their gates earlier than this one, and a gate unknown to MySQL must be left
            // alone.
            let over = |template: &Template| template.window.ends_at <= now - TAIL;
            let template = match template.await {
                Err(error) if error.is_unreadable() => {
                    let why = format!("template {id}: {}", runtime::report(&error));
                    runtime::seldom!("a gate is not unloaded", why);
                    continue;
                }
                template => template?,
            };
            if !template.as_ref().is_some_and(over) {
                continue;
            }
            let unloaded = self.unload_stray(id, now).await;
            if let Err(error) = self.replace_unreadable(id, unloaded).await {
                let why = format!("template {id}: {}", runtime::report(&error));
                runtime::seldom!("a gate is not unloaded", why);
            }
        }
        Ok(())
    }

    async fn unload_stray(&self, id: TemplateId, now: DateTime<Utc>) -> Result<(), RebuildError> {
        let gate = self.gates().gate();
        let resolver = Resolver {
            pool: self.gates().pool().clone(),
            gate: gate.clone(),
            queue: Arc::clone(self.gates().queue()),
            grace: GRACE,
            points: FailPoints::default(),
        };
        match resolver.look_at(id, now).await {
            Ok(()) => {}
            Err(ResolveError::Gate(error)) => return Err(error.into()),
            Err(error) => {
                warn!(template.id = %id, error = runtime::report(&error), "not resolved");
                return Ok(());
            }
        }
        let Some(meta) = gate.meta(id).await? else { return Ok(()) };
        if gate.unload(id, meta.epoch, now).await? == Unloaded::Gone {
            info!(template.id = %id, "unloaded a gate that was forgotten loaded");
        }
        Ok(())
    }
}
