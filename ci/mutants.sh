#!/usr/bin/env bash
# Small faults, one at a time, and what dies of them.
#
#   ci/mutants.sh [PATTERN]         the faults of ci/mutants/list whose names match, or all
#   ci/mutants.sh CRATE [PATTERN]   those of ci/mutants/CRATE, by the tests of crates/CRATE alone
#   ci/mutants.sh generated FILE..  those that cargo-mutants makes of the files, before the models
#
# The first puts all faults into a copy of the tree, each as a choice at run time, so that there is
# one build of all. Each is shown to the models with one preemption, if it survives them to the
# ordinary tests, and if it survives those to the models with two, or LOOM_MAX_PREEMPTIONS.
# Exits with 1 if one survives both that is not marked as one that nothing can tell, and if no name
# matches.
# A fault that survives is killed by a new model or test, or argued away in docs/PROOF.md.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_MUTANT
preemptions=${LOOM_MAX_PREEMPTIONS:-2}

if [ "${1:-}" = generated ]; then
    need_cargo_tool cargo-mutants
    export LOOM_MAX_PREEMPTIONS=$preemptions
    shift
    files=()
    for file; do files+=(--file "$file"); done
    RUSTFLAGS="--cfg tourbillon_model" exec cargo mutants --profile loom \
        --timeout 180 --output target --exclude-re 'Debug|tests::' "${files[@]}" -- --lib
fi

tree=target/mutants/tree
faults=ci/mutants/list folder=.
if [ -n "${1:-}" ] && [ -d "crates/$1" ]; then
    faults=ci/mutants/$1 folder=crates/$1
    shift
fi
list=$(faulty_copy "$tree" $faults $folder)
chosen=$(pattern=${1:-} awk -F '\t' '$3 ~ ENVIRON["pattern"]' <<<"$list")
[ -n "$chosen" ] || { echo "no name of $faults matches: ${1:-}"; exit 1; }

# The path of the test binary that `cargo test` makes of the copy with these arguments.
binary() {
    (cd "$tree/$folder" && cargo test --quiet --no-run --message-format json "$@") |
        sed -nE 's/.*"executable":"([^"]+)".*/\1/p' | tail -1
}
target=$PWD/target
names=()
programs=("$(CARGO_TARGET_DIR=$target binary --all-features --test it)")
if [ $folder = . ]; then
    programs=("$(CARGO_TARGET_DIR=$target binary --all-features --lib)" "${programs[@]}")
    models=$(model_program "$tree")
    mapfile -t names < <(names_of "$models")
    [ ${#names[@]} -gt 0 ] || { echo "there are no models"; exit 1; }
fi
log=target/mutants/log
limited=$PWD/ci/limited.sh

# Each prints what failed first, and fails if nothing did. What hangs fails, and is said to.
# A model is a process of its own: a deadlock that loom finds while a guard is alive aborts it.
by_models() {
    for name in "${names[@]}"; do
        LOOM_MAX_PREEMPTIONS=$1 "$limited" 300 "$models" --quiet --exact "$name" &>$log ||
            { echo "$name$(why_ended)" && return; }
    done
    return 1
}
by_tests() {
    for binary in "${programs[@]}"; do
        (cd "$tree" && some_tests "$limited" 300 "$binary" --quiet) &>$log || {
            echo "test $(sed -nE "s/^thread '([^']+)'.* panicked at .*/\1/p" $log | tail -1)$(
                why_ended
            )"
            return
        }
    done
    return 1
}
# What `limited` has said.
why_ended() { sed -nE 's/^(ended, as it still ran after [0-9]+ s): .*/ (\1)/p' $log | tail -1; }

killer=$(by_models 1 || by_tests || true)
[ -z "$killer" ] || { echo "without a fault there fails: $killer"; exit 1; }

models_killed=0 tests_killed=0 argued=0 survivors=0
while IFS=$'\t' read -r number class name; do
    export TOURBILLON_MUTANT=$number
    # What takes the least time first.
    if killer=$(by_models 1); then
        models_killed=$((models_killed + 1))
    elif killer=$(by_tests); then
        tests_killed=$((tests_killed + 1))
    elif killer=$(by_models "$preemptions"); then
        models_killed=$((models_killed + 1))
    elif [ "$class" = argued ]; then
        argued=$((argued + 1)) killer="none, as docs/PROOF.md argues"
    else
        survivors=$((survivors + 1)) killer="NONE: it survives"
    fi
    printf '%s -> %s\n' "$name" "$killer"
done <<<"$chosen"
printf '\n%s die in the models, %s in the tests, %s are argued away, %s survive\n' \
    $models_killed $tests_killed $argued $survivors
[ $survivors = 0 ]
