//! What ops/ and compose.yaml let the api take of a machine: as much as docs/operate/settings.md says, and enough for
//! the worst case that it describes.

use std::fs;

use devstack::project_root;

const SETTINGS: &str = "docs/operate/settings.md";
const UNIT: &str = "ops/systemd/coupon@.service";

/// Bytes that the worst case takes for each connection, and for unfinished requests.
const BYTES_PER_CONNECTION: u64 = (45 + 192) * KIB;
const BYTES_OF_REQUESTS: u64 = 200 * MIB;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// Files that an api opens besides its connections: what `ulimit -n` must exceed `CONNECTIONS_MAX` by.
const OTHER_FILES: u64 = 276;

fn text(path: &str) -> String {
    fs::read_to_string(project_root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the number behind `words`, without thousands separators.
fn number_after(text: &str, words: &str) -> u64 {
    let at = text.find(words).unwrap_or_else(|| panic!("{words} is missing")) + words.len();
    let digits = text[at..].chars().take_while(|c| c.is_ascii_digit() || *c == ',');
    digits.filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

#[test]
fn units_and_containers_have_room_for_the_connections_that_the_settings_promise() {
    let settings = text(SETTINGS);
    let unit = text(UNIT);
    let compose = text("compose.yaml");
    let connections = number_after(&settings, "| `CONNECTIONS_MAX` | ");
    let api =
        compose.split("\n  api:\n").nth(1).unwrap().split("\n  outbox-relay:\n").next().unwrap();

    let files = number_after(&unit, "\nLimitNOFILE=");
    assert!(files >= connections + OTHER_FILES, "{files} files for {connections} connections");
    assert_eq!(number_after(api, "ulimits: {nofile: "), files, "compose.yaml and {UNIT}");

    let gigabytes = number_after(&unit, "\nMemoryMax=");
    assert!(unit.contains(&format!("\nMemoryMax={gigabytes}G\n")), "it is in gigabytes");
    assert!(settings.contains(&format!("`MemoryMax={gigabytes}G`")), "{SETTINGS} and {UNIT}");
    assert!(api.contains(&format!("mem_limit: {gigabytes}g\n")), "compose.yaml and {UNIT}");
    let worst = connections * BYTES_PER_CONNECTION + BYTES_OF_REQUESTS;
    assert!(worst < gigabytes * GIB, "the worst case takes {} MiB", worst / MIB);
    for named in
        ["takes 45 KiB for each connection with a claim under way", "192 KiB of kernel memory"]
    {
        assert!(settings.contains(named), "{SETTINGS} no longer says {named:?}");
    }
}
