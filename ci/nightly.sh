#!/usr/bin/env bash
# What is checked each night beside `.ci/run`: checks that take long, and those that depend more on
# others than on a change. From a clean clone on a machine with a Rust toolchain, and a nightly one
# for the sanitizers and the fuzzer.
. "$(dirname "$0")/stages.sh"

# Alone: the limits of one second are other people's, who keep them on a busy machine, too.
stage "receivers that close idle connections" ci/receivers.sh
wait
# The longest first.
stage "durable timers, all" ci/durable.sh nightly
stage "Miri, all, under four seeds" ci/miri.sh full 4
stage "small faults" ci/mutants.sh
stage "sanitizers" ci/sanitize.sh
stage "browsers, the rest" ci/web.sh nightly
stage "no operating system, what it takes" ci/bare.sh nightly
stage "style of benches and consumers" ci/lint.sh nightly
stage "minimum Rust version of what is durable" ci/msrv.sh tourbillon-durable tourbillond
stage "minimum Rust version on wstd" ci/msrv.sh tourbillon-wstd
stage "minimum Rust version with wasip3" ci/msrv.sh tourbillon-wasip3
stage "loom models, one preemption" ci/loom.sh 1
stage "pairs of features" ci/features.sh pairs
stage "WASI, preview 2, and libp2p there" ci/wasi.sh wasm32-wasip2
stage "32-bit Linux" ci/targets.sh i686-unknown-linux-gnu
stage "the tests on Windows" ci/targets.sh --test x86_64-pc-windows-gnu
stage "the tests on musl" ci/targets.sh --test x86_64-unknown-linux-musl
stage "Debian's package" ci/deb.sh
stage "dependents" ci/dependents.sh
stage "other consumers" ci/consumers.sh tower quinn fastimer models
stage "recipes" ci/consumers.sh recipes
stage "tests of tokio's timers" ci/compat.sh
stage "oldest dependencies" ci/minimal.sh
stage "crontab as a process" ci/crontab.sh
stage "crontab beside Debian's cron" ci/crontab-debian.sh
stage "hostile code, and forks" ci/hostile.sh
stage "faked clocks" ci/faketime.sh
stage "stress" ci/stress.sh
stage "fuzzing" ci/fuzz.sh 60
stage "compatibility" ci/semver.sh
stage "weight of a first sleep" ci/weight.sh
finish
