//! Version and commit of this build.

use std::sync::LazyLock;

/// Version of the workspace.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that the build was made from: the variable `BUILD_COMMIT` of the build. `unknown` without it, so that a
/// developer's build is not repeated for each commit.
pub const COMMIT: &str = match option_env!("BUILD_COMMIT") {
    Some(commit) if !commit.is_empty() => commit,
    _ => "unknown",
};

static BOTH: LazyLock<String> = LazyLock::new(|| format!("{VERSION} ({COMMIT})"));

/// Returns version and commit, for `--version`.
pub fn version() -> &'static str {
    &BOTH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_its_commit() {
        assert!(version().starts_with(VERSION) && version().ends_with(&format!("({COMMIT})")));
    }
}
