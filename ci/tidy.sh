#!/usr/bin/env bash
# Rules that no compiler checks. Prints each breach and exits with 1 if there is one.
. "$(dirname "$0")/lib.sh"

# One order for sort, comm and join, and columns that are characters.
export LC_ALL=C.UTF-8

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

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# The code of the library, without comments, tests and what tests are made of.
mapfile -t sources < <(git ls-files 'src/*.rs' |
    grep -vE '^src/fuzz|/models/|/(tests|model|models|harness|schedules)\.rs$')
awk '/^#\[cfg\(all\(test/ { held = 1; next }
     held && /^mod tests \{/ { nextfile }
     { held = 0 }
     !/^ *\/\// { print FILENAME ":" FNR ": " $0 }' "${sources[@]}" >"$work/code"
code() { cat "$work/code"; }

breach "threads and atomics come from sync.rs alone" < <(
    code | grep -E '\b(std|core|alloc)::sync\b|\bstd::thread\b|\b(loom|critical_section)::' |
        grep -vE '^src/sync(/[a-z0-9_]+)?\.rs:')
breach "the time is read under clock/ alone" < <(
    code | grep -E '(Instant|SystemTime)::now' | grep -vE '^src/clock(/[a-z_]+)?\.rs:')
breach "instants and times of day come from time.rs, for browsers" < <(
    code | grep -E 'std::time::.*(Instant|SystemTime)' |
        grep -vE '^src/(time|traits/(aws_smithy_async|hyper))\.rs')
hosted='clock|cron|wall|traits|trace|sync|foreign|engine/parker|'
hosted+='driver/(event_loop|hold|pacing|resume|thread|virtual_clock)'
in_core='array|cell|cmp|convert|error|fmt|future|hash|iter|mem|num|ops|pin|ptr|task|time::Duration'
breach "std is named for what core has, in a module that builds without an operating system" < <(
    code | grep -E "\bstd::($in_core)\b" | grep -vE "^src/($hosted)[./]")
breach "tracing is named in trace.rs alone" < <(
    code | grep -E '\btracing::' | grep -v '^src/trace\.rs:')
breach "unsafe code outside the files that ARCHITECTURE.md names" < <(
    code | grep -E '\bunsafe (\{|impl|fn)' |
        grep -vE '^src/(engine/entry|sync/(lock|bare)|clock/(system|notices)|driver/thread)\.rs:' |
        grep -vE '^src/engine/wake_batch\.rs:' |
        grep -vE '^src/(sleep|engine|engine/shard|fork|driver/bell|engine/parker/windows)\.rs:')
breach "left open" < <(git grep -nE 'TODO|FIXME|XXX' -- '*.rs' '*.toml' '*.md')
breach "lines of more than 100 columns" < <(
    git grep -nE '^.{101,}' -- '*.rs' 'ci/*' ':!ci/mutants' | grep -vE '//[!/] \|')

# Tests, models and canaries that the documents name exist. Names in them are backquoted, and have
# at least three words (tests, models) or two (canaries).
{
    git grep -ohE '(fn|struct|enum|const|static) [A-Za-z0-9_]+|^    [A-Z][A-Za-z]+,' -- src tests
    sed -nE 's/^mutant ([A-Za-z]+):.*/\1/p' ci/mutants/canaries
} | sed -E 's/^.* //; s/,$//' | sort -u >"$work/defined"
breach "documents name what is not there" < <(
    grep -ohE '`([a-z0-9]+_){2,}[a-z0-9]+`|`([A-Z][a-z]+){2,}`' \
        HAZARDS.md PROOF.md ARCHITECTURE.md src/driver/PROTOCOL.md \
        src/engine/models.rs src/engine/models/*.rs |
        tr -d '`' | grep -vxE 'AcqRel|SeqCst' | sort -u | comm -23 - "$work/defined")

# Each atomic operation has an ORDERING: comment in the eight lines above it, or on its line.
breach "an ordering without its reason" < <(for file in "${sources[@]}"; do
    awk -v file="$file" '
        /ORDERING/ { seen = FNR }
        /Ordering::(Relaxed|Acquire|Release|AcqRel|SeqCst)/ && !/^ *\/\// && !/ORDERING/ {
            if (!seen || FNR - seen > 8) print file ":" FNR ": " $0
        }' "$file"
done)

# Every name that an ORDERING: comment gives is there, and every model that any comment gives.
awk 'function flush(   rest, name, wanted) {
         rest = text
         wanted = reasons ? "`([a-z0-9]+_)+[a-z0-9]+`" : "[Ll]oom `[a-z0-9_]+`"
         while (match(rest, wanted)) {
             name = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
             gsub(/^[Ll]oom |`/, "", name); print name, place
         }
         text = ""; reasons = 0
     }
     FNR == 1 || !/\/\// { flush() }
     /\/\// {
         place = FILENAME ":" FNR
         if (/ORDERING:/) { flush(); reasons = 1 }
         sub(/^.*\/\/[\/!]? ?/, ""); text = text " " $0
     }
     END { flush() }' "${sources[@]}" >"$work/named"
git grep -ohE '\b[a-z0-9_]+:' -- src | tr -d : | sort -u - "$work/defined" >"$work/fields"
breach "comments name what is not there" < <(sort "$work/named" | join -v 1 - "$work/fields")

# A sentence that stands twice in a paragraph, or a longer one twice in a file: what an edit left
# behind, or what is said in two places.
mapfile -t prose < <(git ls-files '*.md' | grep -v '^benches/RESULTS\.md$')
breach "a sentence stands twice" < <(awk '
    function flush(   n, i, words, parts, s, list) {
        n = split(text, parts, /[.:;!?] +/)
        for (i = 1; i <= n; i++) {
            s = parts[i]
            gsub(/^ +| +$/, "", s); sub(/[.:;!?]$/, "", s)
            words = split(s, list, / +/)
            if (words >= 4 && paragraph[s] == number || words >= 8 && s in seen)
                print place ": " s
            paragraph[s] = number; seen[s]
        }
        text = ""; number++
    }
    BEGIN { number = 1 }
    FNR == 1 { flush(); split("", seen); fenced = 0; rust = FILENAME ~ /\.rs$/ }
    { line = $0 }
    rust && !sub(/^ *\/\/[\/!]? ?/, "", line) { flush(); fenced = 0; next }
    line ~ /^ *```/ { flush(); fenced = !fenced; next }
    fenced || line ~ /^ *(\||#|$)/ { flush(); next }
    line ~ /^ *([-*]|[0-9]+\.) / { flush() }
    { if (text == "") place = FILENAME ":" FNR; text = text " " line }
    END { flush() }' "${prose[@]}" "${sources[@]}")

# Every path of the code that begins at the root, one to a line, with the file before it. Braces
# are taken apart, and `super` where that is the root.
awk 'function expand(prefix, list,   i, c, depth, item) {
         for (i = 1; i <= length(list); i++) {
             c = substr(list, i, 1)
             depth += (c == "{") - (c == "}")
             if (c == "," && depth == 0) { path(prefix, item); item = "" }
             else item = item c
         }
         path(prefix, item)
     }
     function path(prefix, item,   at) {
         gsub(/^ +| +$/, "", item)
         if ((at = index(item, "{")))
             expand(prefix substr(item, 1, at - 1), substr(item, at + 1, length(item) - at - 1))
         else if (item != "" && sub(root, "crate::", prefix) + sub(root, "crate::", item))
             print file, prefix item
     }
     {
         at = index($0, ":"); file = substr($0, 1, at - 1)
         line = substr($0, at + 1); sub(/^[0-9]+: /, "", line)
         depth = split(file, folders, "/") - 1
         root = depth == 1 ? "^(crate|super)::" : "^(crate|super::super)::"
     }
     statement == "" && line ~ /^ *(pub(\([^)]*\))? +)?use / { statement = " " }
     statement != "" {
         statement = statement " " line
         if (line !~ /;/) next
         sub(/^ *(pub(\([^)]*\))? +)?use +/, "", statement); sub(/ *;.*/, "", statement)
         expand("", statement); statement = ""; next
     }
     {
         while (match(line, /(crate|super|super::super)::[A-Za-z_][A-Za-z_0-9:]*/)) {
             path("", substr(line, RSTART, RLENGTH)); line = substr(line, RSTART + RLENGTH)
         }
     }' "$work/code" | sort -u >"$work/paths"

# Imports point down this list.
layers="lib fuzz compat metrics_0_24 traits cron stream future_ext queue callback timer wall
    interval timeout sleep handle driver engine wheel clock tolerance tick deadline trace error fork
    foreign sync time"
# Pairs that may point up: a driver that holds its timer.
allowed="driver>timer"
layered() {
    awk -v layers="$layers" -v allowed="$allowed" -v wanted="$1" '
        BEGIN {
            n = split(layers, names, /[ \n]+/); for (i = 1; i <= n; i++) rank[names[i]] = i
            n = split(allowed, pairs, " "); for (i = 1; i <= n; i++) may[pairs[i]]
        }
        {
            module = $1; sub(/^src\//, "", module); sub(/[.\/].*/, "", module)
            used = $2; sub(/^crate::/, "", used); sub(/::.*/, "", used)
            if (!(used in rank)) kind = "hidden"
            else if (rank[used] < rank[module] && !(module ">" used in may)) kind = "up"
            else kind = ""
            if (kind == wanted) print $1 " uses " $2
        }' "$work/paths"
}
breach "imports that point up" < <(layered up)
breach "imports from the root, which hide the layer" < <(layered hidden)

[ "$breaches" = 0 ]
