//! Timers in tokio's time: paused, advanced, resumed and simulated.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime;
use tokio::sync::oneshot;
use tokio::time::{Instant, advance};
use tourbillon::{Timer, interval, sleep, timeout};
use tourbillon_tokio::{TokioRuntime, timer};

const HOUR: Duration = Duration::from_secs(3600);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn is_ready<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

fn panics<R>(action: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(action)).err().expect("it panics");
    let text = panic.downcast_ref::<String>().cloned();
    text.unwrap_or_else(|| (*panic.downcast::<&str>().unwrap()).to_owned())
}

fn a_runtime() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// Numbers that are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) % end
    }
}

#[tokio::test(start_paused = true)]
async fn an_hour_passes_at_once_and_exactly() {
    let start = Instant::now();
    let within = async {
        sleep(HOUR).await;
        assert!(timeout(HOUR, pending::<()>()).await.is_err());
        let mut ticks = interval(HOUR);
        for _ in 0..3 {
            ticks.tick().await;
        }
        tourbillon::wall::sleep_until_wall(Timer::current().wall_now() + HOUR).await;
    };
    timer().scope(within).await;
    assert_eq!(start.elapsed(), 5 * HOUR);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_advanced_by_less_as_much_and_more_ends_what_is_due() {
    let timer = timer();
    for (span, ready) in [(9_999, false), (10_000, true), (20_000, true)] {
        let mut armed = timer.sleep(ms(10_000));
        assert!(!is_ready(&mut armed));
        let mut unpolled = timer.sleep(ms(10_000));
        advance(ms(span)).await;
        assert_eq!([is_ready(&mut armed), is_ready(&mut unpolled)], [ready; 2]);
    }
}

/// The task that drives it has not run in between.
#[tokio::test(start_paused = true)]
async fn a_poll_sees_an_advance_at_once() {
    let timer = timer();
    let (start, began) = (timer.now(), Instant::now());
    let mut armed = timer.sleep(ms(10));
    assert!(!is_ready(&mut armed));
    let mut advancing = Box::pin(advance(ms(10)));
    // Its first poll moves the clock, and then yields.
    assert!(!is_ready(&mut advancing));
    assert_eq!((timer.now() - start, began.elapsed()), (ms(10), ms(10)));
    assert!(is_ready(&mut armed));
    assert_eq!(timer.sleep(ms(10)).deadline(), start + ms(20));
    advancing.await;
}

#[tokio::test(start_paused = true)]
async fn time_goes_on_from_where_it_was_paused() {
    let timer = timer();
    let start = timer.now();
    let mut armed = timer.sleep(ms(1_005));
    assert!(!is_ready(&mut armed));
    advance(ms(1_000)).await;
    tokio::time::resume();
    armed.await;
    assert!(timer.now() - start >= ms(1_005));
    tokio::time::pause();
    let paused = timer.now();
    timer.sleep(HOUR).await;
    assert!(timer.now() - paused >= HOUR);
}

#[tokio::test(start_paused = true)]
async fn time_stands_still_once_the_last_timer_is_cancelled() {
    let timer = timer();
    let start = Instant::now();
    let armed = [timer.sleep(HOUR), timer.sleep(2 * HOUR)];
    for mut sleep in armed {
        poll_fn(|cx| {
            assert!(Pin::new(&mut sleep).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        tokio::task::yield_now().await;
    }
    let (tell, told) = oneshot::channel();
    thread::spawn(move || {
        thread::sleep(ms(5));
        tell.send(()).unwrap();
    });
    told.await.unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// Sleeps for each of the delays, by one in `ours` of our timer, the others by tokio's. Returns the
/// milliseconds after which each ended, in that order, with its number.
async fn ends(delays: &[u64], ours: impl Fn(usize) -> bool) -> Vec<(usize, u128)> {
    let (timer, start) = (timer(), Instant::now());
    let ended = Arc::new(Mutex::new(Vec::new()));
    let tasks = delays.iter().enumerate().map(|(number, delay)| {
        let (own, delay) = (ours(number).then(|| timer.clone()), ms(*delay));
        let ended = Arc::clone(&ended);
        tokio::spawn(async move {
            match own {
                Some(timer) => timer.sleep(delay).await,
                None => tokio::time::sleep(delay).await,
            }
            ended.lock().unwrap().push((number, start.elapsed().as_millis()));
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    std::mem::take(&mut *ended.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_sleeps_end_at_the_instants_at_which_those_of_tokio_do() {
    let mut numbers = Numbers(7);
    let delays: Vec<_> = (0..1_000).map(|_| 1 + numbers.below(400)).collect();
    let theirs = ends(&delays, |_| false).await;
    let choices: [fn(usize) -> bool; 2] = [|_| true, |number| number % 2 == 0];
    for ours in choices {
        let mixed = ends(&delays, ours).await;
        assert!(mixed.iter().all(|(number, end)| *end == u128::from(delays[*number])));
        assert!(mixed.is_sorted_by_key(|(_, end)| *end));
        let instants =
            |ends: &[(usize, u128)]| ends.iter().map(|(_, end)| *end).collect::<Vec<_>>();
        assert_eq!(instants(&mixed), instants(&theirs));
        // Of equal deadlines, in the order in which they were armed.
        let own: Vec<_> = mixed.iter().filter(|(number, _)| ours(*number)).collect();
        assert!(own.is_sorted_by_key(|(number, end)| (*end, *number)));
    }
}

#[test]
fn a_deadline_within_a_millisecond_is_never_early() {
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let timer = timer();
        let mut numbers = Numbers(3);
        for _ in 0..200 {
            let delay = Duration::from_nanos(1 + numbers.below(5_000_000));
            let start = timer.now();
            timer.sleep(delay).await;
            let slept = timer.now() - start;
            assert!(slept >= delay && slept < delay + ms(2), "{slept:?} for {delay:?}");
        }
    });
}

#[test]
fn a_sleep_of_another_thread_panics_as_the_runtime_ends() {
    let runtime = a_runtime();
    let timer = runtime.block_on(async { timer() });
    let (armed, is_armed) = std::sync::mpsc::channel();
    let sleeper = {
        let mut sleep = timer.sleep(HOUR);
        thread::spawn(move || {
            let polls = poll_fn(|cx| {
                let polled = Pin::new(&mut sleep).poll(cx);
                armed.send(()).unwrap();
                polled
            });
            panics(|| pollster::block_on(polls))
        })
    };
    is_armed.recv().unwrap();
    drop(runtime);
    let gone = "A Tokio 1.x context was found, but it is being shutdown.";
    let panic = sleeper.join().unwrap();
    assert!(panic.ends_with(gone), "{panic}");
    assert!(panics(|| pollster::block_on(timer.sleep(HOUR))).ends_with(gone));
    assert!(timer.start().unwrap_err().to_string().ends_with(gone));
    // What need not wait is as before.
    pollster::block_on(timer.sleep(Duration::ZERO));
    assert!(timer.now() <= timer.now());
}

#[test]
fn tasks_of_the_runtime_that_ends_are_dropped_with_their_sleeps() {
    for threads in [1, 2] {
        let runtime =
            runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.unwrap();
        let timer = runtime.block_on(async { timer() });
        for n in 0..50 {
            let timer = timer.clone();
            runtime.spawn(async move { timer.sleep(ms(n) + HOUR * (n % 2) as u32).await });
        }
        runtime.block_on(timer.sleep(ms(5)));
        drop(runtime);
        let stats = timer.stats();
        assert_eq!((stats.pending, stats.waker_panics), (0, 0));
    }
}

#[test]
fn another_thread_arms_an_earlier_timer() {
    let runtime = a_runtime();
    let timer = runtime.block_on(async { timer() });
    let (tell, told) = oneshot::channel();
    let far = timer.sleep(HOUR);
    let other = {
        let timer = timer.clone();
        thread::spawn(move || {
            let start = std::time::Instant::now();
            pollster::block_on(timer.sleep(ms(3)));
            assert!(start.elapsed() >= ms(3));
            tell.send(()).unwrap();
        })
    };
    runtime.block_on(async {
        tokio::select! {
            () = far => panic!("an hour"),
            told = told => told.unwrap(),
        }
    });
    other.join().unwrap();
}

#[test]
fn a_runtime_without_time_is_refused_where_the_timer_is_made() {
    let runtime = runtime::Builder::new_current_thread().build().unwrap();
    let panic = panics(|| TokioRuntime::of(runtime.handle().clone()));
    assert!(panic.contains("enable_time"), "{panic}");
    assert!(panics(timer).contains("no reactor running"));
}

/// Runs a simulation, and returns what the client does.
fn simulated<T: Send + 'static, F>(seed: u64, client: impl FnOnce() -> F + 'static) -> T
where
    F: Future<Output = T> + 'static,
{
    let mut sim = turmoil::Builder::new().rng_seed(seed).build();
    let result = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&result);
    sim.client("client", async move {
        *slot.lock().unwrap() = Some(client().await);
        Ok(())
    });
    sim.run().unwrap();
    let result = result.lock().unwrap().take();
    result.expect("the client has ended")
}

#[test]
fn a_limit_of_tokio_around_our_sleep_has_one_outcome_in_a_simulation() {
    for seed in 0..1_000 {
        let outcome = simulated(seed, || async {
            let start = Instant::now();
            let nap = async { sleep(ms(50)).await };
            let nap = tokio::time::timeout(Duration::from_secs(1), timer().scope(nap)).await;
            let late = timer().scope(async { timeout(ms(20), tokio::time::sleep(ms(30))).await });
            (nap.is_ok(), late.await.is_err(), start.elapsed())
        });
        assert_eq!(outcome, (true, true, ms(70)), "seed {seed}");
    }
}

#[test]
fn each_host_has_its_own_time() {
    let mut sim = turmoil::Builder::new().tick_duration(ms(1)).build();
    let ticks = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&ticks);
    sim.host("server", move || {
        let counter = Arc::clone(&counter);
        async move {
            let start = Instant::now();
            let serve = async {
                let mut every = interval(ms(100));
                every.tick().await;
                for n in 1.. {
                    every.tick().await;
                    assert_eq!(start.elapsed(), n * ms(100));
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            };
            timer().scope(serve).await;
            Ok(())
        }
    });
    // This one begins while the other has run for 300 ms.
    let (ticked, wait) = (Arc::clone(&ticks), ms(300));
    sim.client("late", async move {
        tokio::time::sleep(wait).await;
        let timer = timer();
        let start = timer.now();
        for _ in 0..5 {
            timer.sleep(ms(100)).await;
        }
        assert_eq!(timer.now() - start, ms(500));
        let ticked = ticked.load(Ordering::SeqCst);
        assert!((7..=8).contains(&ticked), "{ticked} ticks");
        Ok(())
    });
    sim.run().unwrap();
}

#[test]
fn a_host_that_is_bounced_has_a_timer_again() {
    let mut sim = turmoil::Builder::new().tick_duration(ms(1)).build();
    let log = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&log);
    sim.host("node", move || {
        let notes = Arc::clone(&notes);
        async move {
            let work = async {
                for n in 1.. {
                    sleep(ms(10)).await;
                    notes.lock().unwrap().push(n);
                }
            };
            timer().scope(work).await;
            Ok(())
        }
    });
    let run = |sim: &mut turmoil::Sim<'_>, span: u64| {
        for _ in 0..span {
            sim.step().unwrap();
        }
        std::mem::take(&mut *log.lock().unwrap())
    };
    assert_eq!(run(&mut sim, 35), [1, 2, 3]);
    sim.crash("node");
    assert_eq!(run(&mut sim, 35), [0_u32; 0]);
    sim.bounce("node");
    assert_eq!(run(&mut sim, 35), [1, 2, 3]);
    sim.bounce("node");
    assert_eq!(run(&mut sim, 25), [1, 2]);
}
