//! Money and percentages as people write them: `€20.00`, `JPY 500`, `12.5`. The only reader and the only writer of
//! such texts. They compute with integers, no floats: a sum is what was typed, to the last digit.

use std::iter;

use thiserror::Error;

use crate::{Discount, DiscountKind, limit};

/// Decimals of a percentage: it is stored in hundredths of a percent.
const PERCENT_DECIMALS: usize = 2;

/// Decimals of every currency that the lists below lack, also of one that ISO 4217 does not have.
const USUAL_DECIMALS: usize = 2;

/// Currencies without decimals, by ISO 4217.
const WITHOUT_DECIMALS: [&str; 17] = [
    "BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND",
    "VUV", "XAF", "XOF", "XPF",
];

/// Currencies with three decimals, by ISO 4217.
const THREE_DECIMALS: [&str; 7] = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"];

/// Units of account with four decimals, by ISO 4217.
const FOUR_DECIMALS: [&str; 2] = ["CLF", "UYW"];

/// The currency that is shown by its sign. Other signs stand for several currencies, such as `$`, `£` and `¥`.
const SIGNED: &str = "EUR";
const SIGN: &str = "€";

/// Why a text is no number of a currency, or no percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NotWritten {
    #[error("it is no number with a decimal point")]
    NoNumber,
    #[error("it has more than {most} decimals")]
    TooManyDecimals { most: usize },
    #[error("it is too large")]
    TooLarge,
}

/// Returns how many decimals the amounts of a currency have: its exponent in ISO 4217.
pub fn decimals(currency: &str) -> usize {
    if WITHOUT_DECIMALS.contains(&currency) {
        0
    } else if THREE_DECIMALS.contains(&currency) {
        3
    } else if FOUR_DECIMALS.contains(&currency) {
        4
    } else {
        USUAL_DECIMALS
    }
}

/// Writes minor units as money: `€20.00`, `JPY 500`, `KWD 1.250`.
pub fn amount(minor: i64, currency: &str) -> String {
    let sign = sign(minor);
    let label = label(currency);
    format!("{sign}{label}{}", pointed(minor.unsigned_abs(), decimals(currency)))
}

/// Reads money as minor units: what [`amount`] writes, also without the currency and without trailing zeros.
///
/// # Errors
/// The text is no number with at most the currency's decimals, or exceeds 64 bits.
pub fn read_amount(text: &str, currency: &str) -> Result<i64, NotWritten> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let number = unsigned.strip_prefix(label(currency).as_str()).unwrap_or(unsigned);
    read(number, decimals(currency), text.starts_with('-'))
}

/// Writes hundredths of a percent as a percentage, as short as possible: `20`, `12.5`.
pub fn percent(hundredths: i64) -> String {
    let number = pointed(hundredths.unsigned_abs(), PERCENT_DECIMALS);
    let short = number.trim_end_matches('0').trim_end_matches('.');
    format!("{}{short}", sign(hundredths))
}

/// Reads a percentage as hundredths of a percent: `12.5` is 1250.
///
/// # Errors
/// The text is no number with at most two decimals, or exceeds 64 bits.
pub fn read_percent(text: &str) -> Result<i64, NotWritten> {
    let number = text.strip_prefix('-').unwrap_or(text);
    read(number, PERCENT_DECIMALS, text.starts_with('-'))
}

impl Discount {
    /// Says in words what the coupon is good for: `20 % off, at most €20.00, from €50.00`.
    pub fn words(&self) -> String {
        let money = |minor| amount(minor, &self.currency);
        let mut words = match self.kind {
            DiscountKind::AmountOff => format!("{} off", money(self.value)),
            DiscountKind::PercentOff => format!("{} % off", percent(self.value)),
            DiscountKind::FreeShipping => "free shipping".to_owned(),
        };
        if let Some(cap) = self.cap {
            words.push_str(", at most ");
            words.push_str(&money(cap));
        }
        if self.minimum_spend > 0 {
            words.push_str(", from ");
            words.push_str(&money(self.minimum_spend));
        }
        words
    }

    /// Returns what is probably not meant, although it is accepted.
    pub fn warning(&self) -> Option<String> {
        let is_unusual =
            self.kind == DiscountKind::PercentOff && self.value < limit::PERCENT_USUAL_MIN;
        is_unusual.then(|| {
            let is = percent(self.value);
            // Whoever thinks of 0.2 as a fifth, or in other units, is wrong by a factor of a hundred.
            let meant = self.value;
            format!("discount.percent_off: {is} % is less than 1 %. If {meant} % is meant, send {meant}.")
        })
    }
}

/// What stands before an amount.
fn label(currency: &str) -> String {
    if currency == SIGNED { SIGN.to_owned() } else { format!("{currency} ") }
}

fn sign(count: i64) -> &'static str {
    if count < 0 { "-" } else { "" }
}

/// Writes a count of the last decimal as a number with a point.
fn pointed(count: u64, decimals: usize) -> String {
    // At least one digit before the point.
    let digits = format!("{count:0>width$}", width = decimals + 1);
    let (whole, fraction) = digits.split_at(digits.len() - decimals);
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

/// Reads a number without a sign as a count of its last decimal.
fn read(number: &str, decimals: usize, is_negative: bool) -> Result<i64, NotWritten> {
    let parts = number.split_once('.');
    let whole = parts.map_or(number, |(whole, _)| whole);
    let fraction = parts.map(|(_, fraction)| fraction);
    if !is_digits(whole) || !fraction.is_none_or(is_digits) {
        return Err(NotWritten::NoNumber);
    }
    let fraction = fraction.unwrap_or_default();
    let Some(missing) = decimals.checked_sub(fraction.len()) else {
        return Err(NotWritten::TooManyDecimals { most: decimals });
    };
    let direction = if is_negative { -1 } else { 1 };
    let mut digits = whole.bytes().chain(fraction.bytes()).chain(iter::repeat_n(b'0', missing));
    // Downwards for a negative number: the smallest one has no positive counterpart.
    let count = digits.try_fold(0_i64, |count, digit| {
        count.checked_mul(10)?.checked_add(direction * i64::from(digit - b'0'))
    });
    count.ok_or(NotWritten::TooLarge)
}

fn is_digits(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;
