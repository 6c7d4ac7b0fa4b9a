#!/usr/bin/env bash
# Rules that no compiler checks. Prints each breach and exits with 1 if there is one.
. "$(dirname "$0")/lib.sh"

breaches=0
# breach WHAT: reads lines, complains if there are any.
breach() {
    local lines
    lines=$(cat)
    if [ -n "$lines" ]; then
        printf '%s:\n%s\n' "$1" "$lines"
        breaches=$((breaches + 1))
    fi
}

# The code of the library, without comments, tests and what tests are made of.
mapfile -t sources < <(git ls-files 'src/*.rs' |
    grep -vE '^src/fuzz|/models/|/(tests|model|models|harness|schedules)\.rs$')
code() {
    awk '/^#\[cfg\(all\(test/ { held = 1; next }
         held && /^mod tests \{/ { nextfile }
         { held = 0 }
         !/^ *\/\// { print FILENAME ":" FNR ": " $0 }' "${sources[@]}"
}

breach "threads and atomics come from sync.rs alone" < <(
    code | grep -E '\b(std::sync|std::thread|loom::)' | grep -vE '^src/sync(/lock)?\.rs:')
breach "the time is read under clock/ alone" < <(
    code | grep -E '(Instant|SystemTime)::now' | grep -vE '^src/clock(/[a-z_]+)?\.rs:')
breach "tracing is named in trace.rs alone" < <(
    code | grep -E '\btracing::' | grep -v '^src/trace\.rs:')
breach "unsafe code outside the files that ARCHITECTURE.md names" < <(
    code | grep -E '\bunsafe (\{|impl|fn)' |
        grep -vE '^src/(engine/entry|sync/lock|clock/(system|notices)|driver/thread)\.rs:' |
        grep -vE '^src/(sleep|engine|engine/shard|fork)\.rs:')
breach "left open" < <(git grep -nE 'TODO|FIXME|XXX' -- '*.rs' '*.toml' '*.md')
breach "lines of more than 100 columns" < <(
    git grep -nE '^.{101,}' -- '*.rs' 'ci/*' | grep -vE '//[!/] \|')

# Tests, models and canaries that the documents name exist. Names in them are backquoted, and have
# at least three words (tests, models) or two (canaries).
breach "documents name what is not there" < <(
    grep -ohE '`([a-z0-9]+_){2,}[a-z0-9]+`|`([A-Z][a-z]+){2,}`' \
        HAZARDS.md PROOF.md ARCHITECTURE.md src/driver/PROTOCOL.md \
        src/engine/models.rs src/engine/models/*.rs |
        tr -d '`' | grep -vxE 'AcqRel|SeqCst' | sort -u |
        while read -r name; do
            git grep -qE "fn $name\\b|^    $name,|(struct|enum|fn) $name\\b" -- 'src' 'tests' ||
                echo "$name"
        done)

# Each atomic operation has an ORDERING: comment in the eight lines above it, or on its line.
breach "an ordering without its reason" < <(for file in "${sources[@]}"; do
    awk -v file="$file" '
        /ORDERING/ { seen = FNR }
        /Ordering::(Relaxed|Acquire|Release|AcqRel|SeqCst)/ && !/^ *\/\// && !/ORDERING/ {
            if (!seen || FNR - seen > 8) print file ":" FNR ": " $0
        }' "$file"
done)

# Imports point down this list.
layers="lib fuzz compat metrics_0_24 traits cron stream future_ext queue timer wall interval timeout
    sleep handle driver engine wheel clock tick trace error fork foreign sync canary"
rank() { awk -v name="$1" 'BEGIN { RS = "[ \n]+" } $0 == name { print NR }' <<<"$layers"; }
# Pairs that may point up: a driver that holds its timer, and the seeded bugs, which are about
# orderings.
allowed="driver>timer canary>sync"
breach "imports that point up" < <(for file in "${sources[@]}"; do
    module=${file#src/}
    module=${module%%[./]*}
    from=$(rank "$module")
    while read -r used; do
        to=$(rank "$used")
        if [ -n "$to" ] && [ "$to" -lt "$from" ] && [[ " $allowed " != *" $module>$used "* ]]; then
            echo "$file uses $used"
        fi
    done < <(code | grep "^$file:" | grep -oE 'crate::[a-z_]+' | sed 's/crate:://' | sort -u)
done)

[ "$breaches" = 0 ]
