//! A small sale every few minutes on a stack that is left running, so that there is something to see.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::process::probe::Probe;
use crate::{EnvFile, Error, Process, Result, Tie, paths};

/// Names the process that holds the sales: its record and its log.
pub const REHEARSAL: &str = "rehearsal";

/// The sale: it is sold out after half a minute, and as many users come too late.
const TEMPLATE: &str = r#"{
  "name": "A small sale",
  "discount": { "kind": "percent_off", "percent_off": "20", "cap_minor": 2000, "minimum_spend_minor": 5000, "currency": "EUR" },
  "total_stock": 300, "per_user_limit": 1, "claim_mode": "spill",
  "claim_starts_at": "2026-01-01T00:00:00Z", "claim_ends_at": "2026-01-02T00:00:00Z", "valid_for_ms": 3600000
}
"#;

/// Users of a sale, and those of them who come in a second: a minute of something to see.
const USERS: &str = "600";
const RATE: &str = "10";

/// Pause between two sales, in seconds: with the minute of a sale, one begins every three minutes.
const EVERY_SECONDS: &str = "120";

/// Starts a process that holds small sales on the stack in `dir`, and leaves it running. It ends with the stack.
///
/// # Errors
/// `coupon` is not built, the template's file cannot be written, or the process cannot be run.
pub fn rehearse(dir: &Path, env: &EnvFile) -> Result<()> {
    let dir = paths::absolute(dir)?;
    let file = dir.join("rehearsal.json");
    fs::write(&file, TEMPLATE).map_err(Error::file("write", &file))?;
    let mut environment = BTreeMap::new();
    for name in ["API_URL", "OPERATOR_KEY", "JWT_SECRET"] {
        environment.insert(name.to_owned(), env.get(name)?.to_owned());
    }
    // Nobody asks whether it is ready, so it needs no port.
    let process =
        Process::new(REHEARSAL, paths::binary("coupon")?, &dir, 0, Probe::Readyz, Tie::Detached);
    let mut process = process
        .environment(environment)
        .arguments(["rehearse", "--users", USERS, "--rate", RATE, "--every", EVERY_SECONDS])
        .arguments([Path::new("--template"), file.as_path()]);
    process.spawn()?;
    process.let_go();
    Ok(())
}
