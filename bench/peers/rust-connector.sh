#!/usr/bin/env bash
# Builds the hand-written tailer of mysql-binlog-connector-rust and rdkafka, and prints where it lies. The crates come from
# crates.io, pinned in rust-connector/Cargo.lock. What is missing is said in the last line, and the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cache=${COUPON_CACHE:-.dev/cache}/peers
mkdir -p "$cache"
cache=$(realpath "$cache")
log=$cache/rust-connector.log

cd bench/peers/rust-connector
# A build of what is built already takes no time.
cargo build --release --locked --target-dir "$cache/rust-connector" < /dev/null > "$log" 2>&1 || {
  printf 'rust-connector cannot be built; the whole output is in %s\n' "$log" >&2
  exit 1
}
printf '%s\n' "$cache/rust-connector/release/rust-connector"
