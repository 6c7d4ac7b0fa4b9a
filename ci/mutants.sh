#!/usr/bin/env bash
# Small faults, one at a time, and what dies of them.
#
#   ci/mutants.sh [PATTERN]         the faults of ci/mutants/list whose names match, or all
#   ci/mutants.sh CRATE [PATTERN]   those of ci/mutants/CRATE, by the tests of crates/CRATE alone
#   ci/mutants.sh generated FILE..  those that cargo-mutants makes of the files, before the models
#
# The first puts all faults into a copy of the tree, each as a choice at run time, so that there is
# one build of all. Each is shown to the ordinary tests until one of them fails, and if it survives
# them to the models, with one preemption and with two, or LOOM_MAX_PREEMPTIONS; as many at a time
# as there are processors. What a fault died of is kept in target/mutants, and tried first the next
# time. Exits with 1 if one survives all that is not marked as one that nothing can tell, and if no
# name matches.
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
names=
programs=$(CARGO_TARGET_DIR=$target binary --all-features --test it)
if [ $folder = . ]; then
    programs="$(CARGO_TARGET_DIR=$target binary --all-features --lib) $programs"
    models=$(model_program "$tree")
    names=$(names_of "$models")
    [ -n "$names" ] || { echo "there are no models"; exit 1; }
fi
killers=target/mutants/killers-${faults##*/}
touch "$killers"
limited=$PWD/ci/limited.sh
export tree programs models names preemptions killers limited

# Each prints what failed first, and fails if nothing did. What hangs ends with 124. So may what is
# slow, unless the machine does nothing else.
# by_program PROGRAM [FILTER...]: the tests of a program, up to the first that fails.
by_program() {
    local failed
    failed=$({ (cd "$tree" && "$limited" 300 "$@") 2>&1 || echo "ended with $?"; } |
        sed -nE -e 's/^(test .*) \.\.\. FAILED$/\1/;tend' -e 's/^ended /the tests &/;tend' \
            -e 'b;:end' -e 'p;q')
    [ -n "$failed" ] && echo "$failed"
}
by_tests() {
    local program
    for program in $programs; do by_program "$program" "$@" && return; done
    return 1
}
# A model is a process of its own: a deadlock that loom finds while a guard is alive aborts it.
by_models() {
    local name
    for name in $names; do
        LOOM_MAX_PREEMPTIONS=$1 "$limited" 300 "$models" --quiet --exact "$name" &>/dev/null ||
            { echo "$name" && return; }
    done
    return 1
}
# by_known KILLER: what the fault died of the last time.
by_known() {
    case $1 in
    "test "*) by_tests --exact "${1#test }" ;;
    models::*) names=$1 by_models "$preemptions" ;;
    *) return 1 ;;
    esac
}

# show NUMBER TAB CLASS TAB NAME: shows a fault, and prints what it dies of.
show() {
    local number class name known killer
    IFS=$'\t' read -r number class name <<<"$1"
    known=$(name=$name awk -F '\t' '$1 == ENVIRON["name"] { of = $2 } END { print of }' "$killers")
    export TOURBILLON_MUTANT=$number
    # What takes the least time first.
    if killer=$(by_known "$known" || by_tests || by_models 1 || by_models "$preemptions"); then
        [ "$killer" = "$known" ] || printf '%s\t%s\n' "$name" "$killer" >>"$killers"
    elif [ "$class" = argued ]; then
        killer="none, as docs/PROOF.md argues"
    else
        killer="NONE: it survives"
    fi
    printf '%s -> %s\n' "$name" "$killer"
    [[ $killer != NONE* ]]
}
export -f show by_known by_models by_tests by_program

# A run of no test at all passes.
for program in $programs; do [ -n "$(names_of "$program")" ]; done
killer=$(by_tests || by_models 1 || true)
[ -z "$killer" ] || { echo "without a fault there fails: $killer"; exit 1; }

survived=
xargs -d '\n' -P "$(nproc)" -n 1 bash -c 'show "$1"' _ <<<"$chosen" || survived=yes
printf '\n%s faults\n' "$(wc -l <<<"$chosen")"
[ -z "$survived" ]
