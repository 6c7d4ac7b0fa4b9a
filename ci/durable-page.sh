#!/usr/bin/env bash
# The service's page in a headless Chromium: with a real server and a receiver, and with a scripted
# server for states that are hard to produce. No errors, no text without a value, no breach of its
# policy, nothing that axe finds, all of it by keyboard.
#
#   ci/durable-page.sh                 the tests, of the program that TOURBILLOND names if it does
#   ci/durable-page.sh --screenshots   and the pictures in crates/tourbillond/docs; those of two
#                                      hundred schedules are for review, and git ignores them
#   ci/durable-page.sh --large         how long the views take with 10,000 schedules and 100,000
#                                      runs, of a release build; some minutes
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

if [ "${1:-}" = --screenshots ]; then
    export SCREENSHOTS=$PWD/crates/tourbillond/docs
fi
node=$(node --version 2>/dev/null | grep -oE '[0-9]+' | head -n 1) || node=0
if [ "$node" -lt 20 ]; then
    not_checked "the page in a browser" "there is no Node.js of version 20 or later"
    exit
fi
[ -n "${CHROMIUM:-}" ] || command -v chromium >/dev/null ||
    need_packages "the page in a browser" chromium
export CHROMIUM=${CHROMIUM:-$(command -v chromium)}

profile=debug
if [ "${1:-}" = --large ]; then
    profile=release
    cargo build --quiet --locked --package tourbillond --release
elif [ -z "${TOURBILLOND:-}" ]; then
    build_durable tourbillond
fi
TOURBILLOND=$(realpath "${TOURBILLOND:-${CARGO_TARGET_DIR:-target}/$profile/tourbillond}")
export TOURBILLOND
cd crates/tourbillond/browser
npm ci --ignore-scripts --no-audit --no-fund --silent
if [ "$profile" = release ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    node large.mjs fill "$folder"
    node large.mjs measure "$folder"
    exit
fi
# Two at a time: each has a browser of its own. Each test has its limit, for what hangs.
node --test --test-concurrency=2 --test-timeout=600000
