#!/usr/bin/env bash
# Brings MySQL 9.7 from Debian sid into the cache folder, beside the MariaDB that this system has:
# `./dev servers up --flavor mysql` runs it with the libraries it was built against, without a chroot.
# Nothing of this system is changed but the package debootstrap, which unpacks it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cache=${COUPON_CACHE:-.dev/cache}
mysql=$cache/mysql-9.7
log=.dev/install-mysql.log
# What of a whole system mysqld needs: itself, libraries, plugins, messages and character sets; and the
# server's own reader of binlogs, which tests hold the tailer against.
parts=(usr/sbin/mysqld usr/bin/mysqlbinlog usr/lib/x86_64-linux-gnu usr/lib/mysql usr/share/mysql)

say() { printf '  %s\n' "$*"; }
fail() { printf 'install-mysql: %s\n' "$*" >&2; exit 1; }

if [[ -x $mysql/usr/bin/mysqlbinlog ]]; then exit 0; fi
if ((EUID != 0)); then fail 'unpacking MySQL needs root. Run this once: sudo ops/install-mysql.sh'; fi
mkdir -p .dev "$cache"
exec 9> "$cache/.lock"
flock 9
if [[ -x $mysql/usr/bin/mysqlbinlog ]]; then exit 0; fi

if ! command -v debootstrap > /dev/null; then
  say 'installing debootstrap: unpacks packages of another Debian release'
  { apt-get update -q || true; DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap; } \
    < /dev/null > "$log" 2>&1 || fail "apt-get could not install it; the whole output is in $log"
fi

say "fetching MySQL 9.7 from Debian sid into $cache (half a minute)"
rm -rf "$cache"/.mysql.* # left by one that was killed
fresh=$(mktemp -d "$(realpath "$cache")/.mysql.XXXXXX")
trap 'rm -rf "$fresh"' EXIT
if ! debootstrap --variant=minbase --include=mysql-server-core sid "$fresh/system" < /dev/null >> "$log" 2>&1; then
  tail -n 15 "$log" >&2
  fail "debootstrap could not unpack it; the whole output is in $log"
fi
mkdir "$fresh/mysql"
tar -C "$fresh/system" -c "${parts[@]}" | tar -C "$fresh/mysql" --no-same-owner -x
version=$("$fresh/mysql/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" \
  --library-path "$fresh/mysql/usr/lib/x86_64-linux-gnu" "$fresh/mysql/usr/sbin/mysqld" --no-defaults --version)
case $version in
  *' 9.7.'*)
    rm -rf "$mysql" # one without mysqlbinlog
    mv "$fresh/mysql" "$mysql"
    ;;
  *) fail "Debian sid has another version by now: $version" ;;
esac
