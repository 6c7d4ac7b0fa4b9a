# Sourced by `.ci/run` and `ci/nightly.sh`: how they begin their stages, and say how those ended.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
list=$(basename "$0" .sh)
mkdir -p target
# What it needs and is not here it installs, or asks for, all in one place: ci/debian.sh.
export TOURBILLON_INSTALL=yes
# What is built once needs no state for the next time. Without debug information a build takes a
# seventh less, and more of it is the same for all checks; a panic says its line all the same.
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0
export TOURBILLON_NOT_CHECKED=$PWD/target/not-checked
: >"$TOURBILLON_NOT_CHECKED"

# stage NAME COMMAND...: begins a check as soon as no more run than there are processors: one of
# them mostly waits, for a storm, a browser or another's build. What it prints is shown once it has
# ended, with the time that it took, and the processor's. Checks share what is built, and nothing
# else: cargo locks the former, ci/debian.sh what is installed.
logs=target/checks processors=$(nproc) begun=0 started=$(date -u +%FT%TZ)
rm -rf $logs && mkdir -p $logs && touch $logs/ended $logs/failed $logs/seconds
trap 'trap "" INT TERM; kill 0; wait; exit 130' INT TERM
stage() {
    while [ "$(jobs -rp | wc -l)" -gt "$processors" ]; do wait -n || true; done
    begun=$((begun + 1))
    echo "begins: $1"
    run_stage "$@" &
}
run_stage() {
    local began=$SECONDS log ended=passed wall cpu
    log=$(basename "$2" .sh)${*:3}
    log=$logs/${log//[^a-z0-9_]/-}.log
    "${@:2}" >"$log" 2>&1 </dev/null || ended="FAILED with $?"
    wall=$((SECONDS - began))
    # Of all processes that it has waited for. A shell of its own would have had none.
    times >"$log.times"
    cpu=$(awk 'NR == 2 {
            for (i = 1; i <= 2; i++) { split($i, of, /[ms]/); sum += 60 * of[1] + of[2] }
            printf "%.0f", sum
        }' "$log.times")
    (
        flock 9
        say "$1"
        cat "$log"
        printf '%5s s %5s s  %s: %s\n' "$wall" "$cpu" "$1" "$ended" | tee -a $logs/ended
        printf '%s\t%s\t%s\t%s\n' "$wall" "$cpu" "$ended" "$1" >>$logs/seconds
        [ "$ended" = passed ] || echo "$log" >>$logs/failed
    ) 9>$logs/shown
}

# Adds this run to target/stages.tsv, which keeps the last ten of each list.
note_run() {
    local kept=target/stages.tsv commit
    commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
    git diff --quiet HEAD 2>/dev/null || commit+=+
    touch "$kept"
    awk -v run="$started"$'\t'"$commit"$'\t'"$list" '{ print run "\t" $0 }' $logs/seconds >>"$kept"
    # The last first, by run: a run is of one list, and begins in one second.
    tac "$kept" | awk -F '\t' '
        !(($1, $3) in seen) { seen[$1, $3]; runs[$3]++ }
        runs[$3] <= 10' | tac >"$kept.new"
    mv "$kept.new" "$kept"
}

# Waits for all stages, and says how they ended. Fails unless all have passed.
finish() {
    local log
    wait
    say "how long each took, and what of the processors; servers and browsers are not among that"
    cat $logs/ended
    awk -F '\t' -v wall="$SECONDS" '{ cpu += $2 } END {
        printf "%5d s %5d s  in all\n", wall, cpu }' $logs/seconds
    # At the end, where readers look. Node.js says the cause of a failure below it.
    for log in $(cat $logs/failed); do
        say "${log##*/}: what failed, and its last lines"
        grep -nE -A 8 '^error|FAILED|panicked|^ *not ok|✖|Error' "$log" | tail -n 50 || true
        echo "..."
        tail -n 15 "$log"
    done
    note_run
    [ "$(grep -c ': passed$' $logs/ended)" = "$begun" ] || { echo "not all passed"; exit 1; }
    say "not checked here"
    list_not_checked
    say "all else passed"
}
