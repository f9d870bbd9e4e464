//! The numbers that users hold of a template, for a gate's rebuild: `uq_number` from its beginning to its end, in pages
//! with a fixed number of entries of any kind. A page that counted only some kinds could read millions for one row.
//!
//! A claim takes numbers within the limit. A returned coupon, and a replacement, has its own id as its number, beyond
//! every limit: its user may have no coupon left, and still has keys with answers.

use coupon::{TemplateId, UserId, limit};
use sqlx::MySqlConnection;

use crate::StoreError;

/// Entries of one page: some hundred kilobytes, and far less than a second.
pub const PAGE_ENTRIES: usize = 10_000;

/// The users of one page, each in one page only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NumberPage {
    /// Users who hold numbers within the limit, ordered.
    pub taken: Vec<(UserId, Vec<u8>)>,
    /// Users who have only numbers beyond it, ordered.
    pub returned: Vec<UserId>,
}

/// Reads all numbers of a template, page by page.
///
/// Pages are read one after another. That is enough for a gate's rebuild, because under its epoch nothing can land before
/// the gate is open.
#[derive(Debug)]
pub struct NumberPages {
    template: TemplateId,
    /// The last entry that was read.
    after: (i64, i64),
    /// The user of the last entry, who may have more in the next page.
    open: Option<(UserId, Vec<u8>)>,
    is_over: bool,
}

impl NumberPages {
    #[must_use]
    pub fn of(template: TemplateId) -> Self {
        Self { template, after: (-1, i64::MAX), open: None, is_over: false }
    }

    /// Returns the next page, which may be empty, or `None` at the end.
    pub async fn next(
        &mut self,
        connection: &mut MySqlConnection,
    ) -> Result<Option<NumberPage>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let entries = self.read(connection).await?;
        let mut page = NumberPage::default();
        for &(user, number) in &entries {
            if self.open.as_ref().is_some_and(|(open, _)| open.0 != user) {
                page.close(self.open.take());
            }
            let (_, numbers) = self.open.get_or_insert((UserId(user), Vec::new()));
            numbers.extend(
                u8::try_from(number).ok().filter(|it| u32::from(*it) <= limit::PER_USER_MAX),
            );
        }
        self.after = entries.last().copied().unwrap_or(self.after);
        self.is_over = entries.len() < PAGE_ENTRIES;
        if self.is_over {
            page.close(self.open.take());
        }
        Ok(Some(page))
    }

    async fn read(&self, connection: &mut MySqlConnection) -> Result<Vec<(i64, i64)>, StoreError> {
        let (user, number) = self.after;
        let mut entries: Vec<(i64, i64)> = sqlx::query_as(
            "(select user_id, claim_no from user_coupon force index (uq_number) \
             where template_id = ? and user_id = ? and claim_no > ? order by claim_no limit ?) \
             union all \
             (select user_id, claim_no from user_coupon force index (uq_number) \
             where template_id = ? and user_id > ? order by user_id, claim_no limit ?)",
        )
        .bind(self.template.0)
        .bind(user)
        .bind(number)
        .bind(PAGE_ENTRIES as u64)
        .bind(self.template.0)
        .bind(user)
        .bind(PAGE_ENTRIES as u64)
        .fetch_all(connection)
        .await
        .map_err(StoreError::query("read taken numbers"))?;
        // A union guarantees no order.
        entries.sort_unstable();
        entries.truncate(PAGE_ENTRIES);
        Ok(entries)
    }
}

impl NumberPage {
    fn close(&mut self, user: Option<(UserId, Vec<u8>)>) {
        match user {
            Some((user, numbers)) if numbers.is_empty() => self.returned.push(user),
            taken => self.taken.extend(taken),
        }
    }
}
