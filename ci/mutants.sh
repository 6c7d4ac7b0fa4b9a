#!/usr/bin/env bash
# Small faults, one at a time, and what dies of them.
#
#   ci/mutants.sh [PATTERN]         the faults of ci/mutants/list whose names match, or all
#   ci/mutants.sh generated FILE..  those that cargo-mutants makes of the files, before the models
#
# The first puts all faults into a copy of the tree, each as a choice at run time, so that there is
# one build of all. Each is shown to the models with one preemption, if it survives them to the
# ordinary tests, and if it survives those to the models with two, or LOOM_MAX_PREEMPTIONS.
# Exits with 1 if one survives both that is not marked as one that nothing can tell.
# A fault that survives is killed by a new model or test, or argued away in PROOF.md.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_MUTANT
need_cargo_tool cargo-nextest
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-2}

if [ "${1:-}" = generated ]; then
    need_cargo_tool cargo-mutants
    shift
    files=()
    for file; do files+=(--file "$file"); done
    RUSTFLAGS="--cfg tourbillon_model" exec cargo mutants --test-tool nextest --profile loom \
        --timeout 180 --output target --exclude-re 'Debug|tests::' "${files[@]}" -- --lib
fi

tree=target/mutants/tree
list=$(faulty_copy "$tree" ci/mutants/list)

# models MUTANT, tests MUTANT: run them on the copy.
target=$PWD/target
models() { faulty_models "$tree" "$1" mutant; }
tests() {
    (cd "$tree" && TOURBILLON_MUTANT=$1 CARGO_TARGET_DIR=$target \
        cargo nextest run --features tracing --lib --test it --profile mutant)
}
# killers WHAT MUTANT: the first that failed; nothing if none did.
killer() {
    local log
    log=$("$1" "$2" 2>&1) || true
    if ! grep -q '^ *Summary' <<<"$log"; then
        printf 'the %s did not run:\n%s\n' "$1" "$log" >&2
        exit 1
    fi
    sed -nE 's/^ +(FAIL|SIGABRT|SIGSEGV|TIMEOUT) .* ([a-z0-9_:]+)$/\2 (\1)/p' <<<"$log" |
        sed 's/ (FAIL)$//; s/ (SIGABRT)$//' | head -1
}

killer=$(LOOM_MAX_PREEMPTIONS=1 killer models 0)$(killer tests 0)
[ -z "$killer" ] || { echo "without a fault there fails: $killer"; exit 1; }

by_models=0 by_tests=0 argued=0 survivors=0
while IFS=$'\t' read -r number class name; do
    [[ $name =~ ${1:-} ]] || continue
    # What takes the least time first.
    if killer=$(LOOM_MAX_PREEMPTIONS=1 killer models "$number") && [ -n "$killer" ]; then
        by_models=$((by_models + 1))
    elif killer=$(killer tests "$number") && [ -n "$killer" ]; then
        by_tests=$((by_tests + 1)) killer="test $killer"
    elif killer=$(killer models "$number") && [ -n "$killer" ]; then
        by_models=$((by_models + 1))
    elif [ "$class" = argued ]; then
        argued=$((argued + 1)) killer="none, as PROOF.md argues"
    else
        survivors=$((survivors + 1)) killer="NONE: it survives"
    fi
    printf '%s -> %s\n' "$name" "$killer"
done <<<"$list"
printf '\n%s die in the models, %s in the tests, %s are argued away, %s survive\n' \
    $by_models $by_tests $argued $survivors
[ $survivors = 0 ]
