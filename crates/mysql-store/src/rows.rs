//! Statements over many rows, in a few fixed sizes. The server keeps every prepared statement, so one per possible
//! count would use up its memory.

/// Rows of the largest multi-row statement. With sixteen columns it has 4,096 placeholders, well below MySQL's limit of
/// 65,535.
const ROWS_MAX: usize = 256;

/// Splits `rows` into runs whose lengths are powers of two, the longest first.
pub(crate) fn runs<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = ROWS_MAX.min(1 << rows.len().checked_ilog2()?);
        let (run, rest) = rows.split_at(length);
        rows = rest;
        Some(run)
    })
}

/// Builds `head`, then `row` `count` times with `separator` in between, then `tail`.
pub(crate) fn repeat(head: &str, row: &str, separator: &str, count: usize, tail: &str) -> String {
    let mut sql = String::with_capacity(head.len() + tail.len() + count * (row.len() + 1));
    sql.push_str(head);
    for index in 0..count {
        if index > 0 {
            sql.push_str(separator);
        }
        sql.push_str(row);
    }
    sql.push_str(tail);
    sql
}

/// Pads `ids` with the last one to the next power of two. Naming an id twice does not change a statement's effect.
pub(crate) fn filled<T: Copy>(ids: &[T]) -> Vec<T> {
    let mut filled = ids.to_vec();
    if let Some(last) = ids.last() {
        filled.resize(ids.len().next_power_of_two(), *last);
    }
    filled
}

#[cfg(test)]
mod tests {
    use coupon::CouponId;

    use super::*;

    #[test]
    fn runs_are_powers_of_two_and_lose_no_row() {
        for count in [0, 1, 2, 3, 255, 256, 257, 300, 1000] {
            let rows: Vec<usize> = (0..count).collect();
            let all: Vec<usize> = runs(&rows).flatten().copied().collect();
            assert_eq!(all, rows);
            assert!(runs(&rows).all(|run| run.len().is_power_of_two() && run.len() <= ROWS_MAX));
        }
    }

    #[test]
    fn ids_are_filled_up_to_a_power_of_two_with_the_last_one() {
        let ids = |numbers: &[i64]| numbers.iter().copied().map(CouponId).collect::<Vec<_>>();
        assert_eq!(filled::<CouponId>(&[]), []);
        assert_eq!(filled(&ids(&[7])), ids(&[7]));
        assert_eq!(filled(&ids(&[1, 2, 3, 4, 5])), ids(&[1, 2, 3, 4, 5, 5, 5, 5]));
    }
}
