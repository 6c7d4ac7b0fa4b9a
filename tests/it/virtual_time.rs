//! `VirtualClock`.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use futures::executor::LocalPool;
use futures::task::LocalSpawnExt;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use crate::support::*;

#[test]
fn it_stands_still_until_moved() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    std::thread::sleep(ms(2));
    assert_eq!((clock.now(), timer.now(), timer.cached_now()), (start, start, start));
}

/// Sleeps armed with these delays, and the notes of their wakers: the clock's time, and the sleep.
type Seen = Arc<Mutex<Vec<(Duration, usize)>>>;

fn armed(timer: &Timer, clock: &VirtualClock, delays: &[Duration]) -> (Vec<Sleep>, Seen) {
    let (seen, start) = (Seen::default(), clock.now());
    let sleeps = delays.iter().enumerate().map(|(index, delay)| {
        let mut sleep = timer.sleep(*delay);
        let (seen, clock) = (seen.clone(), clock.clone());
        let waker = callback(move || seen.lock().unwrap().push((clock.now() - start, index)));
        assert!(poll_with(&mut sleep, &waker).is_pending());
        sleep
    });
    (sleeps.collect(), seen)
}

/// The delays in order, equal ones in the order of arming.
fn in_order(delays: &[Duration]) -> Vec<(Duration, usize)> {
    let mut order: Vec<_> = delays.iter().copied().zip(0..).collect();
    order.sort_unstable();
    order
}

/// Numbers from a multiplicative sequence: the same in every run, and of every magnitude.
fn delays_below(nanos: u64, count: u64) -> Vec<Duration> {
    let scrambled = (1..=count).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    scrambled.map(|n| Duration::from_nanos(1 + (n >> (n % 58)) % nanos)).collect()
}

/// The first to be due has them filed again, more than at one time.
#[test]
fn a_crowd_with_one_deadline_fires_in_order_after_another_of_its_slot() {
    const BEGINS: Duration = Duration::from_nanos(1 << 30);
    let mut delays = vec![BEGINS + Duration::from_millis(500); 1_000];
    delays.push(BEGINS + Duration::from_micros(1));
    let (timer, clock) = virtual_timer();
    let (_sleeps, seen) = armed(&timer, &clock, &delays);
    assert_eq!(clock.advance(2 * BEGINS), delays.len());
    assert_eq!(*seen.lock().unwrap(), in_order(&delays));
}

#[test]
fn a_jump_over_years_loses_nothing_and_keeps_what_is_ahead() {
    const YEARS: Duration = Duration::from_secs(200 * 365 * 86_400);
    let delays = delays_below(2 * YEARS.as_nanos() as u64, 20_000);
    let (timer, clock) = virtual_timer();
    let (_sleeps, seen) = armed(&timer, &clock, &delays);
    clock.jump(YEARS);
    let past = delays.iter().filter(|delay| **delay <= YEARS).count();
    assert!(past < delays.len(), "some are ahead");
    assert_eq!(clock.advance(Duration::ZERO), past);
    clock.advance(YEARS);
    let seen = seen.lock().unwrap();
    let (late, in_time) = seen.split_at(past);
    assert!(late.iter().all(|(at, _)| *at == YEARS));
    let mut indices: Vec<_> = late.iter().map(|(_, index)| *index).collect();
    indices.sort_unstable();
    indices.dedup();
    assert_eq!(indices.len(), past, "each once");
    assert_eq!(*in_time, in_order(&delays)[past..]);
}

#[test]
fn a_clock_belongs_to_one_timer() {
    let (_timer, clock) = virtual_timer();
    let error = Timer::builder().virtual_clock(&clock).build().expect_err("it is taken");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_clock_without_a_timer_moves_all_the_same() {
    let clock = VirtualClock::new();
    let start = clock.now();
    assert_eq!(clock.advance(SECOND), 0);
    clock.jump(SECOND);
    assert_eq!((clock.now() - start, clock.next_deadline()), (2 * SECOND, None));
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let _sleep = polled(timer.sleep(SECOND));
    assert_eq!(clock.advance(SECOND), 1);
}

#[test]
fn threads_that_advance_together_add_up() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let counter = Counter::new();
    let mut sleeps: Vec<_> = (1..=40).map(|n| timer.sleep(n * ms(100))).collect();
    for sleep in &mut sleeps {
        assert!(poll_with(sleep, &Waker::from(counter.clone())).is_pending());
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|_| _ = clock.advance(ms(100))));
        }
    });
    assert_eq!((clock.now() - start, counter.wakes()), (4 * SECOND, 40));
}

/// Moves each of two clocks on a thread of its own, into a waker each, which calls `then` with the
/// clock that the other thread moves. Neither thread leaves its waker before both have called it.
fn wakers_that_cross(then: fn(&Timer, &VirtualClock)) -> [(Timer, VirtualClock); 2] {
    let both = [virtual_timer(), virtual_timer()];
    let meeting = Arc::new(Barrier::new(2));
    let (done, ended) = channel();
    for [own, other] in [[0, 1], [1, 0]] {
        let ((timer, clock), (others, elsewhere)) = (both[own].clone(), both[other].clone());
        let (meeting, done) = (Arc::clone(&meeting), done.clone());
        thread::spawn(move || {
            let mut sleep = timer.sleep(SECOND);
            let waker = callback(move || {
                meeting.wait();
                let result = catch_unwind(AssertUnwindSafe(|| then(&others, &elsewhere)));
                meeting.wait();
                result.unwrap_or_else(|panic| resume_unwind(panic));
            });
            assert!(poll_with(&mut sleep, &waker).is_pending());
            let fired = clock.advance(2 * SECOND);
            done.send(fired).expect("the test waits");
        });
    }
    for _ in 0..2 {
        assert_eq!(ended.recv_timeout(60 * SECOND), Ok(1), "they wait for each other");
    }
    both
}

#[test]
fn clocks_whose_wakers_advance_each_other_arrive() {
    let before = Instant::now();
    for (_, clock) in wakers_that_cross(|_, other| assert_eq!(other.advance(3 * SECOND), 0)) {
        assert!(clock.now() - 5 * SECOND >= before, "two of its own, and three of the other's");
    }
    let to_next = |timer: &Timer, other: &VirtualClock| {
        let sleep = polled(timer.sleep(ms(1500)));
        assert_eq!(other.advance_to_next(), Some(sleep.deadline()));
    };
    for (_, clock) in wakers_that_cross(to_next) {
        assert!(clock.now() - ms(2500) >= before, "further than its own two seconds");
    }
}

#[test]
fn a_waker_that_waits_for_a_clock_that_another_thread_moves_panics_and_is_counted() {
    let wait = |timer: &Timer, other: &VirtualClock| other.block_on(timer.sleep(3600 * SECOND));
    for (timer, clock) in wakers_that_cross(wait) {
        assert_eq!(timer.stats().waker_panics, 1);
        // The mover of the clock continues, and so do its timers.
        clock.block_on(timer.sleep(SECOND));
    }
}

#[test]
fn a_waker_moves_a_clock_that_nobody_else_moves() {
    let ((timer, clock), (others, elsewhere)) = (virtual_timer(), virtual_timer());
    let mut sleep = timer.sleep(SECOND);
    let (counter, start) = (Counter::new(), elsewhere.now());
    let mut there = others.sleep(SECOND);
    assert!(poll_with(&mut there, &Waker::from(counter.clone())).is_pending());
    let waker = {
        let (others, elsewhere) = (others.clone(), elsewhere.clone());
        callback(move || {
            assert_eq!(elsewhere.advance(SECOND), 1);
            elsewhere.block_on(others.sleep(SECOND));
        })
    };
    assert!(poll_with(&mut sleep, &waker).is_pending());
    assert_eq!((clock.advance(SECOND), counter.wakes()), (1, 1));
    assert_eq!(elsewhere.now(), start + 2 * SECOND);
    assert_eq!(timer.stats().waker_panics + others.stats().waker_panics, 0);
}

#[test]
fn what_is_moved_to_the_past_fires_at_once_and_counts_as_late() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let (mut sleep, counter) = counted(timer.sleep(60 * SECOND));
    clock.advance(11 * SECOND);
    sleep.reset(start + SECOND);
    assert_eq!((counter.wakes(), timer.stats().fired), (1, 1));
    assert_eq!(timer.stats().lateness_max, 10 * SECOND);
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn a_waker_that_panics_as_its_sleep_is_moved_to_the_past_is_counted_and_stops_nobody() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let waker = callback(|| panic!("as the test wants it"));
    let mut sleep = timer.sleep(60 * SECOND);
    assert!(poll_with(&mut sleep, &waker).is_pending());
    clock.advance(11 * SECOND);
    sleep.reset(start + SECOND);
    assert_eq!((timer.stats().waker_panics, clock.pending()), (1, 0));
    assert!(poll(&mut sleep).is_ready());
}

#[test]
fn block_on_moves_the_clock_only_while_the_future_waits() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let order = clock.block_on(async {
        let long = async {
            timer.sleep(3600 * SECOND).await;
            "long"
        };
        let short = async {
            for _ in 0..10 {
                timer.sleep(SECOND).await;
            }
            "short"
        };
        match futures::future::select(Box::pin(long), Box::pin(short)).await {
            futures::future::Either::Left((first, _)) => first,
            futures::future::Either::Right((first, _)) => first,
        }
    });
    assert_eq!((order, clock.now() - start), ("short", 10 * SECOND));
}

#[test]
fn block_on_waits_for_other_threads_when_no_timer_is_pending() {
    let (_timer, clock) = virtual_timer();
    let (send, receive) = futures::channel::oneshot::channel();
    let sender = std::thread::spawn(move || {
        std::thread::sleep(ms(2));
        send.send(5)
    });
    assert_eq!(clock.block_on(receive), Ok(5));
    assert_eq!(sender.join().expect("the sender ends"), Ok(()));
}

#[test]
fn every_boundary_of_the_wheel_is_crossed_by_a_crowd() {
    const AROUND: u64 = 10_000;
    for power in 3..=10u32 {
        let (timer, clock) = virtual_timer();
        let boundary = 64u64.pow(power);
        clock.advance(Duration::from_nanos(boundary - AROUND));
        let mut delays = delays_below(2 * AROUND, 5_000);
        delays.extend([AROUND - 1, AROUND, AROUND + 1].map(Duration::from_nanos));
        delays.extend((14..58).map(|bit| Duration::from_nanos(AROUND + (1 << bit))));
        let (mut sleeps, seen) = armed(&timer, &clock, &delays);
        assert_eq!(clock.advance(Duration::from_nanos(1 << 58)), delays.len());
        assert_eq!(*seen.lock().unwrap(), in_order(&delays), "power {power}");
        assert!(sleeps.iter_mut().all(|sleep| poll(sleep).is_ready()));
    }
}

#[test]
fn a_virtual_timer_starts_no_thread() {
    let (timer, clock) = virtual_timer();
    timer.start().expect("there is nothing to start");
    let _sleep = polled(timer.sleep(SECOND));
    clock.advance(SECOND);
    let stats = timer.stats();
    assert_eq!((stats.driver_wakeups, stats.unparks, stats.shards), (0, 0, 1));
}

mod held {
    use std::future::{Future, IntoFuture, pending};
    use std::pin::{Pin, pin};
    use std::sync::mpsc;
    use std::task::{Context, Poll};
    use std::thread;

    use futures::FutureExt;
    use futures::channel::oneshot;
    use futures::executor::LocalPool;
    use futures::future::join_all;
    use futures::task::LocalSpawnExt;
    use tourbillon::virtual_time::{Spawned, Task};

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(3).build().expect("it has threads")
    }

    #[test]
    fn a_held_clock_stands_still_while_a_thread_works() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let answer = clock.block_on(async {
            let (send, receive) = oneshot::channel();
            let hold = clock.hold();
            thread::spawn(move || {
                thread::sleep(ms(20));
                send.send(5).expect("somebody waits");
                drop(hold);
            });
            timer.timeout(3600 * SECOND, receive).await
        });
        assert_eq!((answer, clock.now()), (Ok(Ok(5)), start));
    }

    #[test]
    fn the_clock_moves_on_when_the_last_hold_has_gone() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let moved = Arc::new(Mutex::new(None));
        let holds = [clock.hold(), clock.hold()];
        assert!(format!("{clock:?}").contains("holds: 2"));
        let (looking, look) = channel();
        let looker = thread::spawn({
            let (clock, moved) = (clock.clone(), moved.clone());
            move || {
                look.recv().expect("the future is polled");
                for hold in holds {
                    thread::sleep(ms(5));
                    *moved.lock().unwrap() = Some(clock.now() - start);
                    drop(hold);
                }
            }
        });
        clock.block_on(async {
            let sleep = timer.sleep(SECOND);
            looking.send(()).expect("it looks");
            sleep.await;
        });
        looker.join().expect("no panic");
        assert_eq!(*moved.lock().unwrap(), Some(Duration::ZERO));
        assert_eq!(clock.now() - start, SECOND);
    }

    #[test]
    fn a_hold_keeps_nobody_from_moving_the_clock_by_hand() {
        let (timer, clock) = virtual_timer();
        let _hold = clock.hold();
        let _sleep = polled(timer.sleep(SECOND));
        assert_eq!(clock.advance(SECOND), 1);
        let _sleep = polled(timer.sleep(SECOND));
        assert!(clock.advance_to_next().is_some());
    }

    #[test]
    fn what_is_woken_runs_while_the_clock_is_held_for_good() {
        let (_timer, clock) = virtual_timer();
        std::mem::forget(clock.hold());
        let (send, receive) = oneshot::channel();
        let sender = thread::spawn(move || {
            thread::sleep(ms(2));
            send.send(5)
        });
        assert_eq!(clock.block_on(receive), Ok(5));
        assert_eq!(sender.join().expect("no panic"), Ok(()));
    }

    #[test]
    fn a_timer_that_is_armed_by_a_thread_with_a_hold_is_seen_although_none_was_pending() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let (send, receive) = oneshot::channel();
        let send = Mutex::new(Some(send));
        let (looking, look) = channel();
        let worker = thread::spawn({
            let clock = clock.clone();
            move || {
                look.recv().expect("the future is polled");
                // By now it most likely waits, and knows of no timer.
                thread::sleep(ms(5));
                let hold = clock.hold();
                let mut sleep = timer.sleep(SECOND);
                let waker = callback(move || {
                    let send = send.lock().unwrap().take().expect("woken once");
                    send.send(()).expect("somebody waits");
                });
                assert!(poll_with(&mut sleep, &waker).is_pending());
                drop(hold);
                sleep
            }
        });
        clock.block_on(async move {
            looking.send(()).expect("it looks");
            receive.await.expect("it is sent");
        });
        assert_eq!(clock.now() - start, SECOND);
        assert!(worker.join().expect("no panic").is_elapsed());
    }

    #[test]
    fn a_panic_ends_the_hold_of_its_thread() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        clock.block_on(async {
            let hold = clock.hold();
            let work = thread::spawn(move || {
                let _hold = hold;
                panic!("as the test wants it");
            });
            timer.sleep(SECOND).await;
            assert!(work.join().is_err());
        });
        assert_eq!(clock.now() - start, SECOND);
    }

    #[test]
    fn holds_of_one_clock_do_not_hold_another() {
        let (_timer, other) = virtual_timer();
        let (timer, clock) = virtual_timer();
        let _hold = other.hold();
        clock.block_on(timer.sleep(SECOND));
    }

    #[test]
    fn a_future_that_waits_for_the_clock_within_its_waker_panics_although_it_is_held() {
        let (timer, clock) = virtual_timer();
        let hold = Mutex::new(Some(clock.hold()));
        let mover = clock.clone();
        let mut sleep = timer.sleep(SECOND);
        let waker = callback(move || mover.block_on(pending()));
        assert!(poll_with(&mut sleep, &waker).is_pending());
        assert_eq!(clock.advance(SECOND), 1);
        assert_eq!(timer.stats().waker_panics, 1);
        drop(hold);
    }

    #[test]
    fn tracked_tasks_on_other_threads_meet_every_deadline() {
        let (timer, clock) = virtual_timer();
        let (runtime, start) = (runtime(), clock.now());
        let outputs: Vec<_> = (1..=20u64)
            .map(|n| {
                let (timer, now) = (timer.clone(), clock.clone());
                let work = async move {
                    for turn in 1..=10 {
                        timer.sleep(Duration::from_secs(n)).await;
                        // Nobody moves it on, regardless of this thread's acts meanwhile.
                        thread::yield_now();
                        assert_eq!(now.now() - start, Duration::from_secs(n * turn));
                    }
                    n
                };
                let (task, output) = work.remote_handle();
                runtime.spawn(clock.track(task));
                output
            })
            .collect();
        let outputs = clock.block_on(futures::future::join_all(outputs));
        assert_eq!(outputs.iter().sum::<u64>(), 210);
        assert_eq!(clock.now() - start, 200 * SECOND);
    }

    #[test]
    fn the_hold_of_a_tracked_task_lasts_from_each_wake_up_to_the_end_of_the_poll() {
        let (_timer, clock) = virtual_timer();
        let holds =
            |count: usize| assert!(format!("{clock:?}").contains(&format!("holds: {count}")));
        let (send, receive) = mpsc::channel::<Waker>();
        let mut polls = 0;
        let mut task = Box::pin(clock.track(std::future::poll_fn(|cx| {
            polls += 1;
            if polls == 2 {
                cx.waker().wake_by_ref();
            }
            send.send(cx.waker().clone()).expect("the test looks");
            if polls == 4 { Poll::Ready(polls) } else { Poll::Pending }
        })));
        let (counter, waker) = counting();
        holds(1);
        assert!(poll_with(&mut task, &waker).is_pending());
        holds(0);
        let inner = receive.recv().expect("it was polled");
        inner.wake_by_ref();
        inner.wake_by_ref();
        holds(1);
        assert_eq!(counter.wakes(), 1, "the second says nothing new");
        assert!(poll_with(&mut task, &waker).is_pending());
        holds(1);
        assert_eq!(counter.wakes(), 2, "in the poll");
        assert!(poll_with(&mut task, &waker).is_pending());
        holds(0);
        // It may be polled although it was not woken.
        assert_eq!(poll_with(&mut task, &waker), Poll::Ready(4));
        holds(0);
        inner.wake();
        holds(0);
        assert_eq!(counter.wakes(), 2, "it has ended");
    }

    #[test]
    fn a_tracked_task_that_is_dropped_or_panics_holds_nothing() {
        let (_timer, clock) = virtual_timer();
        let holds =
            |count: usize| assert!(format!("{clock:?}").contains(&format!("holds: {count}")));
        let task = clock.track(pending::<()>());
        holds(1);
        drop(task);
        holds(0);

        let mut woken = Box::pin(clock.track(async {
            std::future::poll_fn(|cx| {
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            })
            .await;
        }));
        assert!(poll(&mut woken).is_pending());
        holds(1);
        drop(woken);
        holds(0);

        let mut panics = Box::pin(clock.track(async { panic!("as the test wants it") }));
        let poll = std::panic::AssertUnwindSafe(|| poll(&mut panics));
        assert!(std::panic::catch_unwind(poll).is_err());
        holds(0);
    }

    #[test]
    fn a_tracked_task_wakes_the_waker_of_its_last_poll() {
        let (_timer, clock) = virtual_timer();
        let inner = Mutex::new(None::<Waker>);
        let mut task = pin!(clock.track(std::future::poll_fn(|cx| {
            *inner.lock().unwrap() = Some(cx.waker().clone());
            Poll::<()>::Pending
        })));
        let [first, second] = [Counter::new(), Counter::new()];
        for counter in [&first, &second] {
            let waker = Waker::from(counter.clone());
            assert!(task.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
        inner.lock().unwrap().take().expect("it was polled").wake();
        assert_eq!((first.wakes(), second.wakes()), (0, 1));
        assert_eq!(Arc::strong_count(&first), 1, "nothing of the first is kept");
    }

    #[test]
    fn block_on_itself_may_run_tracked_futures() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let nap = |n: u32| clock.track(timer.sleep(n * SECOND).into_future());
        clock.block_on(futures::future::join(nap(1), nap(2)));
        assert_eq!(clock.now() - start, 2 * SECOND);
    }

    #[test]
    fn outputs_of_spawned_tasks_come_before_the_clock_moves() {
        let (timer, clock) = virtual_timer();
        let runtime = runtime();
        let _context = runtime.enter();
        for round in 1..=50 {
            let start = clock.now();
            let work = |n| {
                let timer = timer.clone();
                async move {
                    timer.sleep(n * SECOND).await;
                    n
                }
            };
            let (one, two) =
                (clock.spawn(tokio::spawn, work(1)), clock.spawn(smol::spawn, work(2)));
            // The third waits for the first, on another thread.
            let three = clock.spawn(tokio::spawn, async { one.await + 2 });
            let outputs = timer
                .timeout(2 * SECOND + Duration::from_nanos(1), async { (two.await, three.await) });
            assert_eq!(clock.block_on(outputs), Ok((2, 3)), "round {round}");
            assert_eq!(clock.now() - start, 2 * SECOND);
        }
    }

    #[test]
    fn a_local_pool_spawns_tasks_whether_the_test_turns_it_or_a_thread() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let spawn = |pool: &LocalPool, n: u32| {
            let (nap, spawner) = (timer.sleep(n * SECOND), pool.spawner());
            let spawn = |task| spawner.spawn_local(task).expect("the pool is there");
            clock.spawn(spawn, async move {
                nap.await;
                n
            })
        };
        let mut pool = LocalPool::new();
        let outputs = [3, 1, 2].map(|n| spawn(&pool, n));
        pool.run_until_stalled();
        while clock.advance_to_next().is_some() {
            pool.run_until_stalled();
        }
        let outputs = outputs.map(|output| output.now_or_never());
        assert_eq!((outputs, clock.now() - start), ([3, 1, 2].map(Some), 3 * SECOND));

        thread::scope(|scope| {
            let (send, outputs) = channel();
            let spawn = &spawn;
            scope.spawn(move || {
                let mut pool = LocalPool::new();
                send.send([1, 2].map(|n| spawn(&pool, n))).expect("it is received");
                pool.run();
            });
            let outputs = outputs.recv().expect("it is sent");
            let limit = 2 * SECOND + Duration::from_nanos(1);
            let outputs = timer.timeout(limit, join_all(outputs));
            assert_eq!(clock.block_on(outputs), Ok(vec![1, 2]));
        });
        assert_eq!(clock.now() - start, 5 * SECOND);
    }

    #[test]
    fn a_spawned_task_that_has_no_output_panics_who_waits() {
        let (_timer, clock) = virtual_timer();
        let runtime = runtime();
        let _context = runtime.enter();
        let panics = clock.spawn(tokio::spawn, async { panic!("as the test wants it") });
        let refused = clock.spawn(drop, async {});
        let mut taken = clock.spawn(smol::spawn, async {});
        clock.block_on(&mut taken);
        let fails = |wait: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(wait)).is_err();
        let (mut panics, mut refused) = (panics, refused);
        assert!(fails(&mut || clock.block_on(&mut panics)));
        assert!(fails(&mut || clock.block_on(&mut refused)));
        assert!(fails(&mut || clock.block_on(&mut taken)));
    }

    /// A task that only the test polls, and its output to come.
    type ByHand<F> = (Pin<Box<Task<F>>>, Spawned<<F as Future>::Output, ()>);

    fn spawned_by_hand<F: Future>(clock: &VirtualClock, future: F) -> ByHand<F> {
        let mut task = None;
        let output = clock.spawn(|made| task = Some(Box::pin(made)), future);
        (task.expect("it was passed on"), output)
    }

    #[test]
    fn the_clock_is_held_until_who_waits_hears_of_a_panic() {
        let (_timer, clock) = virtual_timer();
        let (mut task, mut output) =
            spawned_by_hand(&clock, async { panic!("as the test wants it") });
        let heard = Arc::new(Mutex::new(Vec::new()));
        let waker = callback({
            let (clock, heard) = (clock.clone(), Arc::clone(&heard));
            move || heard.lock().unwrap().push(format!("{clock:?}"))
        });
        assert!(poll_with(&mut output, &waker).is_pending());
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut task))).is_err());
        // An executor drops the task later.
        let heard = std::mem::take(&mut *heard.lock().unwrap());
        assert!(matches!(&heard[..], [clock] if clock.contains("holds: 1")), "{heard:?}");
        assert!(format!("{clock:?}").contains("holds: 0"));
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut output))).is_err());
    }

    #[test]
    fn an_output_is_taken_once_although_its_task_is_not_dropped_yet() {
        let (_timer, clock) = virtual_timer();
        let (mut task, mut output) = spawned_by_hand(&clock, async { 5 });
        assert!(poll(&mut task).is_ready());
        assert_eq!(poll(&mut output), Poll::Ready(5));
        assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut output))).is_err());
        drop(task);
    }

    #[test]
    fn a_waker_that_panics_when_a_task_is_over_leaves_the_task_its_own_panic() {
        let (_timer, clock) = virtual_timer();
        let panics = callback(|| panic!("of the waker"));
        let (task, mut output) = spawned_by_hand(&clock, pending::<()>());
        assert!(poll_with(&mut output, &panics).is_pending());
        drop(task);
        let (mut task, mut output) =
            spawned_by_hand(&clock, async { resume_unwind(Box::new("of the task")) });
        let polled: Poll<()> = poll_with(&mut output, &panics);
        assert!(polled.is_pending());
        let panic = catch_unwind(AssertUnwindSafe(|| poll(&mut task))).expect_err("it panics");
        assert_eq!(panic.downcast_ref(), Some(&"of the task"));
    }

    #[test]
    fn a_spawned_task_is_what_its_executor_makes_of_the_handle() {
        let (timer, clock) = virtual_timer();
        let runtime = runtime();
        let _context = runtime.enter();
        let (send, receive) = channel();
        let task = |name| {
            let (timer, send) = (timer.clone(), send.clone());
            async move {
                timer.sleep(SECOND).await;
                send.send(name).expect("it is received");
            }
        };
        let [dropped, cancelled, detached] = ["dropped", "cancelled", "detached"].map(task);
        drop(send);
        drop(clock.spawn(tokio::spawn, dropped));
        drop(clock.spawn(smol::spawn, cancelled));
        clock.spawn(smol::spawn, detached).into_handle().detach();
        clock.block_on(timer.sleep(2 * SECOND));
        let mut ran: Vec<_> = receive.iter().collect();
        ran.sort_unstable();
        assert_eq!(ran, ["detached", "dropped"]);
    }

    #[test]
    fn tasks_of_an_executor_within_the_future_need_no_hold() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let nap = |n: u32| {
            let (timer, clock) = (timer.clone(), clock.clone());
            async move {
                timer.sleep(n * SECOND).await;
                clock.now()
            }
        };
        let set = tokio::task::LocalSet::new();
        let woke = clock.block_on(set.run_until(async {
            let tasks = [3, 1, 2].map(|n| tokio::task::spawn_local(nap(n)));
            futures::future::try_join_all(tasks).await.expect("none panics")
        }));
        assert_eq!(woke, [3, 1, 2].map(|n| start + n * SECOND));
        let start = clock.now();
        let executor = smol::LocalExecutor::new();
        let tasks = [3, 1, 2].map(|n| executor.spawn(nap(n)));
        let woke = clock.block_on(executor.run(futures::future::join_all(tasks)));
        assert_eq!(woke, [3, 1, 2].map(|n| start + n * SECOND));
    }

    #[test]
    fn limits_in_real_time_may_be_set_on_code_in_virtual_time() {
        let (timer, clock) = virtual_timer();
        let work = || timer.sleep(60 * SECOND);
        assert_eq!(clock.block_on(tourbillon::timeout(3600 * SECOND, work())), Ok(()));
        let work = clock.spawn(smol::spawn, tourbillon::timeout(3600 * SECOND, work()));
        assert_eq!(clock.block_on(work), Ok(()));
    }

    #[test]
    fn a_held_clock_stands_still_while_a_timer_in_real_time_is_awaited() {
        let (timer, clock) = virtual_timer();
        let start = clock.now();
        let hour = timer.sleep(3600 * SECOND);
        let held = async {
            let _hold = clock.track(async { clock.hold() }).await;
            tourbillon::sleep(ms(1)).await;
            clock.now() - start
        };
        let (_, waited) = clock.block_on(futures::future::join(hour, held));
        assert_eq!(waited, Duration::ZERO);
    }

    fn _futures_are_send(clock: &VirtualClock) -> impl Send + Sync + Unpin {
        fn everywhere<T: Send + Sync + Unpin>(_: T) {}
        everywhere(clock.spawn(|_| (), std::future::ready(())));
        let tracked = clock.track(std::future::ready(()));
        let _: Pin<&dyn Send> = pin!(clock.hold()).into_ref();
        tracked
    }
}

/// The order of a crowd's wake-ups: `count` sleeps at each of two deadlines, set in turn.
fn crowd(clock: &VirtualClock, count: usize) -> Vec<usize> {
    let timer = Timer::builder().virtual_clock(clock).build().unwrap();
    let (tell, order) = channel();
    for n in 0..2 * count {
        let tell = tell.clone();
        timer.sleep(SECOND * (1 + (n % 2) as u32)).call(move || tell.send(n).unwrap()).detach();
    }
    assert_eq!(clock.advance(3 * SECOND), 2 * count);
    order.try_iter().collect()
}

#[test]
fn a_seed_orders_equal_deadlines_and_no_others() {
    // More than are held at once without a seed.
    const COUNT: usize = 1_500;
    let plain = crowd(&VirtualClock::new(), COUNT);
    let set: Vec<_> = (0..2).flat_map(|first| (first..2 * COUNT).step_by(2)).collect();
    assert_eq!(plain, set, "without one they are woken as they were set");
    let orders = [1, 2, u64::MAX].map(|seed| crowd(&VirtualClock::seeded(seed), COUNT));
    for (order, seed) in orders.iter().zip([1, 2, u64::MAX]) {
        let (first, second) = order.split_at(COUNT);
        assert!(first.iter().all(|n| n % 2 == 0) && second.iter().all(|n| n % 2 == 1));
        let mut sorted = order.clone();
        sorted.sort_by_key(|n| (n % 2, *n));
        assert_eq!(sorted, set, "each is woken once");
        // The tenth set last is not woken last.
        let late = |n: &&usize| **n >= 2 * COUNT * 9 / 10;
        let among = first[..COUNT / 2].iter().filter(late).count();
        assert!((COUNT / 40..COUNT * 3 / 40).contains(&among), "{among} by seed {seed}");
        assert_ne!(first.iter().map(|n| n + 1).collect::<Vec<_>>(), second, "of each deadline");
        assert_eq!(crowd(&VirtualClock::seeded(seed), COUNT), *order, "the same again");
    }
    assert!(orders[0] != orders[1] && orders[1] != orders[2]);
}

#[test]
fn a_clock_moved_with_an_executor_runs_it_at_each_deadline() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    let mut pool = LocalPool::new();
    let seen = Rc::new(RefCell::new(Vec::new()));
    for (name, period) in [("a", 2), ("b", 3)] {
        let (timer, clock, seen) = (timer.clone(), clock.clone(), Rc::clone(&seen));
        let task = async move {
            loop {
                timer.sleep(period * SECOND).await;
                seen.borrow_mut().push((name, (clock.now() - start).as_secs()));
            }
        };
        pool.spawner().spawn_local(task).unwrap();
    }
    let mut runs = 0;
    let fired = clock.advance_with(6 * SECOND + ms(500), || {
        runs += 1;
        pool.run_until_stalled();
    });
    // Both at 6 s, in the order of their setting.
    let expected = [("a", 2), ("b", 3), ("a", 4), ("b", 6), ("a", 6)];
    assert_eq!(*seen.borrow(), expected);
    assert_eq!((fired, runs, clock.now() - start), (5, 5, 6 * SECOND + ms(500)));

    assert_eq!(clock.advance_to_with(start + 8 * SECOND, || pool.run_until_stalled()), 1);
    assert_eq!(clock.now() - start, 8 * SECOND);
    assert_eq!(seen.borrow().last(), Some(&("a", 8)), "also for the last");
    assert_eq!(clock.advance_to_with(start, || pool.run_until_stalled()), 0, "never back");
    assert_eq!(clock.now() - start, 8 * SECOND);
}

#[test]
fn a_clock_is_not_moved_with_an_executor_within_a_waker() {
    let (timer, clock) = virtual_timer();
    let own = clock.clone();
    let callback = timer.sleep(SECOND).call(move || _ = own.advance_with(SECOND, || {}));
    assert_eq!(clock.advance(SECOND), 1);
    assert_eq!(timer.stats().waker_panics, 1);
    drop(callback);
}
