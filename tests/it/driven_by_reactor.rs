//! Timers that a runtime's reactor drives in the place of their thread: smol's, and one by hand.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tourbillon::Timer;
use tourbillon::driver::TurnFd;

use crate::support::*;

fn named(name: &str) -> Timer {
    Timer::builder().thread_name(name).build().expect("the options are valid")
}

/// Registers with smol's reactor.
fn on_smol(
    due: TurnFd,
) -> io::Result<impl FnMut(&mut Context<'_>) -> Poll<io::Result<()>> + Send + 'static> {
    let due = smol::Async::new(due)?;
    Ok(move |cx: &mut Context<'_>| due.poll_readable(cx))
}

#[test]
fn smols_reactor_drives_a_timer_without_a_thread() {
    let timer = named("on-smol");
    timer.drive_on(on_smol).expect("it is the first");
    smol::block_on(async {
        let tasks: Vec<_> = (0..50)
            .map(|n| {
                let timer = timer.clone();
                smol::spawn(async move {
                    for _ in 0..10 {
                        let (start, span) = (Instant::now(), ms(1) * n / 10);
                        timer.sleep(span).await;
                        assert!(start.elapsed() >= span);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
    });
    assert!(!has_thread("on-smol"));
    let again = timer.drive_on(on_smol).map_err(|error| error.kind());
    assert_eq!(again, Err(ErrorKind::AlreadyExists));
}

/// A reactor that the test runs: it reports when the test says so.
#[derive(Default)]
struct ByHand(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    has_reported: bool,
    wakes_as_it_is_polled: bool,
    panics: bool,
    polls: usize,
    waker: Option<Waker>,
}

impl ByHand {
    fn poll(state: &Mutex<State>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = state.lock().unwrap();
        state.polls += 1;
        if state.has_reported {
            state.has_reported = false;
            return Poll::Ready(Ok(()));
        }
        state.waker = Some(cx.waker().clone());
        // As tokio does in a task whose budget is spent.
        let wakes = std::mem::take(&mut state.wakes_as_it_is_polled);
        state.has_reported |= wakes;
        let panics = state.panics;
        drop(state);
        assert!(!panics, "the test's reactor panics");
        if wakes {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn drive(&self, timer: &Timer) -> io::Result<()> {
        let state = Arc::clone(&self.0);
        timer.drive_on(|_| Ok(move |cx: &mut Context<'_>| Self::poll(&state, cx)))
    }

    fn report(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.0.lock().unwrap();
        state.has_reported = true;
        change(&mut state);
        let waker = state.waker.take().expect("it is registered");
        drop(state);
        waker.wake();
    }
}

/// The waker holds what polls the reactor.
impl Drop for ByHand {
    fn drop(&mut self) {
        let waker = self.0.lock().unwrap().waker.take();
        drop(waker);
    }
}

#[test]
fn a_wake_up_while_the_reactor_is_polled_has_it_polled_again() {
    let (timer, reactor) = (named("polled"), ByHand::default());
    reactor.0.lock().unwrap().wakes_as_it_is_polled = true;
    reactor.drive(&timer).expect("it is the first");
    let state = reactor.0.lock().unwrap();
    assert_eq!((state.polls, state.has_reported), (3, false), "pending, ready, pending");
    assert_eq!(timer.stats().driver_wakeups, 1);
}

#[test]
fn a_reactor_that_panics_gives_way_to_the_thread() {
    let (timer, reactor) = (named("gives-way"), ByHand::default());
    reactor.drive(&timer).expect("it is the first");
    let counter = Counter::new();
    let _armed = armed(&timer, &counter.clone().into());
    reactor.report(|state| {
        state.has_reported = false;
        state.panics = true;
    });
    eventually("the thread fires it", || counter.wakes() == 1);
    assert!(has_thread("gives-way"));
}

/// And one that is polled late finds its deadline past without it.
#[test]
fn a_sleep_waits_for_a_reactor_that_nothing_runs() {
    let (timer, reactor) = (named("held-up"), ByHand::default());
    reactor.drive(&timer).expect("it is the first");
    let counter = Counter::new();
    let mut sleeps = [(); 2].map(|()| armed(&timer, &counter.clone().into()));
    std::thread::sleep(ms(2));
    assert_eq!(counter.wakes(), 0, "no turn has come");
    assert!(poll(&mut sleeps[0]).is_ready());
    reactor.report(|_| ());
    assert_eq!(counter.wakes(), 1);
}

#[test]
fn a_call_that_is_refused_leaves_the_thread_in_its_place() {
    let timer = named("refuses");
    type Watch = fn(&mut Context<'_>) -> Poll<io::Result<()>>;
    let refused = timer.drive_on(|_| Err::<Watch, _>(ErrorKind::OutOfMemory.into()));
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::OutOfMemory));
    let asked = Arc::new(AtomicBool::new(false));
    let waker = callback({
        let (timer, asked) = (timer.clone(), Arc::clone(&asked));
        move || {
            let refused = ByHand::default().drive(&timer).map_err(|error| error.kind());
            assert_eq!(refused, Err(ErrorKind::WouldBlock));
            asked.store(true, Ordering::SeqCst);
        }
    });
    let _armed = armed(&timer, &waker);
    eventually("the thread has woken it", || asked.load(Ordering::SeqCst));
    assert!(has_thread("refuses"));
}
