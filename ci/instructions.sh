#!/usr/bin/env bash
# Counts the instructions of the hot paths and compares them with those kept in
# benches/instructions.txt: fails if one has got dearer by 5 %. With `--renew` it keeps
# today's counts. Then walks through one sleep, and fails if a step has grown.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh

if ! find_valgrind; then
    not_checked "instruction counts" "there is no valgrind here"
    exit
fi
valgrind --version
# Nothing is counted of other crates, which the package has for its other benches.
cargo bench --quiet --config 'profile.bench.package."*".opt-level=0' \
    --package tourbillon-benches --bench instructions -- "$@"

# The walk of one `sleep(d).await`, in a build without optimisation: no step enters more functions
# or files than this, and ARCHITECTURE.md names all the files, under the step's title. Traits of std
# are not counted, nor are closures apart from their functions.
walk=target/walk/walk
CARGO_TARGET_DIR=target/walk CARGO_PROFILE_DEV_DEBUG=2 cargo build --quiet --lib
rustc --edition 2024 -g -L target/walk/debug/deps --extern \
    tourbillon=target/walk/debug/libtourbillon.rlib -o "$walk" benches/walk.rs

# entered FUNCTION: prints `FILE TAB FUNCTION` for each function of src that runs within FUNCTION.
entered() {
    valgrind -q --tool=callgrind --dump-instr=yes --compress-strings=no --compress-pos=no \
        --toggle-collect="$1" --callgrind-out-file="$walk.out" "$walk" 2>/dev/null
    awk -v own="/$walk" '/^ob=/ { inside = substr($0, length($0) - length(own) + 1) == own }
        /^0x/ && inside { print $1 }' "$walk.out" | sort -u |
        addr2line -f -i -C -e "$walk" | paste - - |
        sed -nE "s|^(.*)\t$PWD/src/([^:]+):.*|\2\t\1|p" |
        sed -E 's/::\{\{closure\}\}.*//; /\t[^\t]*tourbillon/!d; /\t<.* as (core|alloc|std)::/{
            /Future>::poll|Drop>::drop/!d }' | sort -u |
        awk -F '\t' '{ stem = $1; sub(/\.rs$/, "", stem); sub(/.*\//, "", stem)
            if (!($2 in file) || index($2, "::" stem "::")) file[$2] = $1 }
            END { for (name in file) print file[name] "\t" name }' | sort
}

while read -r title function functions files; do
    found=$(entered "$function")
    within=$(wc -l <<<"$found")
    names=$(cut -f1 <<<"$found" | sort -u)
    in=$(wc -l <<<"$names")
    printf '%4s functions in %2s files  %s\n' "$within" "$in" "$title"
    [ "$within" -le "$functions" ] && [ "$in" -le "$files" ] ||
        { printf 'more than %s in %s:\n%s\n' "$functions" "$files" "$found"; exit 1; }
    text=$(awk -v title="**$title**" 'index($0, "**") == 1 { inside = index($0, title) == 1 }
        /^## / { inside = 0 } inside' ARCHITECTURE.md)
    while read -r name; do
        grep -qF "\`$name\`" <<<"$text" ||
            { echo "ARCHITECTURE.md: $title enters $name, and does not say so"; exit 1; }
    done <<<"$names"
done <<<'Make walk::walk_make 21 12
Arm walk::walk_arm 49 16
Fire tourbillon::driver::thread::run 125 28
End walk::walk_end 38 10
Cancel walk::walk_cancel 29 11'
