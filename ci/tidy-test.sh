#!/usr/bin/env bash
# Plants a breach of each kind into a copy of the tracked files, and requires ci/tidy.sh to name
# that kind and no other.
. "$(dirname "$0")/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git ls-files -z | tar --create --null --files-from - | tar --extract --directory "$work"
git -C "$work" init --quiet
git -C "$work" add --all

kinds=()
# plant KIND FILE TEXT: puts TEXT before the first line of FILE, or behind its last if it is prose.
plant() {
    local kind=$1 file=$work/$2 text=$3 found
    kinds+=("$kind")
    cp "$file" "$work/kept"
    case $file in
        *.md) printf '\n%b\n' "$text" >>"$file" ;;
        *) { printf '%b\n' "$text" && cat "$work/kept"; } >"$file" ;;
    esac
    found=$("$work/ci/tidy.sh" | grep -E '^[^:]+:$' || true)
    mv "$work/kept" "$file"
    [ "$found" = "$kind:" ] || {
        printf 'planted in %s: %b\nexpected: %s\nfound:    %s\n' "$2" "$text" "$kind:" "$found"
        exit 1
    }
}

"$work/ci/tidy.sh"
plant 'threads and atomics come from sync.rs alone' src/wall.rs 'use std::sync::Mutex;'
plant 'the time is read under clock/ alone' src/sleep.rs 'fn f() { Instant::now(); }'
plant 'instants and times of day come from time.rs, for browsers' src/sleep.rs \
    'use std::time::{Duration, Instant};'
plant 'std is named for what core has, in a module that builds without an operating system' \
    src/sleep.rs 'use std::fmt;'
plant 'tracing is named in trace.rs alone' src/sleep.rs 'fn f() { tracing::info!("x"); }'
plant 'unsafe code outside the files that ARCHITECTURE.md names' src/wall.rs \
    'fn f() { unsafe { g() } }'
plant 'left open' src/wall.rs '// TO''DO: the rest'
plant 'lines of more than 100 columns' src/wall.rs "// $(printf 'x%.0s' {1..98})"
plant 'documents name what is not there' HAZARDS.md 'By `a_test_that_nobody_wrote`.'
plant 'documents name what is not there' PROOF.md 'By `CanaryThatNobodySeeded`.'
plant 'an ordering without its reason' src/wall.rs 'fn f() { X.load(Ordering::Relaxed); }'
plant 'comments name what is not there' src/fork.rs '// ORDERING: see\n// `a_model_that_is_gone`.'
plant 'comments name what is not there' src/wall.rs '/// Loom `no_such_model`.'
plant 'a sentence stands twice' README.md \
    'It is said here; more is\nsaid. It is said here; less is.'
long='One that is long enough to be noticed anywhere.'
plant 'a sentence stands twice' ARCHITECTURE.md "$long\\n\\n$long"
plant 'a sentence stands twice' src/wall.rs \
    '/// It is said here;\n/// and more. It is\n/// said here; and less.'
for import in 'use crate::timer::Timer;' 'pub(crate) use crate::timer;' \
    'use crate::{sync, timer::Timer};' 'use crate::{\n    sync::{Arc, lock},\n    timer,\n};' \
    'use {core::fmt, crate::{wheel::{Wheel}, timer::{Timer, sleep}}};' 'use super::timer::Timer;' \
    'fn f() { crate::timer::sleep(); }'; do
    plant 'imports that point up' src/tick.rs "$import"
done
plant 'imports that point up' src/wheel/store.rs 'use super::super::timer::Timer;'
for import in 'use crate::Timer;' 'use crate::{sync, Timer};' 'fn f() { crate::never(); }'; do
    plant 'imports from the root, which hide the layer' src/tick.rs "$import"
done

untested=$(grep -oE '^ *breach "[^"]+"' ci/tidy.sh | cut -d'"' -f2 |
    grep -vxFf <(printf '%s\n' "${kinds[@]}") || true)
[ -z "$untested" ] || { printf 'no breach is planted of: %s\n' "$untested" && exit 1; }
echo "${#kinds[@]} breaches were planted, and named"
