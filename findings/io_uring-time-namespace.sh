#!/usr/bin/env bash
# io_uring of Linux 6.18.44 (by liburing 2.3, Debian's 2.3-3) within a time namespace whose CLOCK_MONOTONIC
# is an hour ahead: a timeout with IORING_TIMEOUT_ABS is held against the clock outside. One until an instant
# 100 ms ahead has not come a second later, and would in an hour; one until the instant that outside is
# 100 ms ahead, an hour ago in here, still waits. `clock_nanosleep`, timerfd and futexes know the namespace,
# and time_namespaces(7) names no exception.
#
# Seen: "until 0.1 s ahead: nanosleep 100 ms, io_uring not yet", "until 3599.9 s ago: io_uring 100 ms".
set -euo pipefail
cd "$(mktemp -d)"
trap 'rm -rf "$PWD"' EXIT
version=2.3-3
if ! unshare --time true 2>/dev/null || ! apt-get download "liburing-dev=$version" >/dev/null 2>&1; then
    echo "not checked: no Debian package liburing-dev $version here, or no time namespaces"
    exit 77
fi
dpkg -x liburing-dev_*.deb .
cat >waits.c <<'END'
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

/* The milliseconds that a timeout of io_uring until an instant takes, or -1 if it takes over a second. */
static double waited(struct io_uring *ring, double until) {
    struct __kernel_timespec at = {until, (until - (long long)until) * 1e9}, second = {1, 0};
    struct io_uring_cqe *cqe;
    double start = now();
    io_uring_prep_timeout(io_uring_get_sqe(ring), &at, 1, IORING_TIMEOUT_ABS);
    io_uring_submit(ring);
    if (io_uring_wait_cqe_timeout(ring, &cqe, &second) != 0) return -1;
    io_uring_cqe_seen(ring, cqe);
    return (now() - start) * 1e3;
}

int main(void) {
    struct io_uring ring;
    if (io_uring_queue_init(8, &ring, 0) != 0) {
        puts("not checked: no io_uring");
        return 77;
    }
    double past = waited(&ring, now() - 3600 + 0.1), start = now(), until = start + 0.1;
    struct timespec at = {until, (until - (long)until) * 1e9};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
    printf("until 0.1 s ahead: nanosleep %.0f ms, ", (now() - start) * 1e3);
    double ahead = waited(&ring, now() + 0.1);
    puts(ahead < 0 ? "io_uring not yet" : "io_uring as well");
    printf("until 3599.9 s ago: io_uring %.0f ms\n", past);
    return ahead >= 0 || past < 50;
}
END
cc -Iusr/include waits.c "$(find usr/lib -name liburing.a)" -o waits
unshare --time --monotonic 3600 --fork ./waits
