//! What a movement of the stock gives back to users, as MySQL, the topic and the gate write it.
//!
//! One entry per user, separated by commas, ordered by user: `USER/NUMBERS/LAPSES`. NUMBERS are the freed numbers, separated
//! by dots, none where the template has no limit. LAPSES counts the coupons that lapsed; `lift` lifts the user's ban.

use std::fmt::{self, Write};

use thiserror::Error;

use crate::{Numbers, UserId};

/// What one user gets back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    pub user: UserId,
    /// Freed numbers, ascending.
    pub numbers: Numbers,
    pub lapses: Lapses,
}

/// How a movement changes the count of a user's lapses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lapses {
    /// It rises by this number; 0 if coupons were cancelled.
    Add(u8),
    /// It is reset to 0.
    Lift,
}

/// The text is no list of returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a list of returns that this version cannot read")]
pub struct ReturnedError;

/// A list of returns in its stored form.
#[derive(Debug, Clone, Copy)]
pub struct ReturnedList<'a>(pub &'a [Returned]);

impl fmt::Display for ReturnedList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Returned { user, numbers, lapses }) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_char(',')?;
            }
            write!(f, "{}/", user.0)?;
            for (index, number) in numbers.iter().enumerate() {
                if index > 0 {
                    f.write_char('.')?;
                }
                write!(f, "{number}")?;
            }
            match lapses {
                Lapses::Add(count) => write!(f, "/{count}")?,
                Lapses::Lift => f.write_str("/lift")?,
            }
        }
        Ok(())
    }
}

/// Reads the stored form.
///
/// # Errors
/// The text is no such list.
pub fn read_returned(text: &str) -> Result<Vec<Returned>, ReturnedError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    text.split(',').map(|entry| read_entry(entry).ok_or(ReturnedError)).collect()
}

fn read_entry(entry: &str) -> Option<Returned> {
    let mut parts = entry.split('/');
    let user = parts.next()?;
    let numbers = parts.next()?;
    let lapses = parts.next()?;
    if parts.next().is_some() {
        return None;
    }
    let numbers: Numbers = match numbers {
        "" => Numbers::new(),
        numbers => numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?,
    };
    let lapses = match lapses {
        "lift" => Lapses::Lift,
        count => Lapses::Add(count.parse().ok()?),
    };
    Some(Returned { user: UserId(user.parse().ok()?), numbers, lapses })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::limit;

    fn any_return() -> impl Strategy<Value = Returned> {
        let lapses = prop_oneof![any::<u8>().prop_map(Lapses::Add), Just(Lapses::Lift)];
        let numbers = proptest::collection::vec(1u8..=100, 0..5);
        (0..=i64::MAX, numbers, lapses).prop_map(|(user, numbers, lapses)| Returned {
            user: UserId(user),
            numbers,
            lapses,
        })
    }

    #[test]
    fn a_list_names_users_with_their_numbers_and_lapses() {
        let list = [
            Returned { user: UserId(7), numbers: vec![1, 3], lapses: Lapses::Add(2) },
            Returned { user: UserId(8), numbers: vec![], lapses: Lapses::Lift },
        ];
        assert_eq!(ReturnedList(&list).to_string(), "7/1.3/2,8//lift");
        for wrong in ["7", "7/1", "7/1/2/3", "x/1/2", "7/256/1", "7/1/2,", "7/./1"] {
            assert_eq!(read_returned(wrong), Err(ReturnedError), "{wrong}");
        }
    }

    #[test]
    fn the_largest_return_fits_its_column_and_its_counts() {
        let one = Returned { user: UserId(i64::MAX), numbers: vec![100], lapses: Lapses::Add(1) };
        let list = vec![one; limit::RETURN_COUPONS_MAX];
        assert!(ReturnedList(&list).to_string().len() <= 8_000);
        assert!(u8::try_from(limit::RETURN_COUPONS_MAX).is_ok(), "one user's lapses");
    }

    proptest! {
        #[test]
        fn any_list_is_read_as_it_was_written(list in proptest::collection::vec(any_return(), 0..20)) {
            prop_assert_eq!(read_returned(&ReturnedList(&list).to_string()).unwrap(), list);
        }

        #[test]
        fn any_text_is_a_list_or_an_error(text: String) {
            drop(read_returned(&text));
        }
    }
}
