//! Entry points for `fuzz/` and for the test that runs its corpus: parsing answers of the view's script, and keys. Not
//! for other use. [`crate::Contents`] parses coupon entries too.

use coupon::CouponStatus;

use crate::{Change, entry, keys, page};

/// Checks an answer of `view/page.lua` after its code, one line per part: score and member of the next page's position,
/// empty if there is none, then pairs of a coupon's id and entry. Each coupon must stay the same when written and read
/// again.
pub fn view_page(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let parts: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let Ok(page) = page::read_page(&parts) else { return };
    assert_eq!(parts.len(), 2 + 2 * page.coupons.len(), "coupons are missing");
    for coupon in page.coupons {
        let written = Change { coupon, status: CouponStatus::Unused, version: 1 }.entry();
        let again = entry::listed(&coupon.id.to_string(), &written).ok();
        assert_eq!(again, Some(coupon), "a coupon is not what it was");
    }
    let next = page.next.map(|next| next.to_string()).unwrap_or_default();
    assert!(next.ends_with(&parts[1]), "{next:?} is another place");
}

/// Checks a prefix and a key, separated by a line break: if the key is a user's list, the key that we write for that
/// user must lead to the same user.
pub fn view_key(data: &[u8]) {
    let text = str::from_utf8(data).ok();
    let Some((prefix, key)) = text.and_then(|text| text.split_once('\n')) else { return };
    if let Some(user) = keys::user_of_key(prefix, key) {
        let written = keys::list(prefix, user);
        assert_eq!(keys::user_of_key(prefix, &written), Some(user), "{key:?} as {written:?}");
    }
}
