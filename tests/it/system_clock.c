// Preloaded into a test's process: a monotonic clock that steps and stands still.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

// What is shown is ahead of the system's clock by so much; or is this, while it stands still.
static _Atomic int64_t ahead, stands_at;
// Where a thread last waited with a time limit.
static _Atomic long waited_at;

static long (*real_syscall(void))(long, ...) {
    return (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

static int64_t real(clockid_t clock) {
    struct timespec time;
    ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(clock, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static int64_t shown(clockid_t clock) {
    return stands_at ? stands_at : real(clock) + ahead;
}

static struct timespec timespec_of(int64_t time) {
    return (struct timespec){.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    *time = timespec_of(monotonic ? shown(clock) : real(clock));
    return 0;
}

// A futex is waited for until an instant of the system's clock.
long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    struct timespec until;
    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && a[3]) {
        const struct timespec *given = (const struct timespec *)a[3];
        int64_t left = given->tv_sec * SECOND + given->tv_nsec - shown(CLOCK_MONOTONIC);
        until = timespec_of(real(CLOCK_MONOTONIC) + left);
        a[3] = (long)&until;
        waited_at = a[0];
    }
    return real_syscall()(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

// Sets the clock forward or back. As with the system's own, who waits for it finds out.
void clock_steps(int64_t nanos) {
    ahead += nanos;
    if (waited_at) real_syscall()(SYS_futex, waited_at, FUTEX_WAKE_PRIVATE, 1);
}

void clock_stops(void) {
    stands_at = shown(CLOCK_MONOTONIC);
}

void clock_goes_on(void) {
    ahead = stands_at - real(CLOCK_MONOTONIC);
    stands_at = 0;
}
