//! [`WallSleep`]: a sleep until a time of day.

use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, SystemTime};

use futures_core::FusedFuture;

use crate::clock::{Clock, Key, Watch};
use crate::sleep::Sleep;
use crate::tick::Tick;

/// How often a sleep looks at a wall clock of whose steps it is not told.
const RECHECK: Duration = Duration::from_secs(30);

/// A future that completes once the wall clock shows its target.
#[must_use = "futures do nothing unless polled or awaited"]
pub struct WallSleep {
    /// Ends when the wall clock will show the target, if it is not set; or, where nobody would
    /// tell, when it is to be looked at again.
    sleep: Sleep,
    target: SystemTime,
    key: Key,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not polled since it was made or reset.
    Idle,
    /// `sleep` is set for the target. `told`: and a waker was registered under `key`.
    Waiting {
        told: bool,
    },
    Completed,
}

impl WallSleep {
    /// `sleep` never ends so far.
    pub(crate) fn new(sleep: Sleep, target: SystemTime) -> Self {
        debug_assert!(sleep.deadline_tick() == Tick::NEVER);
        Self { sleep, target, key: Key::new(), state: State::Idle }
    }

    /// The wall time at which the sleep completes.
    pub fn target(&self) -> SystemTime {
        self.target
    }

    /// Whether the wall clock shows the target or a later time, polled or not.
    pub fn is_elapsed(&self) -> bool {
        self.clock().wall_now() >= self.target
    }

    /// Moves the target, before the sleep is polled, while it waits, or after it completed.
    pub fn reset(&mut self, target: SystemTime) {
        self.target = target;
        match self.state {
            State::Idle => {}
            State::Waiting { told } => self.aim(told),
            State::Completed => self.state = State::Idle,
        }
    }

    fn clock(&self) -> &Clock {
        self.sleep.engine().clock()
    }

    /// Sets the sleep for the target, by what the wall clock shows now.
    fn aim(&mut self, told: bool) {
        let clock = self.clock();
        // In this order: what time passes in between makes the sleep end early, and look again.
        let now = clock.now();
        let left = self.target.duration_since(clock.wall_now()).unwrap_or(Duration::ZERO);
        let deadline = now.saturating_add(if told { left } else { left.min(RECHECK) });
        self.sleep.reset_to(deadline);
        self.state = State::Waiting { told };
    }

    /// Has the waker woken at steps of the wall clock, and the sleep set for the target.
    fn prepare(&mut self, waker: &Waker) {
        // Before the clock is read; see `Steps`.
        let watch = self.clock().steps().watch(self.key, waker);
        match (watch, self.state) {
            (Watch::Kept, State::Waiting { told: true }) => {}
            (Watch::Untold, State::Waiting { told: false }) => {}
            _ => self.aim(watch != Watch::Untold),
        }
    }

    /// Forgets the waker.
    fn forget(&self) {
        if self.state == (State::Waiting { told: true }) {
            self.clock().steps().forget(self.key);
        }
    }
}

impl Future for WallSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        while this.state != State::Completed {
            if this.is_elapsed() {
                this.forget();
                this.sleep.clear();
                this.state = State::Completed;
                break;
            }
            this.prepare(cx.waker());
            ready!(Pin::new(&mut this.sleep).poll(cx));
            // Time to look at the wall clock again, and to aim anew if it does not show the target.
            this.aim(this.state == (State::Waiting { told: true }));
        }
        Poll::Ready(())
    }
}

impl FusedFuture for WallSleep {
    /// Whether the sleep has completed and was not reset since.
    fn is_terminated(&self) -> bool {
        self.state == State::Completed
    }
}

impl Drop for WallSleep {
    fn drop(&mut self) {
        self.forget();
    }
}

impl fmt::Debug for WallSleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Idle => "idle",
            State::Waiting { .. } => "waiting",
            State::Completed => "completed",
        };
        f.debug_struct("WallSleep")
            .field("target", &self.target)
            .field("state", &state)
            .finish_non_exhaustive()
    }
}

// A panic can only leave a sleep between two polls, in a state that every method expects.
impl UnwindSafe for WallSleep {}
impl RefUnwindSafe for WallSleep {}

const _: () = {
    const fn unpin_send_sync<T: Unpin + Send + Sync + 'static>() {}
    unpin_send_sync::<WallSleep>();
};
