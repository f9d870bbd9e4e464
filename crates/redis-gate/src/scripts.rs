//! The gate's scripts, compiled in, with their includes inserted.

use redis::Script;

/// The layout of an entry, shared by the scripts that read or write one.
const ENTRY: &str = include_str!("../../../lua/gate/includes/entry.lua");

/// How a number in meta is read, shared by the scripts that decide by one.
const NUMBERS: &str = include_str!("../../../lua/gate/includes/numbers.lua");

/// How a return frees numbers and counts lapses, shared by the scripts that apply returns.
const RETURNED: &str = include_str!("../../../lua/gate/includes/returned.lua");

pub(crate) struct Scripts {
    pub(crate) claim: Script,
    pub(crate) settle: Script,
    pub(crate) release: Script,
    pub(crate) published: Script,
    pub(crate) relayed: Script,
    pub(crate) make_group: Script,
    pub(crate) begin: Script,
    pub(crate) load: Script,
    pub(crate) load_rejected: Script,
    pub(crate) load_returned: Script,
    pub(crate) open: Script,
    pub(crate) apply_movement: Script,
    pub(crate) set_state: Script,
    pub(crate) halt: Script,
    pub(crate) lift_halt: Script,
    pub(crate) mark_unreadable: Script,
    pub(crate) unload: Script,
    pub(crate) remove_stale: Script,
    pub(crate) sold_out: Script,
}

impl Scripts {
    pub(crate) fn new() -> Self {
        Self {
            claim: script(include_str!("../../../lua/gate/claim.lua")),
            settle: script(include_str!("../../../lua/gate/settle.lua")),
            release: script(include_str!("../../../lua/gate/release.lua")),
            published: script(include_str!("../../../lua/outbox/published.lua")),
            relayed: script(include_str!("../../../lua/outbox/relayed.lua")),
            make_group: script(include_str!("../../../lua/outbox/make_group.lua")),
            begin: script(include_str!("../../../lua/gate/begin.lua")),
            load: script(include_str!("../../../lua/gate/load.lua")),
            load_rejected: script(include_str!("../../../lua/gate/load_rejected.lua")),
            load_returned: script(include_str!("../../../lua/gate/load_returned.lua")),
            open: script(include_str!("../../../lua/gate/open.lua")),
            apply_movement: script(include_str!("../../../lua/gate/move.lua")),
            set_state: script(include_str!("../../../lua/gate/set_state.lua")),
            halt: script(include_str!("../../../lua/gate/halt.lua")),
            lift_halt: script(include_str!("../../../lua/gate/lift_halt.lua")),
            mark_unreadable: script(include_str!("../../../lua/gate/mark_unreadable.lua")),
            unload: script(include_str!("../../../lua/gate/unload.lua")),
            remove_stale: script(include_str!("../../../lua/gate/remove_stale.lua")),
            sold_out: script(include_str!("../../../lua/gate/sold_out.lua")),
        }
    }
}

/// Replaces the include lines by the included texts; the shebang stays the first line.
fn script(text: &str) -> Script {
    let text = text.replace("-- include entry\n", ENTRY);
    let text = text.replace("-- include numbers\n", NUMBERS);
    Script::new(&text.replace("-- include returned\n", RETURNED))
}
