//! A part of the rows.

use coupon::{TemplateId, UserId};
use sqlx::{MySql, QueryBuilder};

/// The rows that a check looks at: those of one template or of all, and of the users from one to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// `None`: all templates.
    pub template: Option<TemplateId>,
    /// The first user.
    pub from: UserId,
    /// The last user.
    pub to: UserId,
}

impl Span {
    /// All templates and users, as damaged rows may name them.
    pub const ALL: Self = Self { template: None, from: UserId(i64::MIN), to: UserId(i64::MAX) };

    /// All users of a template.
    pub fn of(template: TemplateId) -> Self {
        Self { template: Some(template), ..Self::ALL }
    }

    /// Whether it leaves no user out.
    pub fn has_all_users(&self) -> bool {
        self.from == Self::ALL.from && self.to == Self::ALL.to
    }

    /// Appends ` and …` for the columns of a table's alias. Nothing is appended for [`Self::ALL`], so that its plan stays
    /// a walk through the table.
    pub(super) fn narrow(&self, query: &mut QueryBuilder<MySql>, table: &str) {
        if let Some(template) = self.template {
            query.push(format_args!(" and {table}.template_id = ")).push_bind(template.0);
        }
        if !self.has_all_users() {
            query.push(format_args!(" and {table}.user_id between ")).push_bind(self.from.0);
            query.push(" and ").push_bind(self.to.0);
        }
    }
}
