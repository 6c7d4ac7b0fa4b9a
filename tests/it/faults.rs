//! Foreign code that panics or comes back in, and handles that go at the wrong time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use futures::Stream;
use futures::channel::mpsc::{UnboundedReceiver, unbounded};
use tourbillon::queue::{DelayQueue, TimeoutQueue};
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, StreamExt as _, Timer};

use crate::support::{self, *};

fn forget_poll(sleep: &mut Sleep, waker: Waker) {
    assert!(poll_with(sleep, &waker).is_pending());
    std::mem::forget(waker);
}

#[test]
fn a_waker_that_panics_in_wake_harms_no_other_timer() {
    let (timer, clock) = virtual_timer();
    let counter = Counter::new();
    let mut sleeps: Vec<_> = (0..100).map(|_| timer.sleep(SECOND)).collect();
    for (index, sleep) in sleeps.iter_mut().enumerate() {
        if index % 3 == 0 {
            forget_poll(sleep, hostile(&WAKE_PANICS));
        } else {
            forget_poll(sleep, Waker::from(counter.clone()));
        }
    }
    assert_eq!(clock.advance(SECOND), 100);
    assert_eq!((counter.wakes(), timer.stats().waker_panics), (66, 34));
    assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));
}

#[test]
fn the_driver_thread_survives_a_waker_that_panics() {
    let timer = Timer::builder().build().expect("the options are valid");
    for panics in 1..=3 {
        let mut bad = timer.sleep(3600 * SECOND);
        forget_poll(&mut bad, hostile(&WAKE_PANICS));
        bad.reset_after(Duration::ZERO);
        while timer.stats().waker_panics < panics {
            std::thread::sleep(ms(1));
        }
        pollster::block_on(timer.sleep(ms(1)));
        assert!(poll(&mut bad).is_ready());
    }
    assert_eq!(timer.stats().waker_panics, 3);
}

#[test]
fn a_waker_that_panics_in_clone_leaves_the_sleep_as_it_was() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep(SECOND);
    let bad = hostile(&CLONE_PANICS);
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &bad))).is_err());
    assert_eq!(clock.pending(), 0);

    let counter = Counter::new();
    assert!(poll_with(&mut sleep, &Waker::from(counter.clone())).is_pending());
    assert!(catch_unwind(AssertUnwindSafe(|| poll_with(&mut sleep, &bad))).is_err());
    clock.advance(SECOND);
    assert_eq!(counter.wakes(), 1, "the waker before is kept");
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_waker_that_panics_in_drop_harms_nobody() {
    let (timer, clock) = virtual_timer();
    let (mut other, counter) = counted(timer.sleep(SECOND));

    // Replaced, so dropped by the poll.
    let mut sleep = timer.sleep(SECOND);
    forget_poll(&mut sleep, hostile(&DROP_PANICS));
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sleep))).is_err());
    assert!(poll(&mut sleep).is_pending());

    // Cancelled, so dropped with the sleep.
    let mut cancelled = timer.sleep(SECOND);
    forget_poll(&mut cancelled, hostile(&DROP_PANICS));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(cancelled))).is_err());

    assert_eq!((clock.pending(), clock.advance(SECOND)), (2, 2));
    assert!(poll(&mut sleep).is_ready() && poll(&mut other).is_ready());
    assert_eq!(counter.wakes(), 1);
}

/// [`its_waker_panics_in_drop`] of a future that lasts one second, whose end a poll finds.
fn its_waker_panics_at_the_end<F: Future + Unpin>(timer: &(Timer, VirtualClock), future: F) {
    its_waker_panics_in_drop(
        timer,
        future,
        |future, waker| assert!(poll_with(future, waker).is_pending()),
        |future, waker| {
            timer.1.jump(SECOND);
            assert!(poll_with(future, waker).is_ready());
        },
    );
}

/// [`its_waker_panics_in_drop`] of a queue that is emptied.
fn its_waker_panics_at_the_last<Q: Stream + Unpin>(
    timer: &(Timer, VirtualClock),
    queue: Q,
    clear: impl Fn(&mut Q),
) {
    its_waker_panics_in_drop(
        timer,
        queue,
        |queue, waker| assert!(poll_next(queue, waker).is_pending()),
        |queue, waker| {
            clear(queue);
            assert!(poll_next(queue, waker).is_ready());
        },
    );
}

/// Polls with a waker that panics when it is dropped, and has the polled subject drop it in `ends`,
/// as often as that panics: once for each waker held. Then drops the subject, and shows that timers
/// armed afterwards fire, each for its own task.
fn its_waker_panics_in_drop<T>(
    (timer, clock): &(Timer, VirtualClock),
    mut polled: T,
    poll: impl Fn(&mut T, &Waker),
    ends: impl Fn(&mut T, &Waker),
) {
    let waker = hostile(&DROP_PANICS);
    poll(&mut polled, &waker);
    std::mem::forget(waker);
    let panics = std::iter::repeat_with(|| {
        catch_unwind(AssertUnwindSafe(|| ends(&mut polled, Waker::noop()))).is_err()
    });
    let panics = panics.take(10).take_while(|panicked| *panicked).count();
    assert!((1..10).contains(&panics), "{panics}");
    // What holds two wakers may hold one still.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(polled)));

    let stats = timer.stats();
    assert_eq!((stats.armed, stats.pending), (stats.fired + stats.cancelled, 0));
    let counters = [(); 3].map(|()| Counter::new());
    let mut others = counters.clone().map(|counter| {
        let mut sleep = timer.sleep(SECOND);
        assert!(poll_with(&mut sleep, &Waker::from(counter)).is_pending());
        sleep
    });
    assert_eq!((clock.pending(), clock.advance(SECOND)), (3, 3));
    assert!(others.iter_mut().all(|sleep| support::poll(sleep).is_ready()));
    assert!(counters.iter().all(|counter| counter.wakes() == 1));
}

#[test]
fn a_waker_that_panics_in_drop_as_a_poll_finds_the_deadline_past_ends_its_timer_once() {
    let virtual_timer = virtual_timer();
    let timer = &virtual_timer.0;
    its_waker_panics_at_the_end(&virtual_timer, timer.sleep(SECOND));
    let timeout = timer.timeout(SECOND, std::future::pending::<()>());
    its_waker_panics_at_the_end(&virtual_timer, Box::pin(timeout));
}

#[test]
fn a_waker_that_panics_in_drop_at_the_end_of_a_wall_sleep_ends_its_timer_once() {
    let virtual_timer = virtual_timer();
    let (timer, clock) = &virtual_timer;
    let sleep = timer.sleep_until_wall(clock.wall_now() + SECOND);
    its_waker_panics_at_the_end(&virtual_timer, sleep);
}

#[test]
fn a_wall_sleep_has_ended_also_if_its_waker_panics_in_drop_at_the_end() {
    let (timer, clock) = virtual_timer();
    let mut sleep = timer.sleep_until_wall(clock.wall_now() + SECOND);
    let waker = hostile(&DROP_PANICS);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    std::mem::forget(waker);
    clock.jump(SECOND);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sleep))).is_err());
    clock.set_wall(SystemTime::UNIX_EPOCH);
    assert!(poll(&mut sleep).is_ready());
    // The other of its two wakers.
    assert!(catch_unwind(AssertUnwindSafe(|| drop(sleep))).is_err());
    assert_eq!(clock.pending(), 0);
}

#[test]
fn a_waker_that_panics_in_drop_as_a_queue_is_emptied_ends_its_timer_once() {
    let virtual_timer = virtual_timer();
    let mut queue = DelayQueue::with_timer(&virtual_timer.0);
    queue.insert(1, SECOND);
    its_waker_panics_at_the_last(&virtual_timer, queue, DelayQueue::clear);
    let mut queue = TimeoutQueue::with_timer(SECOND, &virtual_timer.0);
    queue.push(1);
    its_waker_panics_at_the_last(&virtual_timer, queue, TimeoutQueue::clear);
}

#[test]
fn a_waker_that_panics_in_drop_at_the_end_of_a_stream_ends_its_timer_once() {
    type Source = UnboundedReceiver<u8>;

    /// Checks that the stream of `adapt` holds a timer after one item, if not before, and gives it
    /// back when the source ends.
    fn check<S: Stream + Unpin>(adapt: impl FnOnce(Source, &Timer) -> S) {
        let virtual_timer = virtual_timer();
        let (sender, source) = unbounded();
        sender.unbounded_send(1).expect("the source is there");
        let stream = adapt(source, &virtual_timer.0);
        its_waker_panics_in_drop(
            &virtual_timer,
            stream,
            |stream, waker| while poll_next(stream, waker).is_ready() {},
            |stream, waker| {
                sender.close_channel();
                while !matches!(poll_next(stream, waker), Poll::Ready(None)) {}
            },
        );
    }

    check(|source, timer| source.on_timer(timer).timeout(SECOND).into_stream());
    check(|source, timer| source.timeout_repeating(timer.interval(SECOND)));
    check(|source, timer| source.on_timer(timer).debounce(SECOND).into_stream());
    check(|source, timer| source.on_timer(timer).sample(SECOND).into_stream());
    check(|source, timer| source.on_timer(timer).chunks_timeout(8, SECOND).into_stream());
}

#[test]
fn a_waker_may_drop_and_arm_timers_in_its_own_drop() {
    struct InDrop(Timer, Mutex<Option<Sleep>>);

    impl std::task::Wake for InDrop {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for InDrop {
        fn drop(&mut self) {
            drop(self.1.lock().unwrap().take());
            let _sleep = polled(self.0.sleep(SECOND));
        }
    }

    let (timer, clock) = virtual_timer();
    let waker = || {
        let owned = polled(timer.sleep(SECOND));
        Waker::from(Arc::new(InDrop(timer.clone(), Mutex::new(Some(owned)))))
    };
    // Dropped by being replaced, by a cancel, and by being woken.
    let mut sleep = timer.sleep(SECOND);
    assert!(poll_with(&mut sleep, &waker()).is_pending());
    assert!(poll_with(&mut sleep, &waker()).is_pending());
    drop(sleep);
    let mut sleep = timer.sleep(SECOND / 2);
    assert!(poll_with(&mut sleep, &waker()).is_pending());
    assert_eq!(clock.advance(SECOND / 2), 1);
    assert_eq!(clock.pending(), 0);
    // Per waker the sleep it owned and the sleep it armed; and the cancelled one.
    assert_eq!(timer.stats().cancelled, 3 * 2 + 1);
}

#[test]
fn a_waker_may_come_back_into_a_timer_with_a_thread() {
    let timer = Timer::builder().build().expect("the options are valid");
    let (send, receive) = channel();
    let waker = {
        let timer = timer.clone();
        callback(move || {
            let armed: Vec<_> = (0..100).map(|_| polled(timer.sleep(3600 * SECOND))).collect();
            drop(armed);
            send.send(timer.stats().cancelled).expect("the test waits");
        })
    };
    let mut sleep = timer.sleep(3600 * SECOND);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    sleep.reset_after(ms(1));
    assert_eq!(receive.recv(), Ok(100));
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_waker_that_blocks_delays_wake_ups_but_no_poll() {
    let timer = Timer::builder().build().expect("the options are valid");
    let (blocking, blocked) = channel();
    let (release, released) = channel::<()>();
    let released = Mutex::new(released);
    let waker = callback(move || {
        blocking.send(()).expect("the test waits");
        released.lock().unwrap().recv().expect("the test lets it go on");
    });
    let mut blocker = timer.sleep(3600 * SECOND);
    assert!(poll_with(&mut blocker, &waker).is_pending());
    blocker.reset_after(Duration::ZERO);
    blocked.recv().expect("the driver wakes it");

    // Arming, resetting and cancelling do not wait for the driver.
    let (wake, woken) = channel();
    let mut due = [(); 3].map(|()| {
        let wake = wake.clone();
        let mut sleep = timer.sleep(3600 * SECOND);
        let waker = callback(move || wake.send(()).expect("the test counts"));
        assert!(poll_with(&mut sleep, &waker).is_pending());
        sleep.reset_after(Duration::ZERO);
        sleep
    });
    let cancelled = polled(timer.sleep(3600 * SECOND));
    drop(cancelled);
    // Nor does a poll, with the same waker over and over: each goes by the clock, and the first
    // one after the deadline finds it past.
    let waker = Waker::from(Counter::new());
    let mut polled = pending_for(ms(20), &waker, |span| timer.sleep(span));
    while !polled.is_elapsed() {}
    assert!(poll_with(&mut polled, &waker).is_ready());
    assert!(Instant::now() >= polled.deadline());
    assert!(woken.try_recv().is_err(), "the driver is still in the waker");

    let late = due[0].deadline().elapsed();
    release.send(()).expect("the driver waits");
    for _ in &due {
        woken.recv().expect("each is woken");
    }
    assert!(due.iter_mut().all(|sleep| poll(sleep).is_ready()));
    assert!(timer.stats().lateness_max >= late, "and the delay is on record");
    pollster::block_on(timer.sleep(ms(1)));
}

#[test]
fn a_waker_that_waits_for_the_clock_that_runs_it_panics_and_harms_no_other() {
    let (timer, clock) = virtual_timer();
    let mut sleeps = [(); 2].map(|()| timer.sleep(SECOND));
    let waker = {
        let (timer, clock) = (timer.clone(), clock.clone());
        callback(move || {
            clock.block_on(async {});
            clock.block_on(timer.sleep(SECOND));
        })
    };
    assert!(poll_with(&mut sleeps[0], &waker).is_pending());
    let counter = Counter::new();
    assert!(poll_with(&mut sleeps[1], &Waker::from(counter.clone())).is_pending());
    assert_eq!((clock.advance(SECOND), counter.wakes()), (2, 1));
    assert_eq!((timer.stats().waker_panics, clock.pending()), (1, 0));
    // Outside of wakers it waits.
    clock.block_on(timer.sleep(SECOND));
}

/// Time passes while a waker blocks, which here makes the clock jump.
#[test]
fn wakers_that_block_delay_those_behind_them_by_no_more_than_that_in_sum() {
    let clock = VirtualClock::new();
    let (timer, mut driver) =
        Timer::builder().virtual_clock(&clock).build_manual(|| {}).expect("the options are valid");
    let woken = Arc::new(Mutex::new(Vec::new()));
    let timers = [(1_000, 1_000), (1_000, 0), (1_500, 0), (1_800, 500), (1_900, 100), (5_000, 0)];
    let mut sleeps = Vec::new();
    for (deadline, blocks_for) in timers {
        let mut sleep = timer.sleep(ms(deadline));
        let (clock, woken, due) = (clock.clone(), woken.clone(), sleep.deadline());
        let waker = callback(move || {
            woken.lock().unwrap().push(clock.now() - due);
            clock.jump(ms(blocks_for));
        });
        assert!(poll_with(&mut sleep, &waker).is_pending());
        sleeps.push(sleep);
    }
    while let Some(next) = driver.turn().next {
        clock.jump(next - clock.now());
    }
    let late = woken.lock().unwrap();
    assert_eq!(*late, [0, 1_000, 500, 200, 600, 0].map(ms));
    let mut blocked = Duration::ZERO;
    for (late, (_, blocks_for)) in late.iter().zip(timers) {
        assert!(*late <= blocked);
        blocked += ms(blocks_for);
    }
}

#[test]
fn a_sleep_that_is_forgotten_fires_and_harms_nobody() {
    let (timer, clock) = virtual_timer();
    let (sleep, counter) = counted(timer.sleep(SECOND));
    std::mem::forget(sleep);
    assert_eq!((clock.advance(SECOND), counter.wakes(), clock.pending()), (1, 1, 0));
}

#[test]
fn bad_options_are_errors() {
    for shards in [0, 257, usize::MAX] {
        let error = Timer::builder().shards(shards).build().expect_err("out of range");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(&shards.to_string()), "{error}");
    }
    let error = Timer::builder().thread_name("a\0b").build().expect_err("a NUL");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    for (shards, rounded) in [(1, 1), (3, 4), (256, 256)] {
        let timer = Timer::builder().shards(shards).build().expect("within range");
        assert_eq!(timer.stats().shards, rounded);
    }
}
