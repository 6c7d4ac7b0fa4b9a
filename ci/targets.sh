#!/usr/bin/env bash
# Checks that the library builds for other targets, or for those named, and runs the tests on those
# that something here can run. Ends with a table of what was done. docs/PLATFORMS.md says what each
# system does with timers.
#
#   ci/targets.sh [TARGET...] [--test TARGET...]   checks, and tests those behind --test, which
#                                                  takes minutes for each that runs
#   ci/targets.sh --test                           tests all
#   ci/targets.sh --lateness   how late timers are here, and on Windows, under wine
#
# It takes rustup's std of a target where that is installed, else Debian's rustc and a std that it
# builds. Linkers, wine and qemu, which --test needs, are Debian's.
# `ci/web.sh` runs the tests of browsers, `ci/wasi.sh` those of WASI, `ci/bare.sh` those without an
# operating system.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
export CARGO_TARGET_DIR=$PWD/target/targets

[ $# -gt 0 ] && [ "$*" != --test ] || set -- "$@" x86_64-pc-windows-gnu x86_64-pc-windows-msvc \
    i686-unknown-linux-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-gnu \
    armv7-unknown-linux-gnueabihf riscv64gc-unknown-linux-gnu s390x-unknown-linux-gnu \
    powerpc-unknown-linux-gnu aarch64-linux-android \
    aarch64-apple-darwin aarch64-apple-ios \
    x86_64-unknown-freebsd x86_64-unknown-netbsd x86_64-unknown-openbsd \
    wasm32-wasip1 wasm32-wasip2 wasm32-unknown-unknown \
    thumbv7em-none-eabihf riscv32imc-unknown-none-elf x86_64-unknown-none
sysroot=$(rustc --print sysroot)
# The program chooses what stands in for a compare-and-swap, and there is none here.
export CARGO_TARGET_RISCV32IMC_UNKNOWN_NONE_ELF_RUSTFLAGS="--cfg \
portable_atomic_unsafe_assume_single_core"

# on_qemu PROCESSOR PREFIX ARCHITECTURE: the part of `runner_of` that is for Linux on
# a processor that qemu emulates.
on_qemu() {
    linker=$2-gcc runner="qemu-$1-static -L /usr/$2"
    emulator=$runner
    # qemu takes long for random operations by the thousand, and its address space is not the
    # program's, so that a limit of that does not hold.
    skip+=(--skip queue_model:: --skip wheel::tests::agrees --skip wheel::heap::tests::agrees)
    skip+=(--skip a_thread_that_cannot_be_started)
    packages=("gcc-$2" "libc6-dev-$3-cross" qemu-user-static)
}

# How the tests of a target are linked and run here, and the packages for both; `skip` is what
# cannot be run. Fails if nothing can.
runner_of() {
    emulator=''
    # These have `cc` make a library for the processor that it runs on.
    skip=(--skip wall::shifted --skip system_clock)
    case $1 in
    x86_64-pc-windows-gnu)
        linker=x86_64-w64-mingw32-gcc runner=wine
        packages=(gcc-mingw-w64-x86-64-win32 wine wine64)
        ;;
    i686-unknown-linux-gnu)
        linker=i686-linux-gnu-gcc runner=
        packages=(gcc-i686-linux-gnu libc6-dev-i386-cross libc6-i386 lib32gcc-s1)
        ;;
    x86_64-unknown-linux-musl)
        # Static programs, which the musl of rustup's std is enough for. Debian's std has none.
        [ -d "$sysroot/lib/rustlib/$1/lib" ] || add_std "$1" || { lacking=$1; return 1; }
        linker=cc runner= packages=()
        ;;
    aarch64-unknown-linux-gnu) on_qemu aarch64 aarch64-linux-gnu arm64 ;;
    armv7-unknown-linux-gnueabihf) on_qemu arm arm-linux-gnueabihf armhf ;;
    riscv64gc-unknown-linux-gnu) on_qemu riscv64 riscv64-linux-gnu riscv64 ;;
    s390x-unknown-linux-gnu) on_qemu s390x s390x-linux-gnu s390x ;;
    *) return 1 ;;
    esac
}

# Makes wine ready: a home of its own, and a library that Debian's is too old to have.
prepare_wine() {
    local home=$PWD/target/wine
    export WINEPREFIX=$home WINEDEBUG=-all
    [ ! -e "$home/drive_c/windows/system32/bcryptprimitives.dll" ] || return 0
    mkdir -p "$home"
    wine wineboot --init >/dev/null 2>&1
    cat >"$home/random.c" <<'END'
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
BOOL WINAPI ProcessPrng(PBYTE to, SIZE_T count) { return SystemFunction036(to, (ULONG)count); }
END
    x86_64-w64-mingw32-gcc -shared "$home/random.c" -ladvapi32 \
        -o "$home/drive_c/windows/system32/bcryptprimitives.dll"
}

# with_std TARGET COMMAND ARGUMENT...: cargo, with a std of that target. Fails if there is none.
with_std() {
    local target=$1 command=$2 std=(-Zbuild-std)
    shift 2
    if [ -d "$sysroot/lib/rustlib/$target/lib" ]; then
        cargo "$command" --target "$target" "$@"
    else
        [ "$command" != check ] || std=(-Zbuild-std=std,panic_abort)
        [[ $target != *-none* ]] || std=(-Zbuild-std=core,alloc)
        env "${rust[@]}" RUSTC_BOOTSTRAP=1 cargo "$command" "${std[@]}" --target "$target" "$@"
    fi
}

# Has cargo link and run programs of a target. Fails if nothing can.
prepare() {
    local name
    runner_of "$1" || return
    [ ${#packages[@]} = 0 ] || dpkg -s "${packages[@]}" >/dev/null 2>&1 ||
        need_packages "the tests on $1" "${packages[@]}"
    [ "$runner" != wine ] || prepare_wine
    name=$(tr a-z- A-Z_ <<<"$1")
    export "CARGO_TARGET_${name}_LINKER=$linker"
    # Half an hour for each program of tests: the longest takes minutes under qemu.
    export "CARGO_TARGET_${name}_RUNNER=$PWD/ci/limited.sh 1800 $runner"
    export TOURBILLON_EMULATOR=$emulator
}

# What `runner` is, with its version.
by_what() {
    case $runner in
    "") echo "the kernel here" ;;
    wine) wine --version | sed -E 's/^wine-([^ ]+).*/wine \1/' ;;
    *) ${runner%% *} --version | sed -nE '1s/.* version ([^ ]+).*/qemu-user \1/p' ;;
    esac
}

run_tests() {
    local target=$1 linker runner emulator packages skip log=$CARGO_TARGET_DIR/$1.log
    if ! prepare "$target"; then
        tests="untested: nothing here runs it"
        return
    fi
    if ! some_tests with_std "$target" test --locked --all-features --lib --test it \
        -- "${skip[@]}" 2>&1 | tee "$log" ||
        ! tests=$(say_passed "$target" "$(by_what)" "$log"); then
        tests="FAILED" failed=yes
    fi
}

if [ "${1:-}" = --lateness ]; then
    windows=x86_64-pc-windows-gnu
    [ -d "$sysroot/lib/rustlib/$windows/lib" ] || unpack_rust source "" rust-web-src
    prepare $windows
    here=$(cargo run --quiet --locked --example lateness)
    wine=$(with_std $windows run --quiet --locked --example lateness)
    paste <(sed '1s/^sleep of/Linux/' <<<"$here") <(sed '1s/^sleep of/wine/' <<<"$wine") |
        column -t -s $'\t'
    exit
fi

# std for Windows is made of import libraries, which take a tool of MinGW's to make.
if [[ " $* " = *-windows-gnu* ]] && ! command -v x86_64-w64-mingw32-dlltool >/dev/null; then
    if unpack dlltool binutils-mingw-w64-x86-64; then
        export PATH=$debian/dlltool/usr/bin:$PATH
    fi
fi

table= failed='' test='' lacking=''
for target; do
    [ "$target" != --test ] || { test=yes; continue; }
    say "$target"
    tests=- library=checked
    if [ ! -d "$sysroot/lib/rustlib/$target/lib" ] && ! unpack_rust source "" rust-web-src; then
        library="no std of it here"
    elif ! with_std "$target" check --quiet --locked --lib; then
        library=FAILED failed=yes
    elif [ -n "$test" ]; then
        run_tests "$target"
    fi
    case $target in
    wasm32-unknown-unknown) tests="by ci/web.sh" ;;
    wasm32-wasip*) tests="by ci/wasi.sh $target" ;;
    thumbv* | riscv32imc*) tests="by ci/bare.sh" ;;
    esac
    table+="$target|$library|$tests"$'\n'
done
say "what was done"
printf 'target|library|tests\n%s' "$table" | column -t -s '|'
[ -z "$failed" ]
! grep -q 'no std of it' <<<"$table" ||
    not_checked "targets" "neither rustup nor Debian has a std of some here"
[ -z "$lacking" ] || not_checked "the tests on $lacking" "rustup has no std of it here"
