#!/usr/bin/env bash
# libfaketime 0.9.10 (Debian's 0.9.10-2.1) with DONT_FAKE_MONOTONIC=1, which its manual advises where
# programs hang: CLOCK_MONOTONIC is then the system's, and yet absolute waits on it are rewritten. A
# `pthread_cond_timedwait` of 100 ms on a condition with that clock ends at once with ETIMEDOUT, and
# `clock_nanosleep` until an instant with EINVAL (22). Without the variable both take 100 ms.
#
# Seen: "0: condition 100 ms, nanosleep 0 100 ms", "1: condition 0 ms, nanosleep 22 0 ms".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=0.9.10-2.1
apt-get download "libfaketime=$version" >/dev/null 2>&1 || {
    echo "not checked: no Debian package libfaketime $version here"
    exit 77
}
dpkg -x libfaketime_*.deb .
library=$(find "$PWD" -name libfaketimeMT.so.1)
cat >waits.c <<'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static struct timespec now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at;
}

static struct timespec in_100_ms(void) {
    struct timespec at = now();
    at.tv_sec += at.tv_nsec >= 900000000;
    at.tv_nsec = (at.tv_nsec + 100000000) % 1000000000;
    return at;
}

static double since(struct timespec start) {
    struct timespec end = now();
    return (end.tv_sec - start.tv_sec) * 1e3 + (end.tv_nsec - start.tv_nsec) / 1e6;
}

int main(void) {
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_condattr_t by_monotonic;
    pthread_cond_t condition;
    pthread_condattr_init(&by_monotonic);
    pthread_condattr_setclock(&by_monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&condition, &by_monotonic);
    pthread_mutex_lock(&mutex);
    struct timespec start = now(), until = in_100_ms();
    while (pthread_cond_timedwait(&condition, &mutex, &until) == 0) {
    }
    double waited = since(start);
    start = now(), until = in_100_ms();
    int result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    double slept = since(start);
    printf("%s: condition %.0f ms, nanosleep %d %.0f ms\n", getenv("DONT_FAKE_MONOTONIC"), waited,
           result, slept);
    return waited < 50 && slept < 50 && result != 0;
}
END
cc -pthread waits.c -o waits
run() { FAKETIME=+0 DONT_FAKE_MONOTONIC=$1 LD_PRELOAD=$library ./waits; }
run 0
! run 1
