//! The keys of the view. Layout version 1; another layout gets another number, never an edit.
//!
//! The user id is the hash tag, so a user's two keys live on one node; a prefix, for tests that
//! share a server, stands outside it.

use coupon::UserId;

/// The user's unused coupons, a ZSet: member `templateId_couponId`, score = time of the claim in
/// milliseconds. One more member below score 0 carries the rebuild's token.
pub fn list(prefix: &str, user: UserId) -> String {
    format!("{prefix}view:1:{{{user}}}:list")
}

/// What the view knows of the user's coupons, a hash: coupon id → entry, see [`crate::Change`]. The
/// fields `~token`, `~state` and `~since` carry the rebuild's token and state.
pub fn coupons(prefix: &str, user: UserId) -> String {
    format!("{prefix}view:1:{{{user}}}:coupons")
}

/// The pattern of all lists under the prefix.
pub(crate) fn lists(prefix: &str) -> String {
    let quoted: String = prefix.chars().flat_map(quote).collect();
    format!("{quoted}view:1:{{*}}:list")
}

/// The user of a list's key.
pub(crate) fn user_of_list(prefix: &str, key: &str) -> Option<UserId> {
    key.strip_prefix(prefix)?.strip_prefix("view:1:{")?.strip_suffix("}:list")?.parse().ok()
}

fn quote(character: char) -> impl Iterator<Item = char> {
    let escape = matches!(character, '*' | '?' | '[' | ']' | '\\').then_some('\\');
    escape.into_iter().chain([character])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_keys_of_a_user_share_the_hash_tag_and_the_prefix_stays_outside_it() {
        assert_eq!(list("t:", UserId(7)), "t:view:1:{7}:list");
        assert_eq!(coupons("t:", UserId(7)), "t:view:1:{7}:coupons");
        assert_eq!(user_of_list("t:", "t:view:1:{7}:list"), Some(UserId(7)));
        assert_eq!(user_of_list("t:", "view:1:{7}:list"), None);
    }
}
