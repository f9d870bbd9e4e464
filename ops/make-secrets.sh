#!/usr/bin/env bash
# Makes the secrets that compose.yaml hands to its containers, one a file in ./secrets: passwords that nobody has seen, and
# the addresses that hold them. What is there stays, so it can be run again; remove a file to have another secret, and
# every address that holds it.
#
#   ops/make-secrets.sh [FOLDER]
set -euo pipefail
folder=${1:-$(dirname "${BASH_SOURCE[0]}")/../secrets}
# Readable in the containers, whose users are others; the folder is its owner's alone.
umask 022
mkdir -p "$folder"
chmod 700 "$folder"
cd "$folder"

make() { [[ -s $1 ]] || printf '%s\n' "$2" > "$1"; }
random() { openssl rand -hex "$1"; }

for user in root migrate api relay lander tailer consumer worker verify; do
  make "mysql_$user" "$(random 24)"
done
for user in migrate api relay lander tailer consumer worker verify; do
  make "database_url_$user" "mysql://coupon_$user:$(cat "mysql_$user")@mysql:3306/coupon"
done
make redis_password "$(random 24)"
make redis_auth "requirepass $(cat redis_password)"
make gate_redis_url "redis://:$(cat redis_password)@redis-gate:6379"
make view_redis_url "redis://:$(cat redis_password)@redis-view:6380"
make jwt_secret "$(random 32)"
make receipt_secret "$(random 32)"
make operator_key "$(random 24)"
