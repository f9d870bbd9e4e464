//! What the view's script answers and what its keys say, for `fuzz/` and the test that runs its corpus; nobody
//! else may call it. A coupon's entry is read by [`crate::Contents`] too.

use coupon::CouponStatus;

use crate::{Change, entry, keys, page};

/// The answer of `view_page.lua` behind its code, a line for each part: score and member of the place where it goes on,
/// empty if nowhere, and pairs of a coupon's id and entry. Each coupon that is read means the same when it is written.
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

/// A prefix, the end of the line, a key: whose list it is, the same for a key as we write it.
pub fn view_key(data: &[u8]) {
    let text = str::from_utf8(data).ok();
    let Some((prefix, key)) = text.and_then(|text| text.split_once('\n')) else { return };
    if let Some(user) = keys::user_of_list(prefix, key) {
        let written = keys::list(prefix, user);
        assert_eq!(keys::user_of_list(prefix, &written), Some(user), "{key:?} as {written:?}");
    }
}
