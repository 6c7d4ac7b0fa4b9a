#!/usr/bin/env bash
# Shows each canary, a seeded bug, to the model that src/driver/PROTOCOL.md names for it, and
# prints: bug -> canary -> model. Exits with 1 if one survives that model, or has none. A model that
# hangs does not count as one that fails. The bugs are in ci/mutants/canaries, and are put into a
# copy of the tree.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_MUTANT
need_cargo_tool cargo-nextest
export LOOM_MAX_PREEMPTIONS=${1:-2}

tree=target/canaries/tree
list=$(faulty_copy "$tree" ci/mutants/canaries)
[ -n "$list" ] || { echo "the list of canaries is empty"; exit 1; }

# The rows of the table, as CANARY MODEL.
pairs=$(awk -F '|' '/^\| canary \|/ { inside = 1; next }
    !/^\|/ { inside = 0 }
    inside && !/^\|--/ { gsub(/[ `]/, ""); print $2, $3 }' src/driver/PROTOCOL.md)
unpaired=$(comm -3 <(cut -d' ' -f1 <<<"$pairs" | sort) \
    <(cut -f3 <<<"$list" | sed 's/:.*//' | sort))
[ -z "$unpaired" ] || { printf 'not both in the table and in the list:\n%s\n' "$unpaired"; exit 1; }

survivors=0
while IFS=$'\t' read -r number _ name; do
    canary=${name%%:*}
    model=$(sed -n "s/^$canary //p" <<<"$pairs")
    log=$(faulty_model "$tree" "$number" "$model" 2>&1) || true
    grep -q '^ *Summary .* 1 test run' <<<"$log" ||
        { printf 'the model did not run: %s\n%s\n' "$model" "$log"; exit 1; }
    grep -qE "^ +(FAIL|SIGABRT|SIGSEGV) .* tourbillon .*::$model\$" <<<"$log" || {
        survivors=$((survivors + 1))
        model="NONE: it survives $model"
    }
    printf '%s\n    %s -> %s\n' "${name#*: }" "$canary" "$model"
done <<<"$list"
printf '\n%s canaries, %s survived\n' "$(wc -l <<<"$list")" "$survivors"
[ "$survivors" = 0 ]
