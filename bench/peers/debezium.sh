#!/usr/bin/env bash
# Fetches Debezium Server from Maven Central (782 MB, once), finds a Java that runs it, and prints both: the path
# of java, then the server's folder. What is missing is said in the last line, and the exit code is 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

version=$(sed -n 's|.*<version>\(.*\)</version>.*|\1|p' bench/peers/debezium/pom.xml)
cache=${COUPON_CACHE:-.dev/cache}/peers
server=$cache/debezium-server-$version
log=$cache/debezium.log
mkdir -p "$cache"

fail() { printf '%s\n' "$*" >&2; exit 1; }

# Debezium 3.6 is compiled for Java 21.
oldest=21
major() { "$1" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'; }
find_java() {
  for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || true)" /usr/lib/jvm/*/bin/java; do
    if [[ -x $java && $(major "$java") -ge $oldest ]]; then return; fi
  done
  return 1
}
if ! find_java; then
  ((EUID == 0)) || fail "Debezium needs Java $oldest or newer: install it, or run this as root"
  { apt-get update -q || true
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "openjdk-$oldest-jre-headless"
  } < /dev/null > "$log" 2>&1 || fail "Debezium needs Java $oldest or newer, and Debian's packages have none"
  find_java || fail "Debezium needs Java $oldest or newer"
fi

if [[ ! -d $server ]]; then
  command -v mvn > /dev/null || fail 'Debezium comes by Maven, which is not here'
  rm -rf "$cache"/.debezium.* # left by one that was killed
  fresh=$(mktemp -d "$(realpath "$cache")/.debezium.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  mvn -q -B -f bench/peers/debezium/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy \
    -Dartifact="io.debezium:debezium-server-dist:$version:tar.gz" -DoutputDirectory="$fresh" < /dev/null > "$log" 2>&1 \
    || fail "Maven could not fetch Debezium Server $version; the whole output is in $log"
  tar -C "$fresh" -xzf "$fresh"/*.tar.gz || fail "Debezium's archive is damaged"
  # The folder appears by one rename, so that an interrupted fetch is never taken for a whole one.
  mv "$fresh/debezium-server" "$server"
fi
printf '%s\n%s\n' "$java" "$(realpath "$server")"
