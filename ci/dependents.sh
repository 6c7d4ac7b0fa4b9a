#!/usr/bin/env bash
# Runs crates that use futures-timer on our timers, by way of crates/futures-timer: our tests of
# them, then the published sources of some with their own tests. Of these what bounds real time from
# above is taken out: a machine with other work to do fails it, over any timer. Says which versions.
. "$(dirname "$0")/lib.sh"
root=$PWD
shim=$root/crates/futures-timer
work=$root/target/dependents
export CARGO_TARGET_DIR=$work/target
patch="patch.crates-io.futures-timer.path=\"$shim\""

# linked: the package in the current directory is built against the shim, and no other.
linked() {
    local tree
    tree=$(cargo tree --quiet --config "$patch" --target all --edges all --invert futures-timer \
        --depth 0)
    echo "$tree"
    [ "$tree" = "futures-timer v3.0.4 ($shim)" ] || { echo "not the shim"; exit 1; }
}

# own_tests NAME VERSION EDIT FILE [ARGUMENT...]: the tests in a published package, run over the
# shim. EDIT, for sed, takes bounds from above out of FILE, a pattern.
own_tests() {
    local name=$1 version=$2 edit=$3 files=$4 from copy file
    shift 4
    say "$name $version, its own tests"
    from=$(source_of "$work" "$name" "$version")
    [ -n "$from" ] || { echo "no $name $version in the registry"; exit 1; }
    copy=$work/$name-$version
    rm -rf "$copy"
    cp -r "$from" "$copy"
    cd "$copy"
    for file in $files; do
        sed -i -E "$edit" "$file"
    done
    ! diff -rq "$from" . >/dev/null || { echo "there was no bound"; exit 1; }
    # A lock file that was published with it may name an older futures-timer than ours is.
    cargo update --quiet --config "$patch" futures-timer
    linked
    some_tests cargo test --quiet --config "$patch" "$@"
    cd "$root"
}

# The tests of futures-timer itself, in a package beside a copy of them.
their_tests() {
    local version=3.0.4 from copy=$work/futures-timer
    say "futures-timer $version, its own tests"
    from=$(source_of "$work" futures-timer "$version")
    [ -n "$from" ] || { echo "no futures-timer $version in the registry"; exit 1; }
    rm -rf "$copy"
    mkdir -p "$copy"
    cp -r "$from/tests" "$copy/"
    cat >"$copy/Cargo.toml" <<TOML
[package]
name = "tests"
edition = "2018"
[lib]
path = "lib.rs"
test = false
doctest = false
[dev-dependencies]
async-std = { version = "1.13", features = ["attributes"] }
futures-timer = "$version"
TOML
    touch "$copy/lib.rs"
    cd "$copy"
    linked
    some_tests cargo test --quiet --config "$patch"
    cd "$root"
}

say "our tests of backon"
(cd integration/dependents && cargo tree --quiet --depth 1 &&
    some_tests cargo test --quiet)
own_tests governor 0.10.4 '
    /assert_l[te]!\(i\.elapsed\(\)/d
    /assert!\(i\.elapsed\(\) <= /d
    s/assert_in_range!\((i\.elapsed\(\)\.as_millis\(\)), ([0-9]+)\.\.[0-9]+\)/assert!(\1 >= \2)/
' 'tests/*.rs' --tests
# What is to end in time has an hour, and what is not takes one.
own_tests rstest 0.28.0 '
    s/(execute_with_timeout_.*, Duration::)from_millis\([0-9]+\)/\1from_secs(3600)/
    /fn should_(pass|fail_for_panic)/,/^( {8}| {12})\}/ {
        s/^( *)Duration::from_millis\([0-9]+\),/\1Duration::from_secs(3600),/
    }
    /fn should_fail\(/,/^( {8}| {12})\}/ {
        s/(\|\| test\(Duration::)from_millis\([0-9]+\)/\1from_secs(3600)/
    }
' src/timeout.rs --lib
their_tests
