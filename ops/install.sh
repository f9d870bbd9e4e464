#!/usr/bin/env bash
# Installs what the build and the private servers need, and only what is missing; with --for-tests also what
# tests alone use, a browser among it.
#
# Runs before cargo, so it is plain bash. Nothing to do: it says nothing and takes a few milliseconds.
# Debian's packages come by apt-get (as root or by passwordless sudo), Kafka's jars by Maven and schemathesis
# by pip into the cache folder (COUPON_CACHE, by default .dev/cache of this project).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"

for_tests=false
if [[ ${1:-} == --for-tests ]]; then for_tests=true; fi
cache=${COUPON_CACHE:-.dev/cache}
pom=ops/kafka/pom.xml
requirements=ops/schemathesis/requirements.txt
log=.dev/install.log

say() { printf '  %s\n' "$*"; }
fail() { printf 'install: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" > /dev/null; }
have_browser() { have chromium-headless-shell || have chromium; }

# want PACKAGE WHY CHECK…: the package is missing when the check fails.
want() {
  local package=$1 why=$2
  shift 2
  if ! "$@" > /dev/null 2>&1; then
    packages+=("$package")
    reasons+=("$package: $why")
  fi
}

missing_packages() {
  packages=() reasons=()
  want g++ 'compiles the bundled Kafka client library' have g++
  want make 'drives that compilation' have make
  want pkg-config 'lets the build find OpenSSL and zlib' have pkg-config
  want libssl-dev 'OpenSSL headers, for TLS and the binlog reader' pkg-config --exists openssl
  want zlib1g-dev 'compression of Kafka messages' pkg-config --exists zlib
  want util-linux 'setpriv: servers end with their owner' have setpriv
  want mariadb-server-core 'MariaDB, the truth (no system service is installed)' have mariadbd
  want mariadb-client-core 'the mariadb command, to look into the truth' have mariadb
  want redis-server 'Redis, for the gate and the view' have redis-server
  want redis-tools 'redis-cli, to look into both' have redis-cli
  want default-jre-headless 'Java, which Kafka runs on' have java
  want openssl 'keys and certificates of tests' have openssl
  if [[ ! -d $kafka ]]; then want maven "fetches Kafka's jars" have mvn; fi
  if $for_tests; then packages_of_tests; fi
}

packages_of_tests() {
  want mariadb-client 'mariadb-binlog: tests hold the tailer against what the server itself makes of its binlog' have mariadb-binlog
  want faketime 'libfaketime: tests put the clock of one process wrong' have faketime
  want prometheus 'promtool, which tests the alert rules as Prometheus would, and the server that fires three of them in a test (no service is started)' have promtool
  want prometheus-alertmanager 'amtool, which reads ops/alertmanager.yml as Alertmanager would (no service is started)' have amtool
  want docker-compose 'checks compose.yaml (1 MB; no container is run)' have docker-compose
  want chromium-headless-shell 'a real browser without a screen: a test looks at /docs (100 MB to fetch, 306 MB on disk)' have_browser
  if [[ ! -d $schemathesis ]]; then want python3-venv 'an environment of its own for schemathesis, which tries the api by its document' python3 -c 'import ensurepip, venv'; fi
}

has_all() {
  ((${#packages[@]} == 0)) && [[ -d $kafka ]] && { ! $for_tests || [[ -d $schemathesis ]]; }
}

# How this user becomes root: not at all, by passwordless sudo, or with a sentence that says what to run.
become_root() {
  if ((EUID == 0)); then return; fi
  if have sudo && sudo -n true 2> /dev/null; then root=(sudo -n); return; fi
  fail "these packages are missing and installing them needs root. Run this once, then try again:
  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${packages[*]}"
}

# While packages are unpacked, /usr/sbin/policy-rc.d answers 101: no service is started.
policy=/usr/sbin/policy-rc.d
forbid_services() {
  if [[ -e $policy ]]; then "${root[@]}" mv "$policy" "$policy.coupon-saved"; fi
  trap allow_services EXIT
  printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" > /dev/null
  "${root[@]}" chmod 755 "$policy"
}
allow_services() {
  "${root[@]}" rm -f "$policy"
  if [[ -e $policy.coupon-saved ]]; then "${root[@]}" mv "$policy.coupon-saved" "$policy"; fi
}

apt() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -q -o DPkg::Lock::Timeout=300 "$@" < /dev/null >> "$log" 2>&1
}

install_packages() {
  have apt-get || fail "apt-get is not here (not a Debian?). Install by your system's means what gives: ${packages[*]}"
  root=(env)
  become_root
  say "installing ${#packages[@]} Debian packages:"
  printf '    %s\n' "${reasons[@]}"
  : > "$log"
  say 'reading the package lists'
  apt update || say "some package lists could not be read (see $log); going on with those that are here"
  forbid_services
  say 'fetching and unpacking'
  if ! apt install --no-install-recommends "${packages[@]}"; then
    tail -n 15 "$log" >&2
    fail "apt-get could not install them; the whole output is in $log"
  fi
  allow_services
  trap - EXIT
}

# The folder appears by one rename, so that an interrupted fetch is never taken for a whole one.
install_kafka() {
  say "fetching Apache Kafka $version (46 jars, 44 MB) into $cache"
  rm -rf "$cache"/.fetch.* # left by one that was killed
  local fresh
  fresh=$(mktemp -d "$cache/.fetch.XXXXXX")
  if ! mvn -q -B -f "$pom" org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies \
      -DincludeScope=runtime \
      -DoutputDirectory="$(realpath "$fresh")/libs" < /dev/null > "$log" 2>&1; then
    rm -rf "$fresh"
    tail -n 15 "$log" >&2
    fail "Maven could not fetch Kafka's jars; the whole output is in $log"
  fi
  chmod 755 "$fresh"
  mv "$fresh" "$(dirname "$kafka")"
}

# The same for schemathesis and what it needs, each pinned. An environment that has moved is whole for `python -m`.
install_schemathesis() {
  say "fetching schemathesis (27 packages, 93 MB on disk) into $cache"
  rm -rf "$cache"/.venv.*
  local fresh
  fresh=$(mktemp -d "$cache/.venv.XXXXXX")
  if ! { python3 -m venv "$fresh" && "$fresh/bin/pip" install -q --disable-pip-version-check --no-deps -r "$requirements"; } < /dev/null > "$log" 2>&1; then
    rm -rf "$fresh"
    tail -n 15 "$log" >&2
    fail "pip could not fetch schemathesis; the whole output is in $log"
  fi
  chmod 755 "$fresh"
  mv "$fresh" "$schemathesis"
}

have cargo || fail "cargo is not here. Install Rust's toolchain (rustup, or your system's packages), then try again."
version=$(sed -n 's|.*<kafka.version>\(.*\)</kafka.version>.*|\1|p' "$pom")
kafka=$cache/kafka-$version/libs
schemathesis=$cache/$(sed -n 's/^schemathesis==/schemathesis-/p' "$requirements")
missing_packages
if has_all; then exit 0; fi

# One installer at a time; what another one brought meanwhile is not missing any more.
mkdir -p .dev "$cache"
exec 9> "$cache/.lock"
flock 9
missing_packages
if ((${#packages[@]} > 0)); then install_packages; fi
if [[ ! -d $kafka ]]; then install_kafka; fi
if $for_tests && [[ ! -d $schemathesis ]]; then install_schemathesis; fi
