//! The templates of all merchants that are open, paused or ahead, for whoever watches all sales.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use chrono::{DateTime, Utc};
use coupon::{Template, TemplateId, TemplateState};

use super::TemplateCache;

/// Templates that are published or paused and whose window is not over.
#[derive(Default)]
pub(super) struct Current(BTreeMap<TemplateId, Arc<Template>>);

impl Current {
    /// Replaces a template's earlier version.
    pub(super) fn replace(&mut self, template: &Arc<Template>, now: DateTime<Utc>) {
        let is_running = matches!(template.state, TemplateState::Published | TemplateState::Paused);
        if is_running && now < template.window.ends_at {
            self.0.insert(template.id, Arc::clone(template));
        } else {
            self.0.remove(&template.id);
        }
    }

    pub(super) fn remove(&mut self, id: TemplateId) {
        self.0.remove(&id);
    }

    /// Drops templates whose window is over.
    pub(super) fn forget_over(&mut self, now: DateTime<Utc>) {
        self.0.retain(|_, template| now < template.window.ends_at);
    }

    fn those(&self, is_wanted: impl Fn(&Template) -> bool) -> Vec<Arc<Template>> {
        self.0.values().filter(|template| is_wanted(template)).cloned().collect()
    }
}

impl TemplateCache {
    /// Returns those templates of all merchants that are wanted and published or paused. Windows that were over a few
    /// seconds ago may be among them. `None`: they were not read yet, as the process has just started and MySQL has not
    /// answered.
    pub(crate) fn current(
        &self,
        is_wanted: impl Fn(&Template) -> bool,
    ) -> Option<Vec<Arc<Template>>> {
        if !self.is_complete.load(Ordering::Acquire) {
            return None;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        Some(known.current.those(is_wanted))
    }
}

#[cfg(test)]
mod tests {
    use coupon::Window;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// A template whose window is open for ten seconds.
    fn template(id: i64, starts_at: i64, state: TemplateState) -> Arc<Template> {
        let window = Window { starts_at: at(starts_at), ends_at: at(starts_at + 10) };
        Arc::new(Template { window, state, ..testkit::draft(TemplateId(id), at(0)) })
    }

    #[test]
    fn what_is_open_paused_or_ahead_is_current_until_it_ends() {
        use TemplateState::{Ended, Paused, Published};
        let mut current = Current::default();
        for one in [template(1, 0, Published), template(2, 5, Paused), template(3, 20, Published)] {
            current.replace(&one, at(0));
        }
        let ids = |current: &Current| -> Vec<i64> {
            current.those(|_| true).iter().map(|template| template.id.0).collect()
        };
        assert_eq!(ids(&current), [1, 2, 3]);
        let paused = current.those(|template| template.state == Paused);
        assert_eq!(paused.len(), 1);
        current.replace(&template(2, 5, Ended), at(10));
        assert_eq!(ids(&current), [1, 3]);
        current.forget_over(at(10));
        assert_eq!(ids(&current), [3]);
        current.remove(TemplateId(3));
        assert!(ids(&current).is_empty());
        current.replace(&template(4, 0, Published), at(10));
        assert!(ids(&current).is_empty(), "it was over when it was learned");
    }
}
