//! Models of a user's code, by loom and by shuttle, with its timers on a virtual clock: a deadline
//! and a message come in either order.
#![cfg(test)]

use std::collections::HashSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc as StdArc, Mutex as StdMutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

const LIMIT: Duration = Duration::from_secs(5);

/// Makes the state of one execution of a model.
fn virtual_timer() -> (Timer, VirtualClock) {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    (timer, clock)
}

/// End of a wait for a message, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outcome {
    Message,
    TimedOut,
}

/// Outcomes of all executions of a model.
#[derive(Clone, Default)]
struct Seen(StdArc<StdMutex<HashSet<Outcome>>>);

impl Seen {
    fn add(&self, outcome: Outcome) {
        self.0.lock().unwrap().insert(outcome);
    }

    #[track_caller]
    fn assert_both(&self) {
        let both = HashSet::from([Outcome::Message, Outcome::TimedOut]);
        assert_eq!(*self.0.lock().unwrap(), both);
    }
}

/// The code under test, with a model checker's types in place of `std`'s: a channel for one
/// message, and a wait for it. Each lock is a place where the checker switches threads, also in a
/// waker.
macro_rules! code_under_test {
    ($checker:ident) => {
        use $checker::sync::{Arc, Mutex};

        #[derive(Default)]
        struct Channel {
            state: Mutex<State>,
        }

        #[derive(Default)]
        struct State {
            is_sent: bool,
            waker: Option<Waker>,
        }

        impl Channel {
            fn send(&self) {
                let mut state = self.state.lock().unwrap();
                state.is_sent = true;
                let waker = state.waker.take();
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }

            fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
                let mut state = self.state.lock().unwrap();
                if state.is_sent {
                    return Poll::Ready(());
                }
                state.waker = Some(cx.waker().clone());
                Poll::Pending
            }

            async fn receive(&self, mut limit: Sleep) -> Outcome {
                poll_fn(|cx| {
                    if self.poll(cx).is_ready() {
                        return Poll::Ready(Outcome::Message);
                    }
                    Pin::new(&mut limit).poll(cx).map(|()| Outcome::TimedOut)
                })
                .await
            }
        }

        /// One execution: a thread waits, one sends, and one moves the clock past the limit.
        fn execute(seen: &Seen) {
            let (timer, clock) = virtual_timer();
            let channel = Arc::new(Channel::default());
            let limit = timer.sleep(LIMIT);
            let sender = $checker::thread::spawn({
                let channel = Arc::clone(&channel);
                move || channel.send()
            });
            let mover = $checker::thread::spawn(move || clock.advance(LIMIT));
            let outcome = $checker::future::block_on(channel.receive(limit));
            let fired = mover.join().unwrap();
            sender.join().unwrap();
            assert!(outcome == Outcome::Message || fired <= 1);
            assert_eq!(timer.stats().pending, 0, "nothing stays armed");
            seen.add(outcome);
        }
    };
}

mod by_loom {
    use super::*;

    code_under_test!(loom);

    #[test]
    fn a_deadline_and_a_message_come_in_either_order() {
        let seen = Seen::default();
        let of_model = seen.clone();
        loom::model(move || execute(&of_model));
        seen.assert_both();
    }
}

mod by_shuttle {
    use super::*;

    code_under_test!(shuttle);

    #[test]
    fn a_deadline_and_a_message_come_in_either_order() {
        let seen = Seen::default();
        let of_model = seen.clone();
        shuttle::check_random(move || execute(&of_model), 1_000);
        seen.assert_both();
    }
}
