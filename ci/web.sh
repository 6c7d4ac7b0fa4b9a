#!/usr/bin/env bash
# The tests of web/ in Node.js, in a page of a headless Chromium, and in a worker there.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
target=wasm32-unknown-unknown

if ! command -v node >/dev/null; then
    not_checked "timers in browsers" "there is no Node.js"
    exit
fi
if ! command -v chromium >/dev/null || ! command -v chromedriver >/dev/null; then
    echo "no Chromium with its driver here: installing Debian's" >&2
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        chromium chromium-driver >&2
fi
CHROMEDRIVER=$(command -v chromedriver)
export CHROMEDRIVER

# The tool has to be of the same version as the library.
version=$(awk '$1 == "name" { name = $3 } $1 == "version" && name == "\"wasm-bindgen\"" {
    gsub(/"/, "", $3); print $3 }' web/Cargo.lock)
tools=$PWD/target/tools
"$tools/bin/wasm-bindgen-test-runner" --version 2>/dev/null | grep -qF " $version" ||
    cargo install --quiet --debug --root "$tools" "wasm-bindgen-cli@$version"
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER=$tools/bin/wasm-bindgen-test-runner

export CARGO_TARGET_DIR=$PWD/target/web
toolchain=() std=()
sysroot=$(rustc --print sysroot)
if [ ! -d "$sysroot/lib/rustlib/$target/lib" ]; then
    if ! unpack_rust source "" rust-web-src; then
        not_checked "timers in browsers" "neither rustup nor Debian has a std of $target here"
        exit
    fi
    # Debian's has no linker of its own.
    linker=$(find "$sysroot" -name rust-lld | head -n 1)
    toolchain=("${rust[@]}" RUSTC_BOOTSTRAP=1 "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER=$linker")
    std=(-Zbuild-std=std,panic_abort)
fi

cd web
for place in "" BROWSER DEDICATED_WORKER; do
    say "${place:-Node.js}"
    env "${toolchain[@]}" ${place:+"WASM_BINDGEN_USE_$place=1"} \
        timeout 900 cargo test --locked "${std[@]}" --target "$target" --tests
done
