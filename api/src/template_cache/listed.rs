//! The templates that a shop's list shows: published, with a window that is open or ahead.
//!
//! They are kept in the order of the list, so that a page costs what it shows, however many templates there are.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    ops::Bound,
    str::FromStr,
    sync::Arc,
};

use chrono::{DateTime, Utc};
use coupon::{MerchantId, Template, TemplateId, TemplateState};

/// The position of a template in its merchant's list: by the opening of its window, then by its id. So what is open
/// comes first, and then what opens next. Clients see it as `milliseconds.template`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    starts_at: DateTime<Utc>,
    id: TemplateId,
}

/// The text is not a position.
#[derive(Debug)]
pub(crate) struct NoPosition;

/// The lists of all merchants.
#[derive(Default)]
pub(super) struct Listed(HashMap<MerchantId, BTreeMap<Position, Arc<Template>>>);

impl Position {
    pub(crate) fn of(template: &Template) -> Self {
        Self { starts_at: template.window.starts_at, id: template.id }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.starts_at.timestamp_millis(), self.id)
    }
}

impl FromStr for Position {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        let (starts, id) = text.split_once('.').ok_or(NoPosition)?;
        let starts = starts.parse::<i64>().ok().and_then(DateTime::from_timestamp_millis);
        let starts_at = starts.ok_or(NoPosition)?;
        let position = Self { starts_at, id: id.parse().map_err(|_| NoPosition)? };
        // Accept only the form that we write.
        if position.to_string() == text { Ok(position) } else { Err(NoPosition) }
    }
}

impl Listed {
    /// Removes a template's earlier version, and adds this one if lists show it at `now` or later.
    pub(super) fn replace(
        &mut self,
        before: Option<&Template>,
        after: &Arc<Template>,
        now: DateTime<Utc>,
    ) {
        if let Some(before) = before {
            self.remove(before);
        }
        if after.state == TemplateState::Published && now < after.window.ends_at {
            let list = self.0.entry(after.merchant_id).or_default();
            list.insert(Position::of(after), Arc::clone(after));
        }
    }

    /// Returns up to `most` of a merchant's templates behind `position`. `None`: from the list's beginning.
    pub(super) fn behind(
        &self,
        merchant: MerchantId,
        position: Option<Position>,
        most: usize,
        now: DateTime<Utc>,
    ) -> Vec<Arc<Template>> {
        let Some(list) = self.0.get(&merchant) else { return Vec::new() };
        let from = position.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = list.range((from, Bound::Unbounded)).map(|(_, template)| template);
        rest.filter(|template| now < template.window.ends_at).take(most).cloned().collect()
    }

    /// Drops templates whose window is over, so that pages need not step over them.
    pub(super) fn forget_over(&mut self, now: DateTime<Utc>) {
        for list in self.0.values_mut() {
            list.retain(|_, template| now < template.window.ends_at);
        }
        self.0.retain(|_, list| !list.is_empty());
    }

    /// Takes a template out of its list.
    pub(super) fn remove(&mut self, template: &Template) {
        if let Some(list) = self.0.get_mut(&template.merchant_id) {
            list.remove(&Position::of(template));
        }
    }
}

#[cfg(test)]
mod tests {
    use coupon::Window;
    use testkit::MERCHANT;

    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(seconds, 0).unwrap()
    }

    /// A published template whose window is open for ten seconds.
    fn template(id: i64, starts_at: i64) -> Template {
        Template {
            window: Window { starts_at: at(starts_at), ends_at: at(starts_at + 10) },
            state: TemplateState::Published,
            version: 2,
            ..testkit::draft(TemplateId(id), at(0))
        }
    }

    /// Lists of these templates, as known at second 0.
    fn listed(templates: impl IntoIterator<Item = Template>) -> Listed {
        let mut listed = Listed::default();
        for template in templates {
            listed.replace(None, &Arc::new(template), at(0));
        }
        listed
    }

    fn ids(listed: &Listed, behind: Option<Position>, most: usize, seconds: i64) -> Vec<i64> {
        let page = listed.behind(MERCHANT, behind, most, at(seconds));
        page.iter().map(|template| template.id.0).collect()
    }

    #[test]
    fn a_list_is_in_the_order_of_the_windows_and_pages_lose_and_double_nothing() {
        let templates = [(5, 20), (4, 30), (3, 20), (2, 10), (1, 40)];
        let listed = listed(templates.map(|(id, starts)| template(id, starts)));
        let all = [2, 3, 5, 4, 1];
        assert_eq!(ids(&listed, None, 9, 0), all);
        for size in 1..=all.len() {
            let mut paged = Vec::new();
            let mut behind = None;
            loop {
                let page = listed.behind(MERCHANT, behind, size, at(0));
                let Some(last) = page.last() else { break };
                // As a client sends it back.
                behind = Some(Position::of(last).to_string().parse().unwrap());
                paged.extend(page.iter().map(|template| template.id.0));
            }
            assert_eq!(paged, all, "pages of {size}");
        }
        assert!(
            listed.behind(MerchantId(MERCHANT.0 + 1), None, 9, at(0)).is_empty(),
            "another merchant's"
        );
    }

    #[test]
    fn only_what_is_published_and_not_over_is_listed() {
        let mut listed = listed([template(1, 0), template(2, 5), template(3, 100)]);
        assert_eq!(ids(&listed, None, 9, 9), [1, 2, 3]);
        assert_eq!(ids(&listed, None, 9, 10), [2, 3], "the end is exclusive");
        assert_eq!(ids(&listed, None, 1, 12), [2], "one that is over takes no place of a page");
        listed.forget_over(at(15));
        assert_eq!(ids(&listed, None, 9, 0), [3]);

        let before = template(3, 100);
        let later = Arc::new(Template { version: 3, ..template(3, 200) });
        listed.replace(Some(&before), &later, at(15));
        assert_eq!(ids(&listed, None, 9, 0), [3], "a start that moved leaves nothing behind");
        let paused = Template { state: TemplateState::Paused, version: 4, ..template(3, 200) };
        listed.replace(Some(&later), &Arc::new(paused.clone()), at(15));
        assert!(ids(&listed, None, 9, 0).is_empty());
        let resumed = Arc::new(Template { version: 5, ..template(3, 200) });
        listed.replace(Some(&paused), &resumed, at(300));
        assert!(ids(&listed, None, 9, 0).is_empty(), "it was over when it was learned");
    }

    #[test]
    fn only_our_own_spelling_is_a_position() {
        for right in ["0.0", "1795766400000.2123985067360387072", "-1.7"] {
            assert_eq!(right.parse::<Position>().unwrap().to_string(), right);
        }
        for wrong in ["", ".", "1", "1.", ".1", "01.1", "+1.1", "1.01", "1.-1", "1.1.1", "a.1"] {
            assert!(wrong.parse::<Position>().is_err(), "{wrong}");
        }
        assert!("9223372036854775807.1".parse::<Position>().is_err(), "beyond all times");
    }
}
