#!/usr/bin/env bash
# Small faults, one at a time, and what dies of them.
#
#   ci/mutants.sh                   all of ci/mutants/list, and then those of the crates
#   ci/mutants.sh PATTERN           those of ci/mutants/list whose names match
#   ci/mutants.sh CRATE [PATTERN]   those of ci/mutants/CRATE, by the tests of crates/CRATE alone
#   ci/mutants.sh generated FILE..  those that cargo-mutants makes of the files, before the models
#
# The first puts all faults into a copy of the tree, each as a choice at run time, so that there is
# one build of all. Every test and every model is run without a fault first, has to pass, and notes
# by which faults it comes. To those a fault is shown until one of them fails: to tests, and to
# models with one preemption, and then with two, or LOOM_MAX_PREEMPTIONS, unless it is marked as one
# that nothing can tell; as many faults at a time as there are processors. Exits with 1 if another
# survives, if a marked one does not, and if no name matches.
# A fault that survives is killed by a new model or test, or argued away in docs/PROOF.md.
. "$(dirname "$0")/lib.sh"
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS TOURBILLON_MUTANT TOURBILLON_REACHED
export LOOM_MAX_PREEMPTIONS=${LOOM_MAX_PREEMPTIONS:-2}

if [ "${1:-}" = generated ]; then
    need_cargo_tool cargo-mutants
    shift
    files=()
    for file; do files+=(--file "$file"); done
    RUSTFLAGS="--cfg tourbillon_model" exec cargo mutants --profile loom \
        --timeout 180 --output target --exclude-re 'Debug|tests::' "${files[@]}" -- --lib
fi

tree=$PWD/target/mutants/tree
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
target=$PWD/target models=
programs=$(CARGO_TARGET_DIR=$target binary --all-features --test it)
if [ $folder = . ]; then
    programs="$(CARGO_TARGET_DIR=$target binary --all-features --lib) $programs"
    models=$(model_program "$tree")
fi

# reached/PROGRAM/quick/TEST, or slow/TEST, has the numbers of the faults by which the test comes.
reached=$PWD/target/mutants/reached limited=$PWD/ci/limited.sh
rm -rf "$reached" && mkdir "$reached"
export tree reached limited programs models list

# note PROGRAM TEST: runs it without a fault, in a process of its own.
note() {
    local folder=$reached/${1##*/} begun=${EPOCHREALTIME/./} numbers
    numbers=$(mktemp -p "$reached")
    # One that cannot bear a file that is open may come by all.
    TOURBILLON_REACHED=$numbers passes "$@" >/dev/null || {
        passes "$@" || { echo "without a fault there fails: $2"; return 1; }
        cut -f1 <<<"$list" >"$numbers"
    }
    # In microseconds.
    folder+=/$([ $((${EPOCHREALTIME/./} - begun)) -lt 200000 ] && echo quick || echo slow)
    mkdir -p "$folder" && mv "$numbers" "$folder/$2"
}
passes() {
    local log
    log=$(cd "$tree" && "$limited" 300 "$1" --exact "$2" 2>&1) &&
        grep -Eq '^test result: ok\. (1 passed|0 passed; 0 failed; 1 ignored)' <<<"$log" ||
        { echo "$log" && return 1; }
}
# reaching PROGRAM QUICK-OR-SLOW: its tests by which the fault can be seen, those first that come by
# few others.
reaching() (
    cd "$reached/${1##*/}/$2" 2>/dev/null || return 0
    grep -lx "$TOURBILLON_MUTANT" -- * | xargs -r wc -l | sort -n | awk '$2 != "total" { print $2 }'
)

# first_failed SECONDS: reads a number of a process and then what it prints. Prints the first test
# that fails, or that nothing came for so long, and ends the process: another test may hang.
first_failed() {
    local process line failed=
    read -r process
    until [ -n "$failed" ]; do
        read -r -t "$1" line || { [ $? -le 128 ] || failed="a test that hangs"; break; }
        case $line in "test "*" ... FAILED") failed=${line% ... FAILED} ;; esac
    done
    [ -z "$failed" ] || { echo "$failed" && kill "$process" 2>/dev/null; }
}
# Each prints what failed first, and fails if nothing did.
by_tests() {
    # Seconds: a hundred times what a quick test takes, and several times what a slow one does.
    local program names failed patience=20
    [ "$1" = quick ] || patience=60
    for program in $programs; do
        mapfile -t names < <(reaching "$program" "$1")
        # Without a name it would run all.
        [ ${#names[@]} -gt 0 ] || continue
        failed=$(
            (cd "$tree" && echo $BASHPID && exec timeout 300 "$program" --exact "${names[@]}" 2>&1) |
                first_failed $patience
        ) || failed=${failed:-"the tests ended with $?"}
        [ -z "$failed" ] || { echo "$failed" && return; }
    done
    return 1
}
# A model is a process of its own: a deadlock that loom finds while a guard is alive aborts it. One
# that does not end counts as one that passes. The limit is of the processor's time.
by_models() {
    local name
    [ -n "$models" ] || return 1
    for name in $(reaching "$models" quick; reaching "$models" slow); do
        (
            ulimit -c 0 -t 300
            LOOM_MAX_PREEMPTIONS=$1 exec "$models" --exact "$name" &>/dev/null
        ) || case $? in 101 | 134 | 139) echo "$name" && return ;; esac
    done
    return 1
}

# show NUMBER TAB CLASS TAB NAME: shows a fault, and prints what it dies of.
show() {
    local class name killer
    IFS=$'\t' read -r TOURBILLON_MUTANT class name <<<"$1"
    export TOURBILLON_MUTANT
    # What takes the least time first.
    killer=$(by_tests quick || by_models 1 || by_tests slow) ||
        [ "$class" = argued ] || killer=$(by_models "$LOOM_MAX_PREEMPTIONS") || true
    case $class:${killer:+dies} in
    argued:) echo "$name -> none, as docs/PROOF.md argues" ;;
    argued:dies) echo "$name -> $killer: WRONGLY ARGUED" && return 1 ;;
    *:dies) echo "$name -> $killer" ;;
    *) echo "$name -> NONE: it survives" && return 1 ;;
    esac
}
export -f by_models by_tests first_failed note passes reaching show

for program in $programs $models; do
    names=$(names_of "$program")
    # A run of no test at all passes.
    [ -n "$names" ] || { echo "there is no test in $program"; exit 1; }
    xargs -P "$(nproc)" -I {} bash -c 'note "$@"' _ "$program" {} <<<"$names"
done

survived=
xargs -d '\n' -P "$(nproc)" -n 1 bash -o pipefail -c 'show "$1"' _ <<<"$chosen" || survived=yes
printf '\n%s faults\n' "$(wc -l <<<"$chosen")"
if [ $folder = . ] && [ $# = 0 ]; then
    for crate in ci/mutants/*; do
        crate=${crate##*/}
        [ ! -d "crates/$crate" ] || ci/mutants.sh "$crate" || survived=yes
    done
fi
[ -z "$survived" ]
