//! [`Driver`]: the wheels, turned from a loop of the user's own.

use std::fmt;
use std::time::Instant;

use crate::engine::{Promise, WakeBatch};
use crate::tick::Tick;
use crate::timer::Timer;

/// Turns a timer's wheels from the user's own loop, in the place of a driver thread.
///
/// This is the pair that event loops know as "find timer" and "expire timers" (nginx): turn, learn
/// when the next timer is due, wait for that long in whatever way the loop waits, turn again. The
/// hook given to [`Builder::build_manual`](crate::Builder::build_manual) is called from whichever
/// thread arms a timer that is earlier than the turn reported; it should end that wait.
///
/// Dropping the driver loses no timer, but nothing fires any more: a sleep then completes only
/// when it is polled after its deadline for some other reason.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::{Duration, Instant};
///
/// use tourbillon::Timer;
///
/// let (unpark, unparked) = mpsc::channel();
/// let (timer, mut driver) = Timer::builder().build_manual(move || unpark.send(()).unwrap())?;
///
/// // Another part of the program sleeps on an executor of its own.
/// let sleep = timer.sleep(Duration::from_millis(2));
/// let sleeper = std::thread::spawn(move || pollster::block_on(sleep));
///
/// let mut fired = 0;
/// while fired == 0 {
///     let turn = driver.turn();
///     fired += turn.fired;
///     // Stands for `select`, `epoll_wait` and the like: wait for events, but not too long.
///     match turn.next {
///         Some(next) => drop(unparked.recv_timeout(next - Instant::now())),
///         None if fired == 0 => unparked.recv().unwrap(),
///         None => {}
///     }
/// }
/// sleeper.join().unwrap();
/// # std::io::Result::Ok(())
/// ```
pub struct Driver {
    timer: Timer,
    batch: WakeBatch,
}

/// What a [`Driver::turn`] did, and what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// Timers fired, each with its waker woken.
    pub fired: usize,
    /// When to turn again at the latest; `None` if nothing is pending.
    ///
    /// Not later than the earliest pending deadline. It may be earlier, where the earliest timer
    /// was cancelled or reset to later: then the next turn finds nothing to fire, and knows more.
    pub next: Option<Instant>,
}

impl Driver {
    pub(crate) fn new(timer: Timer) -> Self {
        Self { timer, batch: WakeBatch::new() }
    }

    /// Fires every timer that is due, in batches and with no lock held, and says what comes next.
    ///
    /// From then on, the unpark hook is called once as soon as a timer is armed that is earlier
    /// than [`Turn::next`], or any if that is `None`. Turn before each wait; a turn with nothing
    /// due costs a lock per shard.
    ///
    /// A waker that panics keeps no other from being woken: the panic is caught, and counted in
    /// [`Stats::waker_panics`](crate::Stats::waker_panics).
    pub fn turn(&mut self) -> Turn {
        let engine = self.timer.engine();
        let mut fired = 0;
        loop {
            engine.alarm().begin_scan();
            // Whoever makes the clock jump looks at the alarm afterwards: if this does not see the
            // new time, that one sees the scan announced. Loom `jump_races_arm_and_turn`.
            let now = engine.clock().now_in_order();
            let pass = engine.pass(now, &mut self.batch);
            pass.report(now, engine.clock(), None);
            fired += pass.fired;
            let next = pass.next;
            let promise = if next == Tick::NEVER { Promise::WhenCalled } else { Promise::By(next) };
            // If it does not stand, something earlier was armed meanwhile, perhaps by a waker.
            if engine.alarm().commit(promise) {
                let next = (next != Tick::NEVER).then(|| engine.clock().instant(next));
                return Turn { fired, next };
            }
        }
    }

    /// When the next timer is due; `None` if nothing is pending.
    ///
    /// Not later than the earliest pending deadline; earlier only where that timer was reset to
    /// later. A look only: unlike after a [`turn`](Self::turn), nobody promises to call the hook
    /// for what is armed afterwards, and it walks a slot of each shard under its lock.
    pub fn next_deadline(&self) -> Option<Instant> {
        let engine = self.timer.engine();
        engine.exact_earliest().map(|next| engine.clock().instant(next))
    }

    /// A handle to the timer that this driver turns.
    pub fn timer(&self) -> &Timer {
        &self.timer
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("timer", &self.timer).finish_non_exhaustive()
    }
}
