#!/usr/bin/env bash
# Shows each canary, a seeded bug, to the model that src/driver/PROTOCOL.md names for it, and
# prints: bug -> canary -> model. Exits with 1 if one survives that model, or has none. A model that
# does not end counts neither as one that fails nor as one that passes. The bugs are in
# ci/mutants/canaries, and are put into a copy of the tree.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_MUTANT
export LOOM_MAX_PREEMPTIONS=2

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

program=$(model_program "$tree")
export program

# show NUMBER TAB NAME TAB MODEL: shows a canary to its model. Fails if the model does not. Each
# takes seconds. The limit is of the processor's time, which other programs do not take away.
show() {
    local number name model status=0 told
    IFS=$'\t' read -r number name model <<<"$1"
    (
        ulimit -c 0 -t 1800
        TOURBILLON_MUTANT=$number exec "$program" --exact "$model" >/dev/null 2>&1
    ) || status=$?
    # It has failed, or was aborted by what loom found.
    case $status in
    101 | 134 | 139) told=${model##*::} ;;
    0) told="NONE: it survives ${model##*::}" ;;
    *) told="NONE: nothing is known, as ${model##*::} was ended with $status" ;;
    esac
    printf '%s\n    %s -> %s\n' "${name#*: }" "${name%%:*}" "$told"
    [[ $told != NONE* ]]
}
export -f show

shown=
while IFS=$'\t' read -r number _ name; do
    model=$(sed -n "s/^${name%%:*} //p" <<<"$pairs")
    model=$(names_of "$program" | grep "::$model\$") || { echo "there is no model $model"; exit 1; }
    shown+=$number$'\t'$name$'\t'$model$'\n'
done <<<"$list"
survived=
xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'show "$1"' _ < <(printf '%s' "$shown") || survived=yes
printf '\n%s canaries\n' "$(wc -l <<<"$list")"
[ -z "$survived" ]
