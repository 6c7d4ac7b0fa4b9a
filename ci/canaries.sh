#!/usr/bin/env bash
# Shows each canary, a seeded bug, to the models and prints: bug -> canary -> the models that fail.
# Exits with 1 if one survives. A model that hangs does not count as one that fails. The bugs are in
# ci/mutants/canaries, and are put into a copy of the tree.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_MUTANT
need_cargo_tool cargo-nextest
export LOOM_MAX_PREEMPTIONS=${1:-2}

tree=target/canaries/tree
list=$(faulty_copy "$tree" ci/mutants/canaries)
[ -n "$list" ] || { echo "the list of canaries is empty"; exit 1; }

survivors=0
while IFS=$'\t' read -r number _ name; do
    log=$(faulty_models "$tree" "$number" canary 2>&1) || true
    grep -q '^ *Summary' <<<"$log" || { printf 'the models did not run:\n%s\n' "$log"; exit 1; }
    killers=$(sed -nE 's/^ +(FAIL|SIGABRT|SIGSEGV) .* tourbillon .*::([a-z_]+)$/\2/p' \
        <<<"$log" | sort -u | paste -sd' ')
    if [ -z "$killers" ]; then
        survivors=$((survivors + 1))
        killers="NONE: it survives"
    fi
    printf '%s\n    %s -> %s\n' "${name#*: }" "${name%%:*}" "$killers"
done <<<"$list"
printf '\n%s canaries, %s survived\n' "$(wc -l <<<"$list")" "$survivors"
[ "$survivors" = 0 ]
