//! One suite of behaviours, on every executor.
//!
//! Each behaviour is an async function over a [`Rig`]; the macro at the end runs all of them on
//! each executor. The hand-driven loop fires timers by `Driver::turn`, the others have them fired
//! by the clock as it is advanced.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::future::{self, Either, FutureExt};
use futures::{StreamExt, select_biased};
use tourbillon::Timer;
use tourbillon::driver::Driver;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

/// Tools that a behaviour is given.
struct Rig {
    timer: Timer,
    clock: VirtualClock,
    /// True if a loop around the behaviour turns the wheels.
    by_hand: bool,
}

impl Rig {
    /// Moves the clock, and lets the woken tasks run.
    async fn advance(&self, span: Duration) {
        if self.by_hand {
            self.clock.jump(span);
        } else {
            self.clock.advance(span);
        }
        yield_now().await;
    }
}

async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls both to the end; `left` first in each round.
async fn both<A, B>(left: impl Future<Output = A>, right: impl Future<Output = B>) -> (A, B) {
    future::join(left, right).await
}

async fn a_sleep_ends_at_its_deadline(rig: Rig) {
    let start = rig.clock.now();
    both(rig.timer.sleep(SECOND), async {
        rig.advance(SECOND / 2).await;
        assert_eq!(rig.timer.stats().pending, 1);
        rig.advance(SECOND / 2).await;
    })
    .await;
    assert_eq!(rig.clock.now() - start, SECOND);
    assert_eq!(rig.timer.stats().pending, 0);
}

async fn many_sleeps_end_in_the_order_of_their_deadlines(rig: Rig) {
    let ended = RefCell::new(Vec::new());
    let sleeps = [5, 3, 9, 1, 7, 2, 8, 4, 6, 0].map(|n| {
        let (sleep, ended) = (rig.timer.sleep(n * ms(10)), &ended);
        async move {
            sleep.await;
            ended.borrow_mut().push(n);
        }
    });
    both(future::join_all(sleeps), async {
        for _ in 0..10 {
            rig.advance(ms(10)).await;
        }
    })
    .await;
    assert_eq!(*ended.borrow(), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

async fn a_sleep_can_be_reset_while_it_is_awaited(rig: Rig) {
    let start = rig.clock.now();
    let mut sleep = rig.timer.sleep(SECOND);
    for delay in [3 * SECOND, SECOND / 2, 2 * SECOND] {
        match future::select(&mut sleep, pin!(yield_now())).await {
            Either::Left(_) => panic!("early"),
            Either::Right(_) => sleep.reset_after(delay),
        }
    }
    both(&mut sleep, async {
        rig.advance(SECOND).await;
        rig.advance(SECOND).await;
    })
    .await;
    assert_eq!(rig.clock.now() - start, 2 * SECOND);
    sleep.reset_after(SECOND);
    both(&mut sleep, rig.advance(SECOND)).await;
}

async fn an_interval_keeps_to_its_grid(rig: Rig) {
    let start = rig.clock.now();
    let mut interval = rig.timer.interval_at(start + ms(10), ms(10));
    for n in 1..=20 {
        let (tick, ()) = both(interval.tick(), rig.advance(ms(10))).await;
        assert_eq!(tick, start + ms(10) * n);
    }
    let (next, ()) = both(interval.next(), rig.advance(ms(10))).await;
    assert_eq!(next, Some(start + ms(210)));
}

async fn a_timeout_cuts_a_silent_future_off(rig: Rig) {
    let silent = rig.timer.timeout(SECOND, future::pending::<()>());
    let (result, ()) = both(silent, rig.advance(SECOND)).await;
    assert!(result.is_err());
    assert_eq!(rig.timer.timeout(SECOND, async { 5 }).await, Ok(5));
    assert_eq!(rig.timer.stats().pending, 0);
}

async fn a_fused_sleep_leaves_a_select_once(rig: Rig) {
    let mut sleep = rig.timer.sleep(SECOND);
    let (send, receive) = futures::channel::oneshot::channel();
    let mut receive = receive.fuse();
    let mut send = Some(send);
    let mut slept = 0;
    let mut moved = pin!(rig.advance(SECOND).fuse());
    loop {
        select_biased! {
            () = sleep => {
                slept += 1;
                send.take().expect("it ends once").send(9).expect("it is awaited");
            }
            () = moved => {}
            got = receive => {
                assert_eq!((got, slept), (Ok(9), 1));
                break;
            }
        }
    }
}

async fn the_task_that_polled_last_is_woken(rig: Rig) {
    let (sleep, first) = counted(rig.timer.sleep(SECOND));
    both(sleep, rig.advance(SECOND)).await;
    assert_eq!(first.wakes(), 0);
}

async fn real_sleeps_are_never_early_and_complete(_: Rig) {
    let sleeps = (0..50u64).map(|n| async move {
        let start = Instant::now();
        let delay = Duration::from_micros(n * n);
        tourbillon::sleep(delay).await;
        assert!(start.elapsed() >= delay, "early");
    });
    future::join_all(sleeps).await;
}

async fn real_timeouts_and_intervals_complete(_: Rig) {
    assert!(tourbillon::timeout(ms(1), future::pending::<()>()).await.is_err());
    assert_eq!(tourbillon::timeout(3600 * SECOND, async { 5 }).await, Ok(5));
    let mut interval = tourbillon::interval(ms(1));
    for _ in 0..5 {
        let tick = interval.tick().await;
        assert!(Instant::now() >= tick, "early");
    }
}

async fn a_real_sleep_woken_from_another_thread_moves_with_its_task(_: Rig) {
    let (send, receive) = mpsc::channel();
    let deadline = Instant::now() + ms(3);
    let mut sleep = tourbillon::sleep_until(deadline);
    // Pending, unless this thread was held up.
    let _ = poll(&mut sleep);
    std::thread::spawn(move || {
        pollster::block_on(sleep);
        send.send(Instant::now())
    });
    assert!(receive.recv().expect("the sleep completes") >= deadline, "early");
}

/// Turns the wheels between any two polls of `future`.
fn by_hand(mut driver: Driver, future: impl Future<Output = ()>) {
    let mut future = pin!(future);
    let woken = std::sync::Arc::new(std::sync::Mutex::new(true));
    let (unpark, parked) = mpsc::channel();
    let waker = {
        let woken = woken.clone();
        callback(move || {
            *woken.lock().unwrap() = true;
            // The loop may have ended.
            let _ = unpark.send(());
        })
    };
    loop {
        driver.turn();
        if std::mem::take(&mut *woken.lock().unwrap()) {
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                return;
            }
        } else {
            parked.recv().expect("the waker holds the other end");
        }
    }
}

fn rig() -> Rig {
    let (timer, clock) = virtual_timer();
    Rig { timer, clock, by_hand: false }
}

macro_rules! behaviours {
    ($executor:ident, $run:expr) => {
        behaviours!($executor, $run,
            a_sleep_ends_at_its_deadline
            many_sleeps_end_in_the_order_of_their_deadlines
            a_sleep_can_be_reset_while_it_is_awaited
            an_interval_keeps_to_its_grid
            a_timeout_cuts_a_silent_future_off
            a_fused_sleep_leaves_a_select_once
            the_task_that_polled_last_is_woken
            real_sleeps_are_never_early_and_complete
            real_timeouts_and_intervals_complete
            a_real_sleep_woken_from_another_thread_moves_with_its_task
        );
    };
    ($executor:ident, $run:expr, $($behaviour:ident)+) => {
        mod $executor {
            $(#[test]
            fn $behaviour() {
                // Made by the executor's own thread, as not every behaviour is `Send`.
                #[allow(clippy::redundant_closure_call, reason = "each executor is a closure")]
                ($run)(super::$behaviour);
            })+
        }
    };
}

/// Runs a behaviour that is made and polled on one thread.
trait Local<F> {
    fn start(self) -> F;
}

impl<B: FnOnce(Rig) -> F, F> Local<F> for B {
    fn start(self) -> F {
        self(rig())
    }
}

behaviours!(tokio_current_thread, |behaviour| {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("tokio starts").block_on(super::Local::start(behaviour));
});

behaviours!(tokio_multi_thread, |behaviour| {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let behaviour = super::Local::start(behaviour);
    let local = tokio::task::LocalSet::new();
    runtime.expect("tokio starts").block_on(local.run_until(behaviour));
});

behaviours!(smol_executor, |behaviour| smol::block_on(super::Local::start(behaviour)));

behaviours!(local_pool, |behaviour| {
    futures::executor::LocalPool::new().run_until(super::Local::start(behaviour));
});

behaviours!(pollster_block_on, |behaviour| pollster::block_on(super::Local::start(behaviour)));

behaviours!(hand_driven_loop, |behaviour: fn(super::Rig) -> _| super::run_by_hand(behaviour));

fn run_by_hand<F: Future<Output = ()>>(behaviour: impl FnOnce(Rig) -> F) {
    let clock = VirtualClock::new();
    let (timer, driver) =
        Timer::builder().virtual_clock(&clock).build_manual(|| {}).expect("the options are valid");
    by_hand(driver, behaviour(Rig { timer, clock, by_hand: true }));
}

/// Executors that run tasks on threads of their own.
mod spawned {
    use super::*;

    /// A task that sleeps, hops to wherever its executor likes, and sleeps again.
    async fn hop(count: u64) -> u64 {
        for n in 0..count {
            let start = Instant::now();
            tourbillon::sleep(Duration::from_micros(100 * n)).await;
            assert!(start.elapsed() >= Duration::from_micros(100 * n), "early");
            yield_now().await;
        }
        count
    }

    #[test]
    fn on_a_thread_pool() {
        let pool = futures::executor::ThreadPool::builder().pool_size(2).create();
        let pool = pool.expect("the pool starts");
        let tasks: Vec<_> = (0..20)
            .map(|n| {
                futures::task::SpawnExt::spawn_with_handle(&pool, hop(n)).expect("the pool lives")
            })
            .collect();
        let hops: u64 = futures::executor::block_on(future::join_all(tasks)).iter().sum();
        assert_eq!(hops, 190);
    }

    #[test]
    fn on_tokio_workers() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
        let hops: u64 = runtime.expect("tokio starts").block_on(async {
            let tasks: Vec<_> = (0..20).map(|n| tokio::spawn(hop(n))).collect();
            future::join_all(tasks).await.into_iter().map(|hops| hops.expect("no panic")).sum()
        });
        assert_eq!(hops, 190);
    }

    #[test]
    fn on_smol_workers() {
        let tasks: Vec<_> = (0..20).map(|n| smol::spawn(hop(n))).collect();
        assert_eq!(smol::block_on(future::join_all(tasks)).iter().sum::<u64>(), 190);
    }

    #[test]
    fn on_a_local_pool_with_tasks_that_share_a_cell() {
        let mut pool = futures::executor::LocalPool::new();
        let ended = Rc::new(RefCell::new(Vec::new()));
        for n in (0..5u64).rev() {
            let ended = ended.clone();
            let task = async move {
                tourbillon::sleep(ms(2 * n)).await;
                ended.borrow_mut().push(n);
            };
            futures::task::LocalSpawnExt::spawn_local(&pool.spawner(), task).expect("it lives");
        }
        pool.run();
        ended.borrow_mut().sort_unstable();
        assert_eq!(*ended.borrow(), [0, 1, 2, 3, 4]);
    }
}
