#!/usr/bin/env bash
# What a node carries, on PostgreSQL and on SQLite: the tables of crates/tourbillond/docs/LOAD.md.
# In rounds: callbacks alone and beside requests, creates and gets of the API, and on the same
# server single rows by pgbench. Then once: pages of lists, and the statements of creates.
#
#   ci/durable-load.sh                                     twenty minutes
#   ROUNDS=1 PARTS="rates statements" ci/durable-load.sh   one round, some parts
#   RATE=500 BESIDE=100 SPAN=3 REQUESTS=6400 ROWS=5000 ... smaller
#   SERVICE=FILE ci/durable-load.sh                        another build of the service
. "$(dirname "$0")/lib.sh"

rate=${RATE:-10000} span=${SPAN:-10} beside=${BESIDE:-1000}
requests=${REQUESTS:-64000} rows=${ROWS:-1000000}
clients=64
program=${CARGO_TARGET_DIR:-target}/release/examples/load

# load FILE STORE OPTION...: the load on one store. What it prints is in the file, too.
load() {
    "$program" --store "$2" ${SERVICE:+--service "$SERVICE"} --connections $clients "${@:3}" |
        tee "$1" >&2
}

# note STORE ROW VALUE: a value of a table.
note() { printf '%s\t%s\t%s\n' "$@" >>"$LOAD_RESULTS"; }

# values STORE HOW: notes the values in what the load printed last.
values() {
    awk -v OFS='\t' -v store="$1" -v how="$2" '
        / callbacks, [0-9]+ a second$/ { print store, "callbacks " how ": a second", $3 }
        / ms late$/ { sub(":", "", $1); print store, "callbacks " how ": " $1 " late, ms", $2 }
        / early$/ { print store, "callbacks " how ": early", $1 }
        /^beside: / {
            print store, $3 " beside callbacks: a second", $2
            print store, $3 " beside callbacks: p50, ms", $7
            print store, $3 " beside callbacks: p99, ms", $10
        }
        /^API: / { print store, $3 " alone: a second", $2 }
        / of processor each$/ {
            sub(":", "", $1)
            print store, $1 " alone: processor of the service, us each", $3
            if ($6 > 0) print store, $1 " alone: processor of the database, us each", $6
        }' "$LOAD_RESULTS.last" >>"$LOAD_RESULTS"
}

# rates NAME STORE: callbacks alone, creates and gets, and callbacks beside requests.
rates() {
    load "$LOAD_RESULTS.last" "$2" --rate "$rate" --seconds "$span" --creates "$requests" \
        --gets "$requests"
    values "$1" alone
    load "$LOAD_RESULTS.last" "$2" --rate "$rate" --seconds "$span" --beside "$beside" \
        --creates 0 --gets 0
    values "$1" "beside requests"
}

# single WHAT FILE REQUESTS: transactions a second of a script by pgbench, as many as there are
# requests, and the requests of this round as a part of them.
single() {
    local result requested
    "$TOURBILLON_POSTGRES_BIN/pgbench" -n -M prepared -c $clients -j 2 \
        -t $((requests / clients)) -D n=0 -D "body=$(printf '%300s' '' | tr ' ' a)" \
        -f "$2" "$TOURBILLON_POSTGRES" >"$2.out"
    cat "$2.out" >&2
    result=$(sed -nE 's/^tps = ([0-9]+).*/\1/p' "$2.out")
    requested=$(awk -F '\t' -v row="$3 alone: a second" '
        $1 == "PostgreSQL" && $2 == row { last = $3 }
        END { print last }' "$LOAD_RESULTS")
    note PostgreSQL "$1 by pgbench: a second" "$result"
    note PostgreSQL "$3 for each of these $1" \
        "$(awk -v of="$requested" -v all="$result" 'BEGIN { printf "%.2f", of / all }')"
}

# What runs on a server that ci/durable-postgres.sh has made.
case ${1:-} in
rates)
    rates PostgreSQL "$TOURBILLON_POSTGRES"
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    psql -q "$TOURBILLON_POSTGRES" \
        -c 'CREATE TABLE single (id uuid PRIMARY KEY, k text UNIQUE, body text)'
    # The keys are as those of the load, which makes and reads them by as many connections.
    k="'api-' || :client_id || '-' || :n"
    cat >"$folder/insert.sql" <<END
\\set n :n + 1
INSERT INTO single (id, k, body) VALUES (gen_random_uuid(), $k, :body);
END
    cat >"$folder/select.sql" <<END
\\set n :n + 1
SELECT id, k, body FROM single WHERE k = $k;
END
    single inserts "$folder/insert.sql" creates
    single selects "$folder/select.sql" gets
    exit
    ;;
lists)
    load "$LOAD_RESULTS.postgres" "$TOURBILLON_POSTGRES" --rate 100 --seconds 1 --creates 0 \
        --gets 0 --rows "$rows"
    exit
    ;;
statements)
    psql -q "$TOURBILLON_POSTGRES" -c 'CREATE EXTENSION pg_stat_statements'
    load "$LOAD_RESULTS.last" "$TOURBILLON_POSTGRES" --rate 1 --seconds 1 \
        --creates "$requests" --gets 0
    psql "$TOURBILLON_POSTGRES" -P border=2 -P linestyle=ascii >"$LOAD_RESULTS.statements" <<END
SELECT calls, round(calls::numeric / $requests, 4) AS "calls a create",
    round(mean_exec_time::numeric, 3) AS "ms a call",
    round(1000 * total_exec_time::numeric / $requests, 1) AS "us a create",
    round(rows::numeric / calls, 1) AS "rows a call",
    left(regexp_replace(query, '\s+', ' ', 'g'), 70) AS statement
FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND calls > 1
ORDER BY total_exec_time DESC LIMIT 12;
END
    exit
    ;;
esac

cargo build --quiet --locked --release --package tourbillond --bins --example load
folder=$(mktemp -d "${TMPDIR:-/tmp}/tourbillon-load.XXXXXX")
memory=
trap 'rm -rf "$folder" ${memory:+"$memory"}' EXIT
export LOAD_RESULTS=$folder/results
touch "$LOAD_RESULTS"

parts=${PARTS:-rates lists statements}
if [[ $parts = *rates* ]]; then
    for ((round = 1; round <= ${ROUNDS:-3}; round++)); do
        ci/durable-postgres.sh ci/durable-load.sh rates
        rates SQLite "$folder/round-$round.db"
    done
fi
if [[ $parts = *lists* ]]; then
    # What is measured reads, so the rows are made without waiting for a disk.
    [ ! -w /dev/shm ] || memory=$(mktemp -d /dev/shm/tourbillon-load.XXXXXX)
    FSYNC=off ci/durable-postgres.sh ci/durable-load.sh lists
    load "$LOAD_RESULTS.sqlite" "${memory:-$folder}/lists.db" --rate 100 --seconds 1 \
        --creates 0 --gets 0 --rows "$rows"
fi
if [[ $parts = *statements* ]]; then
    PG_OPTIONS="-c shared_preload_libraries=pg_stat_statements ${PG_OPTIONS:-}" \
        ci/durable-postgres.sh ci/durable-load.sh statements
fi

# Groups the digits of a whole number, for awk.
shown='function shown(x) {
    if (x !~ /^[0-9][0-9][0-9][0-9]+$/) return x
    return shown(substr(x, 1, length(x) - 3)) "," substr(x, length(x) - 2)
}'

# Tables, each value as the least and the greatest of its rounds.
if [ -s "$LOAD_RESULTS" ]; then
    printf '\n| %s callbacks and %s requests a second for %s s' "$rate" "$beside" "$span"
    printf ' | PostgreSQL | SQLite |\n|---|---|---|\n'
    awk -F '\t' "$shown"'
        function range(store, row) {
            if (!((store, row) in least)) return ""
            if (least[store, row] == most[store, row]) return shown(least[store, row])
            return shown(least[store, row]) " to " shown(most[store, row])
        }
        !($2 in known) { known[$2]; order[++rows] = $2 }
        !(($1, $2) in least) || $3 + 0 < least[$1, $2] + 0 { least[$1, $2] = $3 }
        !(($1, $2) in most) || $3 + 0 > most[$1, $2] + 0 { most[$1, $2] = $3 }
        END {
            for (n = 1; n <= rows; n++) {
                row = order[n]
                print "| " row " | " range("PostgreSQL", row) " | " range("SQLite", row) " |"
            }
        }' "$LOAD_RESULTS"
fi
if [ -e "$LOAD_RESULTS.postgres" ]; then
    printf '\n| page of 100, ms | rows | %s | %s | %s | %s |\n|---|---|---|---|---|---|\n' \
        "first, PostgreSQL" "last, PostgreSQL" "first, SQLite" "last, SQLite"
    awk "$shown"'
        /^page of / {
            rows = $3
            sub(",", "", rows)
            name = $0
            sub(/^page of [0-9]+, /, "", name)
            sub(/: .*/, "", name)
            first = $(NF - 4)
            last = $(NF - 1)
        }
        /^page of / && NR == FNR { of[name] = first " | " last }
        /^page of / && NR != FNR {
            print "| " name " | " shown(rows) " | " of[name] " | " first " | " last " |"
        }' "$LOAD_RESULTS.postgres" "$LOAD_RESULTS.sqlite"
fi
if [ -e "$LOAD_RESULTS.statements" ]; then
    printf '\nStatements of %s creates:\n' "$requests"
    cat "$LOAD_RESULTS.statements"
fi
