#!/usr/bin/env bash
# Interprets tests under Miri, which reports undefined behaviour: data races, uses after free, reads
# of what is not initialised, breaches of the rules of aliasing. With no argument a short run, then
# `planted`. With `full [SEEDS]`: all of it under both sets of rules (Stacked Borrows, then Tree
# Borrows), and what has threads under as many seeds (32), each another schedule. With `planted`:
# plants faults in a copy; Miri has to report each.
#
# The Miri is that of TOURBILLON_MIRI_ENV, a file to be sourced that puts `cargo-miri` on the path;
# else rustup's of the nightly toolchain; else what a script beside the checkout sets up, where one
# is kept: ../shared/tools/setup-miri.sh DIR, which writes DIR/env.sh. Installs nothing by itself.
#
# Time is Miri's own and goes by what was executed, so a seed gives the same run each time.
. "$(dirname "$0")/lib.sh"
. ci/debian.sh
export RUSTUP_AUTO_INSTALL=0
export CARGO_TARGET_DIR=$PWD/target/miri

choose_miri() {
    local setup=../shared/tools/setup-miri.sh dir=$PWD/target/miri-tool
    miri=(cargo-miri miri)
    if [ -n "${TOURBILLON_MIRI_ENV:-}" ]; then
        . "$TOURBILLON_MIRI_ENV"
    elif cargo +nightly miri --version >/dev/null 2>&1; then
        miri=(cargo +nightly miri)
    elif [ -x "$setup" ]; then
        [ -e "$dir/env.sh" ] || alone "$setup" "$dir" >/dev/null
        . "$dir/env.sh"
    else
        return 1
    fi
    "${miri[@]}" --version
}

# The further flags of each set of rules.
stacked=
tree=-Zmiri-tree-borrows

# interpret FLAGS ARGUMENT...: shows what the tests printed if one fails.
interpret() {
    local flags=$1 log
    shift
    log=$(MIRIFLAGS=$flags some_tests "${miri[@]}" test --locked --quiet \
        --manifest-path "$manifest" "$@" 2>&1) || {
        printf '%s\nMIRIFLAGS=%s, %s\n' "$log" "$flags" "$*"
        return 1
    }
}

# What has one thread leaks nothing. $1: flags.
one_thread() { interpret "$1" --test miri -- --skip threads::; }

# What has several, under seeds $2 to $3. A driver's thread may live when the tests end.
threads() {
    local flags seed
    for ((seed = $2; seed <= $3; seed++)); do
        flags="$1 -Zmiri-ignore-leaks -Zmiri-seed=$seed -Zmiri-preemption-rate=0.1"
        interpret "$flags" --test miri -- threads::
        interpret "$flags" --lib -- sync::
    done
}

copy=target/miri-planted/copy
# plant FILE EDIT: makes an edit, for sed, to that file of the copy.
plant() {
    sed -i -E "$2" "$copy/$1"
    ! cmp -s "$1" "$copy/$1" || { echo "$1: nothing was planted"; exit 1; }
}
# reported MESSAGE ARGUMENT...: Miri reports that message in these tests of the copy.
reported() {
    local message=$1 log
    shift
    # Built apart: cargo cannot tell the copy's objects from the original's.
    if log=$(CARGO_TARGET_DIR=$PWD/target/miri-planted manifest=$copy/platforms/miri/Cargo.toml \
        interpret "$stacked -Zmiri-ignore-leaks" "$@") ||
        ! grep -qE "error: Undefined Behavior: .*$message" <<<"$log"; then
        printf '%s\n%s: not reported\n' "$log" "$message"
        exit 1
    fi
    echo "reported: $message"
}

# Three faults in one copy: the tests of the first two have one thread, and the third shows in an
# order of several.
all_planted() {
    rm -rf "$copy"
    mkdir -p "$copy"
    git ls-files -z | tar --null -T - -c | tar -x -C "$copy"
    # A reference to an entry outlives its being given back.
    plant src/engine/insert.rs '/unsafe fn remove/,/^    }/ {
            s/^( +)let entry = .*/&\n\1let kept = std::ptr::from_ref(entry);/
            s/^( +)drop\(waker\);/\1(|_: \&Entry| drop(waker))(unsafe { \&*kept });/
        }'
    # A sleep gives its entry back before it forgets its claim, so twice where a waker panics.
    plant src/sleep.rs '/fn disarm/,/^    }/ {
            s/match core::mem::replace.*/match unsafe { (\&raw const self.claim).read() } {/
            s/=> (self\.give_back\(.*\)),/=> { let armed = \1; self.claim = then; armed }/
            s/_ => false,/_ => { self.claim = then; false }/
        }'
    # A lock that is released without publishing what was written under it.
    plant src/sync/lock.rs 's/(store\(false, Ordering::)Release/\1Relaxed/'
    reported 'strongly protected' \
        --test miri -- a_waker_takes_a_crowd_with_it_as_its_sleep_is_dropped
    reported 'dangling' \
        --test miri -- a_waker_that_panics_as_its_sleep_completes_leaves_no_claim_on_freed_memory
    reported 'Data race detected' --lib -- waiters_get_through
}

# in_lanes COMMAND...: runs commands that do not need each other, in a lane for each processor.
in_lanes() {
    local lanes lane=0 pid ended=() failed=0
    lanes=$(nproc)
    for ((; lane < lanes; lane++)); do
        (for ((i = lane + 1; i <= $#; i += lanes)); do eval "${!i}"; done) &
        ended+=($!)
    done
    for pid in "${ended[@]}"; do wait "$pid" || failed=1; done
    return $failed
}

if ! choose_miri; then
    not_checked "Miri" "there is none here"
    exit
fi
manifest=platforms/miri/Cargo.toml
case ${1:-short} in
short)
    say "aliasing, leaks, memory, threads, planted faults"
    in_lanes "one_thread '$stacked'" all_planted "threads '$stacked' 1 1"
    ;;
full)
    for rules in "$stacked" "$tree"; do
        say "aliasing, leaks, memory, threads ${rules:--Zmiri-stacked-borrows}"
        in_lanes "one_thread '$rules'" "threads '$rules' 1 ${2:-32}" \
            "interpret '$rules' --lib -- engine::shard:: wheel::"
    done
    all_planted
    ;;
planted) all_planted ;;
*) echo "ci/miri.sh [full [SEEDS] | planted]" && exit 2 ;;
esac
