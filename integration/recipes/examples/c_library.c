/* Uses examples/c_library.rs, and ends in assertions. */
#undef NDEBUG
#include <assert.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

typedef struct timer timer;
timer *timer_start(uint64_t milliseconds, void (*function)(void *), void *data);
bool timer_end(timer *timer);
bool timers_shut_down(void);

static sem_t called;
static int order[3], count;

static void note(void *data) {
    order[count++] = *(int *)data;
    sem_post(&called);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec / 1e9;
}

int main(void) {
    int names[] = {0, 1, 2};
    timer *timers[3];
    sem_init(&called, 0, 0);
    double start = seconds();
    timers[0] = timer_start(40, note, &names[0]);
    timers[1] = timer_start(20, note, &names[1]);
    timers[2] = timer_start(3600 * 1000, note, &names[2]);
    for (int n = 0; n < 2; n++)
        while (sem_wait(&called)) {}
    assert(seconds() - start >= 0.04);
    assert(order[0] == 1 && order[1] == 0);
    assert(!timers_shut_down());
    assert(timer_end(timers[2]));
    assert(!timer_end(timers[0]) && !timer_end(timers[1]));
    assert(count == 2 && timers_shut_down());
    puts("C: called in the order of deadlines, ended, and no thread left");
    return 0;
}
