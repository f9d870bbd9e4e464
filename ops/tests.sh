# How ./dev runs tests; it reads this file, and has the functions and variables that are not here.
# shellcheck shell=bash disable=SC2154

# Test servers without data, ended whichever way this run ends. Arguments go to devstack. Each tier has new ones: the
# crates' tests leave thousands of topics and tables, behind which end-to-end tests took 1.7 times as long.
test_servers() {
  heading 'servers: MariaDB, two Redis, Kafka in .dev/test'
  trap 'target/debug/devstack servers down --dir .dev/test > /dev/null' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  target/debug/devstack servers up --dir .dev/test --fresh "$@"
}

# ── Tests. Those in a module `full` belong to the full tier, all others to the quick one (CONTRIBUTING.md).

# Tests that run at a time: of a crate, whose tests wait for servers most of their time; and end to end, in either tier,
# where each test keeps six processes busy. More of them than cores can serve take longer and cost more: processes that
# wait for a core live longer, and ask in vain more often (44 tests: 165 s of processor time at three, 242 at six).
crate_tests_at_once=${CRATE_TESTS_AT_ONCE:-5}
end_to_end_tests_at_once=${END_TO_END_TESTS_AT_ONCE:-3}

# Crates that are tested at a time: while one waits for its last test, the other uses the cores.
crates_at_once=2

# Slowest tests that are listed at the end.
slowest_tests=40

# list_test_programs [CARGO'S ARGUMENTS]: writes folder and command of each test program to .dev/tests/list. Cargo hands
# them to a script that notes them down. The end-to-end tests come first: they take longest.
list_test_programs() {
  local triple
  rm -rf .dev/tests .dev/not-checked.log
  mkdir -p .dev/tests
  triple=$(rustc -vV | sed -n 's/^host: //p' | tr 'a-z-' 'A-Z_')
  printf '#!/bin/sh\nprintf "%%s\\t%%s\\n" "$PWD" "$*" >> "%s"\n' "$PWD/.dev/tests/noted" > .dev/tests/note
  chmod +x .dev/tests/note
  env "CARGO_TARGET_${triple}_RUNNER=$PWD/.dev/tests/note" \
    cargo test --tests "$@" > .dev/tests/cargo.log 2>&1 || { cat .dev/tests/cargo.log; return 1; }
  { grep '/pipeline-' .dev/tests/noted; grep -v '/pipeline-' .dev/tests/noted; } > .dev/tests/list
}

# run_test_program FOLDER PROGRAM TESTS_AT_ONCE [LIBTEST'S ARGUMENTS]: runs a program from its folder.
run_test_program() {
  # Only where unstable options are allowed does libtest show the time of a test. The frames of a backtrace would bury a
  # failure's message. OpenSSL reads the system's authorities for each client (0.1 s), and no test needs them: each names
  # its own.
  local status=0
  (cd "$1" && SSL_CERT_FILE=/dev/null SSL_CERT_DIR=/dev/null RUSTC_BOOTSTRAP=1 RUST_BACKTRACE=0 \
    "$2" -Z unstable-options --report-time --test-threads "$3" "${@:4}" 2>&1 < /dev/null) || status=$?
  # A program whose tests failed exits with 101. One that crashed has printed neither a failure nor a result.
  if ((status != 0 && status != 101)); then
    printf '\ncrashed: %s (%s) exited with %d before its tests had ended; its last lines are above\n' \
      "$(basename "$2")" "$1" "$status"
  fi
  return "$status"
}

# run_test_programs [LIBTEST'S ARGUMENTS]: runs the programs of a list on standard input. A crate's output is printed when
# it has ended, since another crate's tests run beside it.
run_test_programs() {
  local status=0 folder program running=0 parts
  parts=$(mktemp -d .dev/tests/parts.XXXXXX)
  while IFS=$'\t' read -r folder program; do
    if [[ $program == */pipeline-* ]]; then
      run_test_program "$folder" "$program" "$end_to_end_tests_at_once" "$@" || status=1
      continue
    fi
    if ((running == crates_at_once)); then
      wait -n || status=1
      running=$((running - 1))
    fi
    {
      part=$parts/$(basename "$program")
      failed=0
      run_test_program "$folder" "$program" "$crate_tests_at_once" "$@" > "$part" || failed=1
      flock "$parts" cat "$part"
      exit "$failed"
    } &
    running=$((running + 1))
  done
  for ((; running > 0; running--)); do wait -n || status=1; done
  return "$status"
}

# run_tests WHAT [LIBTEST'S ARGUMENTS]: runs the listed programs, and keeps their output.
run_tests() {
  heading "$1, of $(wc -l < .dev/tests/list) programs (their output: .dev/tests/log)"
  run_test_programs "${@:2}" < .dev/tests/list | tee -a .dev/tests/log
}

run_full_tests() {
  # Most of them start a server of their own.
  local crate_tests_at_once=3
  run_tests 'tests of the full tier' full::
}

# What the store and the landing of claims do on MariaDB, they do on MySQL: their tests run there once more.
run_tests_on_mysql() {
  grep -q MYSQL_DATABASE_URL .dev/test/env || return 0
  heading 'tests of mysql-store and landing on MySQL'
  (
    set -a
    # shellcheck disable=SC1091
    . .dev/test/env
    DATABASE_URL=$MYSQL_DATABASE_URL
    grep -E '/(mysql-store|landing)'$'\t' .dev/tests/list | run_test_programs --skip full:: | tee -a .dev/tests/log
  )
}

# The slowest tests, what failed, and one sum: each program prints its own.
summary() {
  heading "the $slowest_tests slowest tests, in seconds (all of them: .dev/tests/durations)"
  sed -nE 's/^test (.*) \.\.\. .*<([0-9.]+)s>$/\2 \1/p' .dev/tests/log | sort -rn > .dev/tests/durations
  head -n "$slowest_tests" .dev/tests/durations
  if grep -qE '^test .* FAILED|^crashed: ' .dev/tests/log; then
    heading 'what failed'
    grep -hE -A 3 "^thread '.*panicked at|^test .* FAILED" .dev/tests/log || true
    grep -h -B 12 '^crashed: ' .dev/tests/log || true
  fi
  heading 'sum'
  awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
    /^crashed: / { crashed++ }
    END { printf "%d passed, %d failed, %d long ones left to ./dev soak\n", passed, failed, ignored
      if (crashed) printf "%d test programs crashed: their tests are not counted\n", crashed }' .dev/tests/log
  if [[ -f .dev/not-checked.log ]]; then sort -u .dev/not-checked.log; fi
}

quick_tests() {
  install
  heading 'format: cargo fmt --check'
  cargo fmt --all --check
  build --tests
  test_servers
  list_test_programs "${quick_packages[@]}"
  local status=0
  run_tests 'tests of the quick tier' --skip full:: || status=1
  summary
  printf 'This was the quick tier. %d more tests are in the full one: `./dev test --all`, more than an hour.\n' \
    "$(awk '/^test result:/ { left += $12 } END { print left + 0 }' .dev/tests/log)"
  return "$status"
}

all_tests() {
  install_for_tests
  lint
  # Lints have checked bench and demo; no test runs their programs.
  build --tests
  test_servers --for-all-tests
  list_test_programs --workspace
  local status=0
  run_tests 'tests of the quick tier' --skip full:: || status=1
  test_servers --for-all-tests
  run_full_tests || status=1
  test_servers --for-all-tests
  run_tests_on_mysql || status=1
  summary
  return "$status"
}

# Tests of both tiers: all of a crate that is named, otherwise those whose names contain one of the words.
named_tests() {
  install_for_tests
  build --tests
  test_servers --for-all-tests
  list_test_programs "${quick_packages[@]}"
  local status=0 what="tests named $*"
  if (($# == 1)) && grep -qE "/$1"$'\t' .dev/tests/list; then
    sed -i -nE "\\|/$1\t|p" .dev/tests/list
    what="tests of $1"
    shift
  fi
  run_tests "$what" "$@" || status=1
  grep -q '^test .* \.\.\. ' .dev/tests/log || fail "no test and no crate fits: $what"
  summary
  return "$status"
}
