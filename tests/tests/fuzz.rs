//! A short run of the fuzz targets: their seeds unchanged, and many times damaged. `./dev soak fuzz` runs libFuzzer
//! for longer.
#![expect(clippy::unwrap_used, reason = "in a test it is the failure")]

#[path = "../../fuzz/src/lib.rs"]
#[expect(unreachable_pub, reason = "in `fuzz/` it is a library")]
mod decoders;

use std::{
    collections::BTreeSet,
    env,
    fmt::Write as _,
    fs,
    panic::catch_unwind,
    path::Path,
    sync::Mutex,
    time::{Duration, Instant},
};

use decoders::TARGETS;
use devstack::project_root;
use fastrand::Rng;

/// Serializes the tests, so that memory used by one is not attributed to another.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Damaged seeds for each target: a few seconds in total.
const ROUNDS: usize = 3_000;

/// Default seed of the damage; `FUZZ_SEED` overrides it.
const SEED: u64 = 20_261_121;

/// Most edits of one input.
const EDITS: usize = 4;

/// Longest input; longer ones find nothing new.
const INPUT_BYTES_MAX: usize = 16 * 1024;

/// Memory in KiB that the targets may use beyond the test's own at its start: over a thousand times the longest
/// input, but far below what a false length would allocate.
const MEMORY_MAX: u64 = 32 * 1024;

/// The same limit for targets that decompress zstd, whose window in our library is up to 100 MiB.
const MEMORY_WITH_WINDOW_MAX: u64 = 192 * 1024;

/// Targets with such a window. They run last, as the memory peak is that of the whole process.
const WITH_WINDOW: [&str; 2] = ["binlog", "compressed_transaction"];

/// Longest time for one input, on a busy machine.
const TIME_MAX: Duration = Duration::from_secs(5);

#[test]
fn damaged_input_is_read_or_refused_within_its_memory_and_time() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let seed = env::var_os("FUZZ_SEED").and_then(|text| text.to_str()?.parse().ok());
    let seed = seed.unwrap_or(SEED);
    println!("FUZZ_SEED={seed}");
    let mut names = TARGETS.map(|(name, _)| name);
    names.sort_by_key(|name| WITH_WINDOW.contains(name));
    let held = memory_peak();
    for name in names {
        let mut rng = Rng::with_seed(seed);
        let seeds = seeds(name);
        for input in &seeds {
            check(name, input, held);
        }
        for _ in 0..ROUNDS {
            check(name, &damaged(&seeds, &mut rng), held);
        }
    }
}

#[test]
fn each_target_has_a_file_and_each_file_is_built() {
    let _alone = ONE_AT_A_TIME.lock().unwrap();
    let fuzz = project_root().join("fuzz");
    let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let files = fs::read_dir(fuzz.join("fuzz_targets")).unwrap();
    let files: BTreeSet<String> = files.map(|file| stem(&file.unwrap().path())).collect();
    assert_eq!(files, known);
    let manifest = fs::read_to_string(fuzz.join("Cargo.toml")).unwrap();
    for name in known {
        let text = fs::read_to_string(fuzz.join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(text.contains(&format!("run(\"{name}\", data)")), "{name}.rs runs another target");
        assert!(manifest.contains(&format!("name = \"{name}\"")), "Cargo.toml lacks {name}");
    }
}

/// Runs a target on one input; a failure shows the input. `held` is the memory peak before, in KiB.
fn check(name: &str, input: &[u8], held: u64) {
    let begun = Instant::now();
    let outcome = catch_unwind(|| decoders::run(name, input));
    let time = begun.elapsed();
    let memory = memory_peak() - held;
    let allowed = match WITH_WINDOW.contains(&name) {
        true => MEMORY_WITH_WINDOW_MAX,
        false => MEMORY_MAX,
    };
    assert!(
        outcome.is_ok() && memory <= allowed && time <= TIME_MAX,
        "{name}: {} within {time:?} and {memory} KiB on this input (put it into fuzz/seeds/{name}):\n{}",
        if outcome.is_ok() { "read" } else { "panicked" },
        hexadecimal(input),
    );
}

/// Returns this process's peak memory in KiB.
fn memory_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string cannot fail.
        let _written = write!(text, "{byte:02x}");
    }
    text
}

/// Returns a target's seeds in a stable order.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let folder = project_root().join("fuzz/seeds").join(name);
    let mut files: Vec<_> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!files.is_empty(), "{} has no seeds", folder.display());
    files.sort();
    files.iter().map(|file| fs::read(file).unwrap()).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap().to_str().unwrap().to_owned()
}

/// Returns a seed with some edits.
fn damaged(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = rng.choice(seeds).unwrap().clone();
    for _ in 0..rng.usize(1..=EDITS) {
        edit(&mut input, seeds, rng);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn edit(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    /// Limits of value ranges, and length markers.
    const ODD: [u8; 12] = [0, 1, 2, 0x1f, 0x20, 0x7f, 0x80, 0xfb, 0xfc, 0xfd, 0xfe, 0xff];
    let at = rng.usize(..=input.len());
    let end = rng.usize(at..=input.len().min(at + 64));
    match rng.u8(..7) {
        0 if at < input.len() => input[at] ^= 1 << rng.u8(..8),
        1 if at < input.len() => input[at] = ODD[rng.usize(..ODD.len())],
        2 => input.truncate(at),
        3 => drop(input.drain(at..end)),
        4 => {
            let part = input[at..end].to_vec();
            input.splice(at..at, part);
        }
        5 => {
            let other = rng.choice(seeds).unwrap();
            input.truncate(at);
            input.extend_from_slice(&other[rng.usize(..=other.len())..]);
        }
        _ => {
            let random: Vec<u8> = (0..rng.usize(1..=8)).map(|_| rng.u8(..)).collect();
            input.splice(at..at, random);
        }
    }
}
