#!/usr/bin/env bash
# The measurements of durable timers at full size, each on a server of PostgreSQL or a file of
# SQLite that is made for it. Prints a table, as crates/durable/docs/BENCHES.md has one: a number
# that is not the same in all rounds is shown from its least to its greatest.
#
#   chrt -r 1 ci/durable-benches.sh                  two rounds, some 80 minutes
#   ROUNDS=1 ROWS="hundred drain" ci/durable-benches.sh
#   RESULTS=FILE ROUNDS=0 ci/durable-benches.sh      the table of what earlier calls left in FILE
#   LONG=yes ci/durable-benches.sh                   with half an hour beside a snapshot, each round
. "$(dirname "$0")/lib.sh"

cargo build --quiet --locked --release --package tourbillon-durable-harness
harness=$(realpath "${CARGO_TARGET_DIR:-target}/release/harness")
folder=$(mktemp -d "${TMPDIR:-/tmp}/tourbillon-benches.XXXXXX")
trap 'rm -rf "$folder"' EXIT
results=${RESULTS:-$folder/results}
touch "$results"

# on STORE BENCH OPTION...: one measurement, whose row goes to `results` with its options.
on() {
    local store=$1 bench=$2 options=(--full 1 "${@:3}") row
    [[ " ${ROWS:-$bench} " = *" $bench "* ]] || return 0
    case $store in
    postgres)
        row=$(ci/durable-postgres.sh "$harness" bench "$bench" "${options[@]}" --store {})
        ;;
    sqlite)
        row=$("$harness" bench "$bench" "${options[@]}" \
            --store "sqlite:$(mktemp -d "$folder/XXXXXX")/timers")
        ;;
    esac
    # The last column is what was measured.
    grep '^| ' <<<"$row" | awk -F ' *\\| *' -v options="${*:3}" \
        '{ print "| " $2 " | " $3 " | " $4 " | " $5 " | " options " | " $6 " |" }' |
        tee -a "$results" >&2
}

for ((round = 0; round < ${ROUNDS:-2}; round++)); do
    for store in postgres sqlite; do
        on $store lateness
        on $store hundred
        on $store million --connections 2
        on $store drain --shuffled 1
        on $store sustained --connections 2
        on $store sustained --timers 60000 --seconds 60
        on $store held --timers 60000 --seconds 60
        on $store schedules
        on $store insert
        on $store notified
        on $store takeover --nodes 3
        on $store idle
    done
    for nodes in 2 3; do
        on postgres hundred --nodes $nodes
        on postgres million --connections 2 --nodes $nodes
    done
    on postgres drain --shuffled 1 --connections 4
    on postgres schedules --nodes 2
    # A network away, and beside the one-shots of the same times.
    for distance in 0 1000 5000; do
        far=(--timers 1000 --seconds 30 --period 1 --aligned 1 --distance-us "$distance")
        on postgres schedules "${far[@]}"
        on postgres schedules "${far[@]}" --once 1
    done
    on postgres notified --nodes 3
    [ -z "${LONG:-}" ] || on postgres held
done

say "ours"
echo '| name | store | nodes | timers | options | |'
echo '|---|---|---|---|---|---|'
# Rounds are alike but for the numbers of the last column.
awk -F ' \\| ' '
    {
        key = $1 " | " $2 " | " $3 " | " $4 " | " $5
        if (!(key in rounds)) keys[++count] = key
        round = ++rounds[key]
        rest = $6
        sub(/ \|$/, "", rest)
        for (n = 0; match(rest, /[0-9][0-9.,]*[0-9]|[0-9]/); rest = after) {
            number = substr(rest, RSTART, RLENGTH)
            after = substr(rest, RSTART + RLENGTH)
            value = number
            gsub(/,/, "", value)
            before[key, ++n] = substr(rest, 1, RSTART - 1)
            if (round == 1 || value + 0 < least[key, n]) {
                least[key, n] = value + 0
                from[key, n] = number
            }
            if (round == 1 || value + 0 > greatest[key, n]) {
                greatest[key, n] = value + 0
                to[key, n] = number
            }
        }
        numbers[key] = n
        end[key] = rest
    }
    END {
        for (i = 1; i <= count; i++) {
            key = keys[i]
            line = key " | "
            for (n = 1; n <= numbers[key]; n++) {
                range = from[key, n]
                if (least[key, n] != greatest[key, n]) range = range "-" to[key, n]
                line = line before[key, n] range
            }
            print line end[key] " |"
        }
    }' "$results"
