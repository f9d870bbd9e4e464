//! The scripts, with their shared parts inserted.

use redis::Script;

/// Reads the state of a user's keys from their markers.
const VIEW_STATE: &str = include_str!("../../../../lua/view/includes/state.lua");
/// Writes one coupon if the version is newer.
const APPLY_IF_NEWER: &str = include_str!("../../../../lua/view/includes/apply_if_newer.lua");

/// One field per file.
pub(crate) struct Scripts {
    pub(crate) apply_change: Script,
    pub(crate) write_again: Script,
    pub(crate) page: Script,
    pub(crate) begin: Script,
    pub(crate) load: Script,
    pub(crate) complete: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            apply_change: script(include_str!("../../../../lua/view/apply_change.lua")),
            write_again: script(include_str!("../../../../lua/view/write_again.lua")),
            page: script(include_str!("../../../../lua/view/page.lua")),
            begin: script(include_str!("../../../../lua/view/begin.lua")),
            load: script(include_str!("../../../../lua/view/load.lua")),
            complete: script(include_str!("../../../../lua/view/complete.lua")),
        }
    }
}

/// Replaces each line `-- include NAME` by that file in `lua/view/includes`.
fn script(text: &str) -> Script {
    let whole = text
        .replace("-- include state\n", VIEW_STATE)
        .replace("-- include apply_if_newer\n", APPLY_IF_NEWER);
    Script::new(&whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_include_line_is_replaced_by_its_file() {
        let with = Script::new(&format!("#!lua\n{VIEW_STATE}return 1\n"));
        assert_eq!(script("#!lua\n-- include state\nreturn 1\n").get_hash(), with.get_hash());
    }
}
