//! Arguments about a template's discount.

use clap::Args;
use coupon::money::written;

/// What the coupons take off an order. Only a draft's can be changed, and only as a whole.
#[derive(Args)]
pub(crate) struct Discount {
    /// A percentage, with at most two decimals: 20 takes a fifth off.
    #[arg(long, value_name = "PERCENT", value_parser = percent, conflicts_with = "amount_off")]
    pub(crate) percent_off: Option<i64>,
    /// An amount in the currency's units: 5.00 takes five euros off.
    #[arg(long, value_name = "AMOUNT")]
    pub(crate) amount_off: Option<String>,
    /// The most that a percentage takes off.
    #[arg(long, visible_alias = "cap", value_name = "AMOUNT")]
    pub(crate) at_most: Option<String>,
    /// What an order must cost before any discount.
    #[arg(long, visible_alias = "minimum-spend", value_name = "AMOUNT")]
    pub(crate) from: Option<String>,
    /// The currency of these amounts: three capital letters. Default: the file's.
    #[arg(long)]
    pub(crate) currency: Option<String>,
}

impl Discount {
    pub(crate) fn is_empty(&self) -> bool {
        let Self { percent_off, amount_off, at_most, from, currency } = self;
        percent_off.is_none()
            && [amount_off, at_most, from, currency].iter().all(|one| one.is_none())
    }
}

/// Parses a percentage as hundredths of a percent.
fn percent(text: &str) -> Result<i64, String> {
    let wrong = |why: &dyn std::fmt::Display| {
        format!("{why}: use a percentage above 0, at most 100, e.g. 20 or 12.5")
    };
    match written::read_percent(text) {
        Ok(hundredths @ 1..=10_000) => Ok(hundredths),
        Ok(_) => Err(wrong(&"it is out of range")),
        Err(why) => Err(wrong(&why)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_above_nothing_and_at_most_everything() {
        assert_eq!(percent("20"), Ok(2_000));
        assert_eq!(percent("0.01"), Ok(1));
        assert_eq!(percent("100"), Ok(10_000));
        for wrong in ["0", "100.01", "-5", "20%", "12.345", ""] {
            assert!(percent(wrong).unwrap_err().contains("12.5"), "{wrong:?}");
        }
    }
}
