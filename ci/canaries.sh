#!/usr/bin/env bash
# Shows each seeded bug to the models and prints: bug -> canary -> the models that fail with it.
# Exits with 1 if a canary survives. A model that hangs does not count as one that fails.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_CANARY
need_cargo_tool cargo-nextest
export LOOM_MAX_PREEMPTIONS=${1:-2}

list=$(models --profile loom --run-ignored only --no-capture -E 'test(canary::tests::list)' \
    2>/dev/null | sed -n 's/^canary //p')
[ -n "$list" ] || { echo "the list of canaries is empty"; exit 1; }

survivors=0
while read -r canary bug; do
    log=$(TOURBILLON_CANARY=$canary models --profile canary 2>&1) || true
    grep -q '^ *Summary' <<<"$log" || { printf 'the models did not run:\n%s\n' "$log"; exit 1; }
    killers=$(sed -nE 's/^ +(FAIL|SIGABRT|SIGSEGV) .* tourbillon .*::([a-z_]+)$/\2/p' \
        <<<"$log" | sort -u | paste -sd' ')
    if [ -z "$killers" ]; then
        survivors=$((survivors + 1))
        killers="NONE: it survives"
    fi
    printf '%s\n    %s -> %s\n' "$bug" "$canary" "$killers"
done <<<"$list"
printf '\n%s canaries, %s survived\n' "$(wc -l <<<"$list")" "$survivors"
[ "$survivors" = 0 ]
