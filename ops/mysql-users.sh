#!/usr/bin/env bash
# Makes the users of ops/mysql-grants.sql with the passwords in the files of a folder, or gives those that are there
# these passwords; by `grants` it gives them their rights. In compose.yaml it runs before and after `migrate`.
#
#   mysql-users.sh users|grants [HOST [SECRETS]]
set -euo pipefail

what=$1 host=${2:-mysql} secrets=${3:-/run/secrets}
here=$(dirname "${BASH_SOURCE[0]}")

secret() { cat "$secrets/mysql_$1"; }

# Passwords are hexadecimal (ops/make-secrets.sh), so none ends a string.
users() {
  local user
  for user in migrate api relay lander tailer consumer worker verify; do
    [[ $(secret "$user") =~ ^[0-9a-f]{32,}$ ]] || { echo "mysql-users: $secrets/mysql_$user is no hexadecimal password" >&2; exit 1; }
    echo "create user if not exists 'coupon_$user'@'%' identified by '$(secret "$user")';"
    echo "alter user 'coupon_$user'@'%' identified by '$(secret "$user")';"
  done
  echo "grant all on coupon.* to 'coupon_migrate'@'%';"
}

case $what in
  users) statements=$(users) ;;
  grants) statements=$(cat "$here/mysql-grants.sql") ;;
  *) echo 'mysql-users.sh users|grants [HOST [SECRETS]]' >&2; exit 2 ;;
esac
MYSQL_PWD=$(secret root) mysql --host="$host" --user=root <<< "$statements"
