#!/usr/bin/env bash
# Durable timers, their harness and the service: style, the tests of all three stores with a
# PostgreSQL made for them, what others read of the service, its page, the examples and short storms
# on both databases and on a replicated one. By hand, for longer storms: ci/durable-faults.sh and
# ci/durable-failover.sh.
. "$(dirname "$0")/lib.sh"
trap 'trap "" INT TERM; kill 0; wait; exit 130' INT TERM

docs() {
    RUSTDOCFLAGS="-D warnings" cargo doc --quiet --locked --package tourbillon-durable \
        --package tourbillon-http-limits --no-deps --all-features
    # The pages of a program are for its developers, who see what is private.
    RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" \
        cargo doc --quiet "${durable[@]}" --package tourbillon-http-limits --no-deps \
        --document-private-items
}
features() {
    local features
    for features in "" sqlite postgres tls sqlx-0_8 serde metrics-0_24 tracing conformance; do
        cargo check --quiet --locked --package tourbillon-durable --lib \
            --no-default-features --features "$features"
    done
}
tests() { some_tests ci/durable-postgres.sh cargo test --quiet --no-fail-fast "${durable[@]}"; }
storms() {
    ci/durable-faults.sh short --seed 7
    ci/durable-failover.sh short --seed 7
}
of_others() {
    ci/durable-page.sh
    ci/durable-interfaces.sh
    ci/durable-example.sh
}

# part COMMAND...: runs it, and says how long it took.
part() {
    local began=$SECONDS
    "$@"
    printf '%5s s  %s\n' "$((SECONDS - began))" "$*"
}
# beside COMMAND...: the same beside what follows. What it prints is shown at the end.
beside() {
    logs+=("$(mktemp)")
    part "$@" >"${logs[-1]}" 2>&1 &
    begun+=($!)
}
# Waits for what was begun beside the rest, and prints it. Returns how the first ended that failed.
ended() {
    local each status=0
    for each in "${!begun[@]}"; do
        wait "${begun[each]}" || status=${status/#0/$?}
        cat "${logs[each]}"
        rm "${logs[each]}"
    done
    return "$status"
}
begun=() logs=()
trap 'status=$?; ended || status=${status/#0/$?}; exit "$status"' EXIT

part cargo clippy --quiet "${durable[@]}" --all-targets -- -D warnings
part docs
part features
part cargo test --quiet --no-run "${durable[@]}"
# Nothing is built from here on but the canaries' copy. Storms and browsers mostly wait.
beside storms
beside of_others
part tests
part ci/durable-canaries.sh simulation
