//! [`Driver`]: turns the wheel from your own loop.

use std::fmt;
use std::time::Instant;

use crate::engine::{Plan, WakeBatch};
use crate::tick::Tick;
use crate::timer::Timer;

/// Turns a timer's wheel from your own loop, instead of a driver thread.
///
/// Event loops know this as the pair "find timer" and "expire timers" (nginx): turn, learn when the
/// next timer is due, wait until then in the loop's own way, turn again. If a thread arms a timer
/// that is earlier than the turn reported, that thread calls the hook given to
/// [`Builder::build_manual`](crate::Builder::build_manual), which should end the wait.
///
/// Dropping the driver loses no timer, but nothing fires any more: a sleep then completes only in a
/// poll after its deadline.
///
/// # Examples
///
/// ```
/// use std::sync::mpsc;
/// use std::time::{Duration, Instant};
///
/// use tourbillon::Timer;
///
/// let (events, inbox) = mpsc::channel();
/// let done = events.clone();
/// let hook = move || events.send("an earlier timer").unwrap();
/// let (timer, mut driver) = Timer::builder().build_manual(hook)?;
///
/// // Another part of the program sleeps on another executor.
/// let sleeper = std::thread::spawn(move || {
///     pollster::block_on(timer.sleep(Duration::from_millis(2)));
///     done.send("done").unwrap();
/// });
///
/// loop {
///     // Stands for `select`, `epoll_wait` and the like: wait for events, but not too long.
///     let event = match driver.turn().next {
///         Some(next) => inbox.recv_timeout(next.saturating_duration_since(Instant::now())).ok(),
///         None => inbox.recv().ok(),
///     };
///     if event == Some("done") {
///         break;
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
    /// Not later than the earliest pending deadline. It may be earlier if the earliest timer was
    /// cancelled or reset to later. Then the next turn fires nothing, and reports a later instant.
    pub next: Option<Instant>,
}

impl Driver {
    pub(crate) fn new(timer: Timer) -> Self {
        Self { timer, batch: WakeBatch::new() }
    }

    /// Fires every timer that is due, in batches and with no lock held, and returns what comes
    /// next.
    ///
    /// After it, the hook is called once if a timer is armed that is earlier than [`Turn::next`],
    /// or any timer if that is `None`. Turn before each wait; a turn with nothing due costs a lock
    /// per shard.
    ///
    /// A waker that panics does not keep others from being woken. The panic is caught, and counted
    /// in [`Stats::waker_panics`](crate::Stats::waker_panics). A waker must not block on a sleep of
    /// this timer: the turn would not end.
    pub fn turn(&mut self) -> Turn {
        let engine = self.timer.engine();
        let mut fired = 0;
        loop {
            engine.alarm().begin_scan();
            // A jump of the clock is followed by a reading of the alarm: if this does not see the
            // new time, the jump sees the scan announced. Loom `jump_races_arm_and_turn`.
            let now = engine.clock().now_in_order();
            let pass = engine.pass(now, &mut self.batch);
            pass.report(now, engine.clock(), None);
            fired += pass.fired;
            let next = pass.next;
            let plan = if next == Tick::NEVER { Plan::Park } else { Plan::ParkUntil(next) };
            // If it does not stand, something earlier was armed meanwhile, perhaps by a waker.
            if engine.alarm().commit(plan) {
                let next = (next != Tick::NEVER).then(|| engine.clock().instant(next));
                return Turn { fired, next };
            }
        }
    }

    /// When the next timer is due; `None` if nothing is pending.
    ///
    /// Not later than the earliest pending deadline, and earlier only if that timer was reset to
    /// later. Unlike a [`turn`](Self::turn), it does not arrange a call of the hook for timers that
    /// are armed afterwards. It walks a slot of each shard under its lock.
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
