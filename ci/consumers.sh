#!/usr/bin/env bash
# Runs crates that nobody here wrote over our timers, and executors whose loop turns them by hand;
# see integration/. Prints which versions were run. With names of packages there, those; `recipes`
# are the programs of the guide's page of that name, which have a workspace of their own.
. "$(dirname "$0")/lib.sh"
limit_runs 300
root=$PWD
cd integration

left_out=()

# in_python FOLDER PROGRAM: runs a program of the recipes with the module in that folder.
in_python() {
    PYTHONPATH=$1 "$root/ci/limited.sh" 300 python3 "examples/$2.py"
}

recipes() {
    cd recipes
    local target=$root/target/recipes
    local built=$target/debug/examples
    local -x CARGO_TARGET_DIR=$target
    cargo tree --locked --edges dev --depth 1 --prefix none |
        grep -oE '^[a-z0-9_-]+ v[0-9][^ ]*' | grep -v '^tourbillon'
    some_tests cargo test --locked --quiet --tests
    cargo build --locked --quiet --lib --examples
    if command -v cc >/dev/null; then
        cc -Wall -Wextra -o "$target/c" examples/c_library.c -L "$built" -lc_library -pthread \
            -Wl,-rpath,"$built"
        "$root/ci/limited.sh" 300 "$target/c"
    else
        left_out+=("a recipe for C")
    fi
    if command -v python3 >/dev/null; then
        rm -rf "$target/pyo3" "$target/uniffi"
        mkdir -p "$target/pyo3"
        cp "$built/libpython_module.so" "$target/pyo3/recipe.so"
        in_python "$target/pyo3" python_module
        "$built/uniffi_bindgen" generate --language python --no-format \
            --out-dir "$target/uniffi" --library "$target/debug/libtourbillon_recipes.so"
        cp "$target/debug/libtourbillon_recipes.so" "$target/uniffi/"
        in_python "$target/uniffi" uniffi
    else
        left_out+=("recipes for Python")
    fi
    cd ..
}

[ $# -gt 0 ] || set -- hyper clippy executors
for consumer; do
    say "$consumer"
    if [ "$consumer" = recipes ]; then
        recipes
        continue
    fi
    cargo tree --locked --package "consumer-$consumer" --edges dev --depth 1 --prefix none |
        grep -oE '^[a-z0-9_-]+ v[0-9][^ ]*' | grep -v '^consumer-'
    # What has examples is examples: they end in assertions.
    if [ ! -d "$consumer/examples" ]; then
        some_tests cargo test --locked --quiet --package "consumer-$consumer"
        continue
    fi
    for source in "$consumer"/examples/*.rs; do
        example=$(basename "$source" .rs)
        printf '%s: ' "$example"
        status=0
        cargo run --locked --quiet --package "consumer-$consumer" --example "$example" || status=$?
        case $status in
        0) ;;
        77) left_out+=("$example") ;;
        *) exit "$status" ;;
        esac
    done
done
cd ..
for example in "${left_out[@]}"; do
    not_checked "$example" "it does not start here"
done
