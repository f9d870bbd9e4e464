#!/usr/bin/env bash
# Builds the hand-written tailer of go-mysql and franz-go, and prints where it lies. The modules come from Go's
# proxy, pinned in go-mysql/go.mod. What is missing is said in the last line, and the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

cache=${COUPON_CACHE:-.dev/cache}/peers
mkdir -p "$cache"
cache=$(realpath "$cache")
log=$cache/go-mysql.log

fail() { printf '%s\n' "$*" >&2; exit 1; }

# The oldest Go that takes go-mysql 1.16; Debian's own package may be older.
wanted=$(sed -n 's/^go \([0-9]*\.[0-9]*\).*/\1/p' bench/peers/go-mysql/go.mod)
new_enough() {
  local found
  found=$(GOTOOLCHAIN=local "$1" version 2> /dev/null | sed -n 's/.* go\([0-9]*\.[0-9]*\).*/\1/p')
  [[ -n $found && $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) == "$wanted" ]]
}
find_go() {
  for go in "$(command -v go || true)" /usr/local/go/bin/go /usr/lib/go-*/bin/go; do
    if [[ -x $go ]] && new_enough "$go"; then return; fi
  done
  return 1
}
if ! find_go; then
  ((EUID == 0)) || fail "go-mysql needs Go $wanted or newer: install it, or run this as root"
  { apt-get update -q || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "golang-$wanted-go"
  } < /dev/null > "$log" 2>&1 || fail "go-mysql needs Go $wanted or newer, and Debian's packages have none"
  find_go || fail "go-mysql needs Go $wanted or newer"
fi

cd bench/peers/go-mysql
# A build of what is built already takes no time; GOTOOLCHAIN: nothing but modules is fetched.
GOTOOLCHAIN=local "$go" build -buildvcs=false -o "$cache/go-mysql" . < /dev/null > "$log" 2>&1 \
  || fail "go-mysql cannot be built; the whole output is in $log"
printf '%s\n' "$cache/go-mysql"
