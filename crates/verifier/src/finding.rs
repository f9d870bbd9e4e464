//! What a check finds, as a value: the line that `verify` prints, and what a reconciler stores.

pub use coupon::FindingAbout as About;
use coupon::{Discount, DiscountKind, Epoch, FindingKind, TemplateId, UserId};

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// `None`: it is not about one template.
    pub template: Option<TemplateId>,
    pub about: About,
    /// The epoch that was judged, if it is about a gate or an account.
    pub epoch: Option<Epoch>,
    /// The version that was judged, if it is about a row with one.
    pub version: Option<i64>,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub seen: String,
    /// How many coupons it is about; 0 if it is no matter of their number.
    pub coupons: i64,
    /// What these coupons are worth at most, in minor units of the template's currency. `None`: nobody has worked it out,
    /// or they have no greatest worth.
    pub money: Option<i64>,
    /// The sentence for people.
    pub line: String,
}

impl Finding {
    /// A finding about a template as a whole, with nothing but its sentence.
    pub(crate) fn of(kind: FindingKind, template: TemplateId, line: String) -> Self {
        Self { template: Some(template), ..Self::bare(kind, About::Template, line) }
    }

    /// A finding about a user of all templates.
    pub(crate) fn of_user(kind: FindingKind, user: UserId, line: String) -> Self {
        Self::bare(kind, About::User(user), line)
    }

    fn bare(kind: FindingKind, about: About, line: String) -> Self {
        Self {
            kind,
            template: None,
            about,
            epoch: None,
            version: None,
            expected: String::new(),
            seen: String::new(),
            coupons: 0,
            money: None,
            line,
        }
    }

    #[must_use]
    pub(crate) fn about(self, about: About) -> Self {
        Self { about, ..self }
    }

    #[must_use]
    pub(crate) fn at_epoch(self, epoch: Epoch) -> Self {
        Self { epoch: Some(epoch), ..self }
    }

    /// With what should be there, and what is.
    #[must_use]
    pub(crate) fn that(self, expected: impl ToString, seen: impl ToString) -> Self {
        Self { expected: expected.to_string(), seen: seen.to_string(), ..self }
    }

    #[must_use]
    pub(crate) fn of_coupons(self, coupons: i64) -> Self {
        Self { coupons, ..self }
    }

    /// With what its coupons are worth at most under this discount.
    #[must_use]
    pub fn priced(self, discount: &Discount) -> Self {
        let most = match discount.kind {
            DiscountKind::AmountOff => Some(discount.value),
            DiscountKind::PercentOff => discount.cap,
            DiscountKind::FreeShipping => None,
        };
        let money = most.map(|most| most.saturating_mul(self.coupons.saturating_abs()));
        Self { money, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(kind: DiscountKind, value: i64, cap: Option<i64>) -> Option<i64> {
        let currency = "EUR".to_owned();
        let discount = Discount { kind, value, cap, minimum_spend: 0, currency };
        let found = Finding::of(FindingKind::Account, TemplateId(7), String::new());
        found.of_coupons(-3).priced(&discount).money
    }

    #[test]
    fn a_finding_is_worth_what_its_coupons_take_off_at_most() {
        assert_eq!(worth(DiscountKind::AmountOff, 500, None), Some(1_500));
        assert_eq!(worth(DiscountKind::PercentOff, 1_000, Some(200)), Some(600));
        assert_eq!(worth(DiscountKind::PercentOff, 1_000, None), None);
        assert_eq!(worth(DiscountKind::FreeShipping, 0, None), None);
    }
}
