/* Stands between a process and its C library, and shifts clocks. The watcher's timers are eventfds:
 * every event of the one is read as the notice of a step, and of the other as the end of its time. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static _Atomic int64_t shift_ns[16];
static atomic_int refuse_notices, notices = -1, recheck = -1;
static atomic_int recheck_seconds, rechecking, rechecks, waits;

int clock_gettime(clockid_t id, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, id, time);
    if (result == 0 && id >= 0 && id < 16) {
        int64_t nanos = time->tv_nsec + shift_ns[id];
        int64_t seconds = nanos / 1000000000;
        nanos %= 1000000000;
        if (nanos < 0) {
            nanos += 1000000000;
            seconds -= 1;
        }
        time->tv_sec += seconds;
        time->tv_nsec = nanos;
    }
    return result;
}

int timerfd_create(int clock, int flags) {
    if (refuse_notices) {
        errno = EPERM;
        return -1;
    }
    if (clock == CLOCK_MONOTONIC) {
        recheck_seconds = 0;
        return recheck = eventfd(0, EFD_CLOEXEC | (flags & TFD_NONBLOCK ? EFD_NONBLOCK : 0));
    }
    return notices = eventfd(0, EFD_CLOEXEC);
}

int timerfd_settime(int fd, int flags, const struct itimerspec *timer, struct itimerspec *old) {
    int wanted = TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET;
    if (fd == recheck && flags == 0) {
        recheck_seconds = timer->it_value.tv_sec;
        return 0;
    }
    if (fd != notices || flags != wanted || timer->it_value.tv_sec < INT32_MAX) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}

ssize_t read(int fd, void *buffer, size_t length) {
    ssize_t result = syscall(SYS_read, fd, buffer, length);
    if (fd == recheck && result > 0) {
        rechecking = 1;
    }
    if (fd == notices && result > 0) {
        errno = refuse_notices ? EIO : ECANCELED;
        return -1;
    }
    return result;
}

int poll(struct pollfd *files, nfds_t count, int timeout) {
    if (count > 0 && files[0].fd == notices) {
        waits += 1;
        rechecks += rechecking;
        rechecking = 0;
    }
    return syscall(SYS_poll, files, count, timeout);
}

void shim_shift(int clock, int64_t nanos) { shift_ns[clock] += nanos; }

void shim_refuse(int refuse) { refuse_notices = refuse; }

/* As the kernel does when a clock was set. */
void shim_notify(void) {
    uint64_t one = 1;
    if (write(notices, &one, sizeof one) < 0) {
        _exit(99);
    }
}

/* How long the time to the recheck was when it was started; 0 if it is not running. */
int shim_recheck_seconds(void) { return recheck_seconds; }

/* How often the watcher has begun to wait. */
int shim_waits(void) { return waits; }

/* How many rechecks the watcher is through with, and waits again. */
int shim_rechecks(void) { return rechecks; }

/* Ends the time to the recheck. */
void shim_recheck(void) {
    uint64_t one = 1;
    recheck_seconds = 0;
    if (write(recheck, &one, sizeof one) < 0) {
        _exit(99);
    }
}
