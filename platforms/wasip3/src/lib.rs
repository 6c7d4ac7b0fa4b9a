//! Tests of timers under WASI 0.3, as one component: libtest would run them within an export that
//! may not wait. Prints each name, and their number as libtest does.

use std::cell::Cell;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all, select};
use tourbillon::{Sleep, Timer, interval, sleep, timeout};
use tourbillon_wasip3::scope;
use wasip3::clocks::monotonic_clock;

struct Tests;

wasip3::cli::command::export!(Tests);

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        async fn run_all() -> u32 {
            let mut passed = 0;
            $(
                print!("test {} ... ", stringify!($name));
                $name().await;
                println!("ok");
                passed += 1;
            )*
            passed
        }
    };
}

tests![
    a_library_sleeps_without_a_loop_of_ones_own,
    a_scope_ends_as_its_future_does,
    ten_thousand_sleeps_end_and_none_early,
    scopes_beside_each_other_have_a_timer_each,
    a_spawned_task_outlives_the_scope_that_spawned_it,
    a_wait_of_the_hosts_and_ours_are_waited_for_together,
    an_earlier_timer_takes_the_place_of_the_wait,
    a_timer_of_a_scope_serves_a_future_beside_it,
    a_scope_that_is_dropped_takes_its_wait_back,
    a_scope_that_moves_to_another_place_is_driven_on,
];

impl wasip3::exports::cli::run::Guest for Tests {
    async fn run() -> Result<(), ()> {
        let passed = run_all().await;
        println!("test result: ok. {passed} passed; 0 failed");
        Ok(())
    }
}

const HOUR: Duration = Duration::from_secs(3600);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

async fn a_library_sleeps_without_a_loop_of_ones_own() {
    let start = Instant::now();
    scope(async {
        sleep(ms(5)).await;
        assert!(start.elapsed() >= ms(5));
        assert!(timeout(ms(2), pending::<()>()).await.is_err());
        let mut ticks = interval(ms(2));
        for _ in 0..3 {
            ticks.tick().await;
        }
        assert!(start.elapsed() >= ms(11));
        assert_eq!(Timer::current().stats().pending, 0);
    })
    .await;
}

async fn a_scope_ends_as_its_future_does() {
    let start = Instant::now();
    scope(async { timeout(HOUR, async {}).await.unwrap() }).await;
    scope(async {
        // Its driver waits already.
        let far = async { timeout(HOUR, pending::<()>()).await.is_err() };
        select(Box::pin(far), Box::pin(sleep(ms(2)))).await;
    })
    .await;
    assert!(start.elapsed() < HOUR);
}

async fn ten_thousand_sleeps_end_and_none_early() {
    scope(async {
        let start = Instant::now();
        let before = Timer::current().stats();
        join_all((0..10_000_u64).map(|n| async move {
            let delay = Duration::from_micros(1 + n * 7_919 % 50_000);
            sleep(delay).await;
            assert!(start.elapsed() >= delay);
        }))
        .await;
        let after = Timer::current().stats();
        assert!(after.armed - before.armed > 5_000);
    })
    .await;
}

async fn scopes_beside_each_other_have_a_timer_each() {
    let start = Instant::now();
    let nap = |delay| {
        scope(async move {
            sleep(ms(delay)).await;
            start.elapsed() >= ms(delay) && Timer::current().stats().fired <= 1
        })
    };
    assert_eq!(join_all([nap(9), nap(3), nap(6)]).await, [true; 3]);
}

async fn a_spawned_task_outlives_the_scope_that_spawned_it() {
    let (ended, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
    let (is_ended, tell) = (Rc::clone(&ended), Rc::clone(&done));
    scope(async move {
        wit_bindgen::spawn_local(scope(async move {
            sleep_until_set(&is_ended).await;
            sleep(ms(2)).await;
            tell.set(true);
        }));
        sleep(ms(2)).await;
    })
    .await;
    ended.set(true);
    scope(sleep_until_set(&done)).await;
}

async fn sleep_until_set(done: &Cell<bool>) {
    while !done.get() {
        sleep(ms(1)).await;
    }
}

async fn a_wait_of_the_hosts_and_ours_are_waited_for_together() {
    let start = Instant::now();
    let theirs = async {
        monotonic_clock::wait_for(4_000_000).await;
        start.elapsed()
    };
    let ours = scope(async {
        sleep(ms(8)).await;
        sleep(ms(4)).await;
        start.elapsed()
    });
    let (theirs, ours) = join(theirs, ours).await;
    assert!(theirs >= ms(4) && ours >= ms(12));
}

async fn an_earlier_timer_takes_the_place_of_the_wait() {
    scope(async {
        let mut far = sleep(HOUR);
        assert!(poll_once(&mut far).await.is_pending());
        // The driver has waited for it.
        monotonic_clock::wait_for(1_000_000).await;
        sleep(ms(2)).await;
        far.reset(Timer::current().now() + ms(2));
        far.await;
    })
    .await;
}

/// It is armed outside of the scope's polls, so the scope is woken to begin a wait.
async fn a_timer_of_a_scope_serves_a_future_beside_it() {
    let timer = Rc::new(Cell::new(None));
    let lend = Rc::clone(&timer);
    let done = Rc::new(Cell::new(false));
    let is_done = Rc::clone(&done);
    let lender = scope(async move {
        lend.set(Some(Timer::current()));
        poll_fn(|_| if is_done.get() { Poll::Ready(()) } else { Poll::Pending }).await;
    });
    let borrower = async {
        monotonic_clock::wait_for(1_000_000).await;
        let timer: Timer = timer.take().expect("the lender was polled first");
        for _ in 0..3 {
            timer.sleep(ms(2)).await;
        }
        done.set(true);
    };
    join(lender, borrower).await;
}

async fn a_scope_that_is_dropped_takes_its_wait_back() {
    let kept: Cell<Option<(Timer, Sleep)>> = Cell::new(None);
    let mut armed = Box::pin(scope(async {
        let mut far = sleep(HOUR);
        assert!(poll_once(&mut far).await.is_pending());
        kept.set(Some((Timer::current(), far)));
        pending::<()>().await;
    }));
    assert!(poll_once(&mut armed).await.is_pending());
    drop(armed);
    let (timer, far) = kept.take().expect("it was polled");
    // Woken, and no longer driven.
    assert_eq!(timer.stats().pending, 0);
    assert!(timer.start().unwrap_err().to_string().contains("scope"));
    drop(far);
}

async fn a_scope_that_moves_to_another_place_is_driven_on() {
    let start = Instant::now();
    let mut nap = Box::pin(scope(sleep_of(ms(6))));
    assert!(poll_once(&mut nap).await.is_pending());
    let done = Rc::new(Cell::new(false));
    let tell = Rc::clone(&done);
    wit_bindgen::spawn_local(async move {
        nap.await;
        tell.set(true);
    });
    scope(sleep_until_set(&done)).await;
    assert!(start.elapsed() >= ms(6));
}

/// Made within the scope that polls it.
async fn sleep_of(delay: Duration) {
    sleep(delay).await;
}
