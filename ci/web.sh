#!/usr/bin/env bash
# The tests of platforms/web/ in Node.js, in a page of a headless Chromium, and in a worker there;
# then with faults planted that they have to find. Also what features build there, and an example.
#
#   ci/web.sh                       all that
#   ci/web.sh nightly               what it leaves out: timers of a hidden page, the weight, the
#                                   documentation, the tool, tools that fake time, more
#                                   requests, and the features for quinn
#   ci/web.sh page [--screenshot]   the page alone, and its picture in platforms/web/page
#   ci/web.sh hidden                timers of a hidden page alone
#   ci/web.sh planted               planted faults alone
#   ci/web.sh tool                  an example for the command line, in Node.js, Deno and Bun, alone
#   ci/web.sh weight                what a program weighs that sleeps, alone
#   ci/web.sh fakes                 sleeps beside tools that fake time, alone
#   ci/web.sh requests [nightly]    requests that overlap in workerd, and contexts in Node.js, Deno
#                                   and Bun, alone
#   ci/web.sh compare               what timers cost and how late they are beside those of other
#                                   crates, which is not among all that
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
target=wasm32-unknown-unknown

if ! command -v node >/dev/null; then
    not_checked "timers in browsers" "there is no Node.js"
    exit
fi
command -v chromium >/dev/null && command -v chromedriver >/dev/null ||
    need_packages "timers in browsers" chromium chromium-driver
CHROMEDRIVER=$(command -v chromedriver)
export CHROMEDRIVER

# The tool has to be of the same version as the library. It needs no TLS to speak with a browser.
version=$(awk '$1 == "name" { name = $3 } $1 == "version" && name == "\"wasm-bindgen\"" {
    gsub(/"/, "", $3); print $3 }' platforms/Cargo.lock)
tools=$PWD/target/tools
"$tools/bin/wasm-bindgen-test-runner" --version 2>/dev/null | grep -qF " $version" ||
    cargo install --quiet --debug --no-default-features --root "$tools" \
        "wasm-bindgen-cli@$version" --bin wasm-bindgen --bin wasm-bindgen-test-runner
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER="$PWD/ci/limited.sh 300 \
$tools/bin/wasm-bindgen-test-runner"
# Its own limit is of 20 s, which a slow machine takes to begin.
export WASM_BINDGEN_TEST_TIMEOUT=280

export CARGO_TARGET_DIR=$PWD/target/web
toolchain=() std=()
sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/$target/lib" ] && ! add_std "$target"; then
    if ! unpack_rust source "" rust-web-src; then
        not_checked "timers in browsers" "neither rustup nor Debian has a std of $target here"
        exit
    fi
    # Debian's has no linker of its own.
    linker=$(find "$sysroot" -name rust-lld | head -n 1)
    toolchain=("${rust[@]}" RUSTC_BOOTSTRAP=1 "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker")
    std=(-Zbuild-std=std,panic_abort)
fi

# tests_in DIRECTORY ARGUMENT...: the tests of platforms/web/ there, in Node.js or where the
# environment says.
tests_in() (
    cd "$1/platforms/web"
    env "${toolchain[@]}" cargo test "${std[@]}" --target "$target" "${@:2}"
)

# Sets `deno`, `bun` and `workerd` to the programs, which npm has for Linux. Where it cannot install
# them, they are not checked.
find_runtimes() {
    local folder=$PWD/platforms/web/runtimes
    cmp -s "$folder/package-lock.json" "$folder/node_modules/.installed" ||
        (cd "$folder" && npm ci --ignore-scripts --no-audit --no-fund --silent) || true
    deno=$(find "$folder/node_modules/@deno" -name deno -type f 2>/dev/null | head -n 1)
    bun=$(find "$folder/node_modules/@oven" -name bun -type f 2>/dev/null | head -n 1)
    workerd=$(find "$folder/node_modules/@cloudflare" -name workerd -type f 2>/dev/null | head -n 1)
    # They are optional to npm: it succeeds if it cannot get one.
    if [ -n "$deno" ] && [ -n "$bun" ] && [ -n "$workerd" ]; then
        cp "$folder/package-lock.json" "$folder/node_modules/.installed"
        return
    fi
    not_checked "Deno, Bun and workerd" "npm cannot install them"
    return 1
}

# made_for TARGET EXAMPLE: builds an example for that target of wasm-bindgen's, and sets `made` to
# its folder.
made_for() {
    made=$CARGO_TARGET_DIR/$2-$1
    (
        cd platforms/web
        env "${toolchain[@]}" \
            cargo build --quiet --locked "${std[@]}" --target "$target" --example "$2"
    )
    "$tools/bin/wasm-bindgen" --target "$1" --no-typescript --out-dir "$made" \
        "$CARGO_TARGET_DIR/$target/debug/examples/$2.wasm"
    # Deno takes CommonJS by that name alone.
    [ "$1" != nodejs ] || cp "$made/$2.js" "$made/$2.cjs"
}

# requests [nightly]: sleeps of requests that overlap, in the hosts that tell them apart.
requests() {
    local made program=platforms/web/requests/contexts.mjs
    say "requests"
    made_for nodejs requests
    in_contexts node "$program" "$made/requests.cjs"
    find_runtimes || return 0
    in_contexts "$bun" "$program" "$made/requests.cjs"
    # It may keep the code of a program that was there before.
    in_contexts "$deno" run --no-code-cache --allow-read "$program" "$made/requests.cjs"
    made_for web requests
    cp platforms/web/requests/worker.mjs platforms/web/requests/early.mjs "$made"
    # The second is from when timeouts are objects there.
    [ -z "${1:-}" ] || export NIGHTLY=1 DATES="2024-09-01 2026-03-01"
    WORKERD=$workerd REQUESTS=$made ci/limited.sh 300 \
        node --test --test-timeout=120000 platforms/web/requests/workerd.test.mjs
}

# Sleeps beside tools that fake time, in Node.js.
fakes() {
    local made
    say "fakes"
    made_for nodejs requests
    if ! (cd platforms/web/fakes && npm ci --ignore-scripts --no-audit --no-fund --silent); then
        not_checked "tools that fake time" "npm cannot install @sinonjs/fake-timers"
        return
    fi
    PROGRAM=$made/requests.cjs ci/limited.sh 300 \
        node --test --test-timeout=60000 platforms/web/fakes/fakes.test.mjs
}

# in_contexts RUNTIME ARGUMENT...: each task there continues in its own context.
in_contexts() {
    local found
    found=$(ci/limited.sh 120 "$@")
    echo "${1##*/}: $found"
    [ "$found" = "A B C D E F G H 0" ]
}

# with_fault NUMBER PLACE [TEST]: the tests of the copy with that fault, with none for 0, in Node.js
# or in PLACE.
faulty=target/web-planted
with_fault() (
    export TOURBILLON_MUTANT=$1
    if [ -n "$2" ]; then
        # A browser has no environment.
        export "WASM_BINDGEN_USE_$2=1" WASM_BINDGEN_TEST_WEBDRIVER_JSON=$PWD/$faulty/webdriver.json
        sed "s/\"args\": \[/&\"--user-agent=$1\", /" platforms/web/webdriver.json \
            >"$WASM_BINDGEN_TEST_WEBDRIVER_JSON"
    fi
    tests_in $faulty --test timers --test faked "${@:3}" 2>&1 </dev/null
)

# Builds a copy with all faults of ci/mutants/web, and shows each to its test, which passes there
# with none and fails with that one.
all_planted() {
    local list number name test place log
    local -A sound
    list=$(faulty_copy $faulty ci/mutants/web)
    [ -n "$list" ] || { echo "the list of faults is empty"; exit 1; }
    # All without a fault, once in each place.
    while IFS=$'\t' read -r number _ name; do
        echo "$name"
        read -r test place <<<"${name##*: }"
        place=${place:-NODE}
        [ -n "${sound[$place]:-}" ] || sound[$place]=$(with_fault 0 "${place#NODE}") ||
            { printf '%s\nthe tests do not pass without a fault\n' "${sound[$place]}"; exit 1; }
        if ! grep -q "^test $test .* ok" <<<"${sound[$place]}"; then
            printf '%s\nit does not pass without\n' "${sound[$place]}"
            exit 1
        fi
        if log=$(with_fault "$number" "${place#NODE}" "$test") ||
            ! grep -q "^test $test .* FAIL" <<<"$log"; then
            printf '%s\nsurvived\n' "$log"
            exit 1
        fi
    done <<<"$list"
}

# in_page EXAMPLE: builds the example, and runs its tests in the browser, with its page.
in_page() {
    local made
    say "$1"
    made_for web "$1"
    cp platforms/web/page/*.html "$made"
    PAGE=$made ci/limited.sh 300 node --test --test-timeout=240000 "platforms/web/page/$1.test.mjs"
    echo "to be served from $made"
}

# The command-line tool: built, and run until it ends by itself.
tool() {
    local made
    say "the tool"
    made_for nodejs tool
    ends_in node "$made/tool.cjs"
    # Timeouts that are numbers, as in Deno before 2.8.
    echo 'const set = setTimeout;
        globalThis.setTimeout = (...call) => Number(set(...call));' >"$made/numbers.cjs"
    ends_in node --require "$made/numbers.cjs" "$made/tool.cjs"
    find_runtimes || return 0
    ends_in "$bun" "$made/tool.cjs"
    ends_in "$deno" run --allow-read "$made/tool.cjs"
}

# ends_in RUNTIME ARGUMENT...: the tool prints its answer and ends there.
ends_in() {
    local answer
    answer=$(ci/limited.sh 120 "$@")
    echo "${1##*/}: $answer"
    [ "$answer" = "Ok(42)" ]
}

# Bytes that a sleep may add to a program, its file compressed: to a bundle for pages alone, and to
# one for any host.
PAGE_MAX=10500
WEIGHT_MAX=12100

# Builds a program without a sleep and with one, and compares them.
weight() {
    say "weight"
    weight_of "for pages" "$PAGE_MAX" --cfg tourbillon_one_timeout
    weight_of "for any host" "$WEIGHT_MAX"
}

# weight_of HOSTS MAX FLAG...: the same, built with flags.
weight_of() {
    local made=$CARGO_TARGET_DIR/weight features sizes=() added
    for features in "" sleep; do
        (
            cd platforms/weight
            env "${toolchain[@]}" CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS="${*:3}" \
                cargo build --quiet --locked "${std[@]}" --target "$target" \
                --profile bundle --features "$features"
        )
        "$tools/bin/wasm-bindgen" --target web --no-typescript --remove-name-section \
            --remove-producers-section --out-dir "$made" \
            "$CARGO_TARGET_DIR/$target/bundle/tourbillon_weight.wasm"
        sizes+=("$(gzip -9 -c "$made/tourbillon_weight_bg.wasm" | wc -c)"
            "$(wc -c <"$made/tourbillon_weight_bg.wasm")")
    done
    added=$((sizes[2] - sizes[0]))
    echo "$1: a sleep adds $((sizes[3] - sizes[1])) bytes, $added compressed"
    [ "$added" -le "$2" ] || { echo "more than $2"; exit 1; }
}

# This crate's timers beside those of others, in Node.js and in a page: a table of each.
compare() (
    local place log
    cd platforms/web/compare
    export WASM_BINDGEN_TEST_WEBDRIVER_JSON=$PWD/../webdriver.json
    for place in "" BROWSER; do
        say "${place:-Node.js}"
        [ -z "$place" ] || export "WASM_BINDGEN_USE_$place=1"
        if ! log=$(env "${toolchain[@]}" cargo test --release --locked "${std[@]}" \
            --target "$target" --test compare -- --nocapture 2>&1); then
            printf '%s\n' "$log"
            exit 1
        fi
        grep '^|' <<<"$log"
    done
)

# for_web FEATURES: whether the library builds with these.
for_web() {
    env "${toolchain[@]}" \
        cargo check --quiet --locked --lib "${std[@]}" --target "$target" --features "$1"
}
# not_for_web FEATURES: the library refuses to be built with these.
not_for_web() {
    local told
    if told=$(for_web "$1" 2>&1) || ! grep "^error: .*tourbillon's feature" <<<"$told"; then
        printf '%s\n%s: not refused\n' "$told" "$1"
        exit 1
    fi
}

case ${1:-} in
page)
    [ "${2:-}" != --screenshot ] || export SCREENSHOT=$PWD/platforms/web/page/page.png
    in_page page
    exit
    ;;
hidden)
    in_page hidden
    exit
    ;;
planted)
    all_planted
    exit
    ;;
tool)
    tool
    exit
    ;;
weight)
    weight
    exit
    ;;
requests)
    requests "${2:-}"
    exit
    ;;
fakes)
    fakes
    exit
    ;;
compare)
    compare
    exit
    ;;
nightly)
    # Of the cryptography of quinn's feature.
    command -v clang >/dev/null || need_packages "timers in browsers" clang
    in_page hidden
    say "docs"
    docs_of "$target" time/struct.Instant.html Performance
    docs_of "$target" timer/struct.Builder.html worker_while_hidden
    tool
    requests nightly
    fakes
    say "features"
    for_web wasm-bindgen,quinn-0_11,pending
    not_for_web quinn-0_11
    weight
    exit
    ;;
esac

mkdir -p "$CARGO_TARGET_DIR"
log=$CARGO_TARGET_DIR/tests.log
for place in "" BROWSER DEDICATED_WORKER; do
    say "${place:-Node.js}"
    (
        [ -z "$place" ] || export "WASM_BINDGEN_USE_$place=1"
        tests_in . --locked --tests 2>&1 | tee "$log"
    )
    by="Node.js $(node --version)"
    [ -z "$place" ] || by="$(chromium --version | cut -d ' ' -f 1,2) (${place,,})"
    say_passed "$target" "$by" "$log"
done

say "features"
# The others are those that platforms/web/Cargo.toml has, and quinn's.
for_web wasm-bindgen,pending
for_web hyper
not_for_web wasm-bindgen,hyper

in_page page
requests

say "planted faults"
all_planted
