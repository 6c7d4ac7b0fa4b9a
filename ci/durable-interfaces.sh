#!/usr/bin/env bash
# What others read of the service, by tools of others: its OpenAPI document by a linter, a client
# generated from the document against a running service, a callback by the library of Standard
# Webhooks, callbacks and timers in transactions of sqlx and psycopg, and its metrics by promtool.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

build_durable tourbillond
target=${CARGO_TARGET_DIR:-target}
binary=$(realpath "$target/debug/tourbillond")
folder=$(mktemp -d "${TMPDIR:-/tmp}/tourbillond-interfaces.XXXXXX")
WEBHOOK_SECRET=whsec_$(head -c 24 /dev/urandom | base64)
export WEBHOOK_SECRET
printf '[apps.default]\nnetworks = ["127.0.0.0/8"]\nsecrets = ["%s"]\n' "$WEBHOOK_SECRET" \
    >"$folder/config.toml"
(cd "$folder" && exec "$binary" --listen 127.0.0.1:0 --config config.toml >url 2>log) &
service=$!
trap 'kill "$service" 2>/dev/null || true; rm -rf "$folder"' EXIT
until [ -s "$folder/url" ]; do
    kill -0 "$service" || { cat "$folder/log" >&2; exit 1; }
    sleep 0.05
done
TOURBILLOND=$(cat "$folder/url")
export TOURBILLOND

node=$(node --version 2>/dev/null | grep -oE '[0-9]+' | head -n 1) || node=0
if [ "$node" -lt 20 ]; then
    not_checked "the service's description" "there is no Node.js of version 20 or later"
else
    (
        cd crates/tourbillond/interfaces
        # The lock file that was installed last says whether all is there.
        cmp -s package-lock.json node_modules/.installed || {
            npm ci --ignore-scripts --no-audit --no-fund --silent
            cp package-lock.json node_modules/.installed
        }
        node document.mjs
        node_modules/.bin/tsc
        node --test --test-reporter=dot client.test.mjs
    )
fi

payments=programs::a_payment_by_ modules=$(realpath -m "$target/python")
installed "$modules" psycopg 3.3.9 binary || {
    not_checked "transactions of psycopg" "it cannot be installed here"
    payments+=sqlx
}
PYTHONPATH=$modules some_tests ci/durable-postgres.sh cargo test --quiet "${durable[@]}" \
    --test sql -- --ignored "$payments"

promtool=$(command -v promtool || true)
if [ -z "$promtool" ]; then
    unpack prometheus prometheus || true
    promtool=$debian/prometheus/usr/bin/promtool
fi
if [ ! -x "$promtool" ]; then
    not_checked "the service's metrics" "there is no promtool"
    exit
fi
curl -fsS "$TOURBILLOND/metrics" | "$promtool" check metrics
"$promtool" check rules crates/tourbillond/deploy/alerts.yaml
"$promtool" test rules crates/tourbillond/deploy/alerts.test.yaml
