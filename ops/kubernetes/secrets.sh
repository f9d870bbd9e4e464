#!/usr/bin/env bash
# Makes the Secret of each process from the files of ops/make-secrets.sh, once the hosts in their addresses are yours. It
# prints them; what a process does not need is not in its Secret.
#
#   ops/kubernetes/secrets.sh FOLDER | kubectl apply -f -
set -euo pipefail
folder=${1:?secrets.sh FOLDER}

# secret PROCESS USER FILE …: the address of its database user, and what else it needs.
secret() {
  local process=$1 user=$2 file files=()
  shift 2
  for file in "$@"; do files+=("--from-file=$file=$folder/$file"); done
  printf -- '---\n'
  kubectl create secret generic "$process" --namespace=coupon --dry-run=client --output=yaml \
    --from-file=database_url="$folder/database_url_$user" "${files[@]}"
}

secret migrate migrate
secret cdc-tailer tailer
secret outbox-relay relay gate_redis_url
secret claim-lander lander gate_redis_url
secret sync-consumer consumer gate_redis_url view_redis_url
secret expiry-worker worker
secret api api gate_redis_url view_redis_url jwt_secret receipt_secret operator_key
