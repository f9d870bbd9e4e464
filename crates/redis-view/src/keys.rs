//! The keys of the view. This is layout version 1; a change of the layout gets a new number.
//!
//! The user id is the hash tag, so a user's two keys live on one node. The prefix, for tests that
//! share a server, is outside the tag.

use coupon::UserId;

/// Key of the user's unused coupons, a ZSet: member `templateId_couponId`, score = time of the
/// claim in milliseconds. One more member, with a score below 0, carries the rebuild's token.
pub fn list(prefix: &str, user: UserId) -> String {
    format!("{prefix}view:1:{{{user}}}:list")
}

/// Key of the entries of all the user's coupons that the view knows, a hash: coupon id → entry,
/// see [`crate::Change`]. The fields `~token`, `~state` and `~since` carry the rebuild's token and
/// state.
pub fn coupons(prefix: &str, user: UserId) -> String {
    format!("{prefix}view:1:{{{user}}}:coupons")
}

/// Pattern that matches all keys of views under the prefix.
pub(crate) fn all(prefix: &str) -> String {
    let quoted: String = prefix.chars().flat_map(quote).collect();
    format!("{quoted}view:1:{{*}}:*")
}

/// Returns the user of a list or a hash.
pub(crate) fn user_of_key(prefix: &str, key: &str) -> Option<UserId> {
    let (user, part) = key.strip_prefix(prefix)?.strip_prefix("view:1:{")?.split_once("}:")?;
    matches!(part, "list" | "coupons").then(|| user.parse().ok())?
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
        for key in [list("t:", UserId(7)), coupons("t:", UserId(7))] {
            assert_eq!(user_of_key("t:", &key), Some(UserId(7)));
        }
        assert_eq!(user_of_key("t:", "view:1:{7}:list"), None);
        assert_eq!(user_of_key("t:", "t:view:1:{7}:other"), None);
    }
}
