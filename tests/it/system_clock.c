// Preloaded into a test's process: a monotonic clock that steps and stands still; or clocks that
// all stand still, except for the test's moves, and for the time that it holds a thread.

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
#define CLOCKS 16
// By how much the coarse clock lags at most, as if the kernel moved it so often.
#define COARSE_STEP INT64_C(1000000)

// The shown time is ahead of the system's clock by so much; or is this, while it stands still.
static _Atomic int64_t ahead, stands_at;
// Where a thread last waited with a time limit.
static _Atomic long waited_at;

// Whether all clocks stand still; where they did first, and by how much they were moved since.
static atomic_int all_stand;
static int64_t all_stood_at[CLOCKS];
static _Atomic int64_t moved;
// How often the thread has read a clock since it was asked to hold. It is held before each of
// the readings from the one number to before the other.
static _Thread_local long readings, held_from, held_to;
static _Thread_local int64_t held_for;

static long (*real_syscall(void))(long, ...) {
    return (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
}

static int64_t real(clockid_t clock) {
    struct timespec time;
    ((int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime"))(clock, &time);
    return time.tv_sec * SECOND + time.tv_nsec;
}

static int is_monotonic(clockid_t clock) {
    return clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
}

static int64_t shown(clockid_t clock) {
    if (all_stand && clock == CLOCK_MONOTONIC_COARSE) {
        int64_t exact = shown(CLOCK_MONOTONIC);
        return exact - exact % COARSE_STEP;
    }
    if (all_stand && clock >= 0 && clock < CLOCKS) return all_stood_at[clock] + moved;
    if (!is_monotonic(clock)) return real(clock);
    return stands_at ? stands_at : real(clock) + ahead;
}

static struct timespec timespec_of(int64_t time) {
    return (struct timespec){.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    if (all_stand) {
        if (readings >= held_from && readings < held_to) moved += held_for;
        readings += 1;
    }
    *time = timespec_of(shown(clock));
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

// From here on all clocks stand still, in every thread.
void clocks_stand(void) {
    for (int clock = 0; clock < CLOCKS; clock++) all_stood_at[clock] = real(clock);
    all_stand = 1;
}

// Moves them all.
void clocks_move(int64_t nanos) {
    moved += nanos;
}

// Has so much time pass before each of the calling thread's readings from the one number, counted
// from now, to before the other: as if something else had the processor.
void clocks_hold(int64_t from, int64_t to, int64_t nanos) {
    readings = 0;
    held_from = from;
    held_to = to;
    held_for = nanos;
}

// Holds the calling thread no more. Returns how often it has read a clock meanwhile.
int64_t clocks_let_go(void) {
    held_to = 0;
    return readings;
}
