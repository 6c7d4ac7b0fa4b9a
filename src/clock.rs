//! Clocks: the only module that reads the time.
//!
//! # Readings that belong together
//!
//! A thread may be held between any two readings, for as long as something else has the processor.
//! The table has all pairs in the crate, the means that hold each together, and the effect that a
//! held thread has nevertheless. No timer is ever early for it: where two readings cannot be one,
//! their order, or the choice between them, makes a clock seem earlier than it is, or a sleep look
//! again.
//!
//! | pair | where | held by | a held thread |
//! |---|---|---|---|
//! | an instant, and `CLOCK_MONOTONIC` for the coarse clock | `Coarse::starting_now` | one reading, checked between two of that clock | changes nothing |
//! | an instant, and `performance.now()` in JavaScript | `Coarse::starting_now` there | order: the instant first | the clock seems that much earlier for life |
//! | an instant, and the clock that counts suspend | `Boottime::new` | the later reading of the closest of eight pairs | if held in all eight: the clock seems that much earlier for life |
//! | the monotonic clock and the wall, to see steps | `Both::now` | the closest of eight pairs | if held in all eight: wall sleeps look once more, or a step that small is not seen |
//! | the base of a runtime's clock, and its wall | `RuntimeClock::new` | order: the base first | makes the wall as early for life |
//! | the base of a virtual clock, its tick and its wall | `VirtualTime::new` | one reading; the others are constants | changes nothing |
//! | the base of a node, its clock's tick and its wall | `VirtualTime::node` | the movers' lock, and one reading | changes nothing |
//! | the tick and the wall that a virtual wall is set at | `VirtualTime::set_wall`, `wall_now` | the movers' lock; each reads the tick once | changes nothing |
//! | the values that a child process continues with | `Engine::current`, `PerProcess::get` | copies of the parent's; no clock is read | changes nothing |
//! | the present and the wall, for how long a wall sleep waits | `WallSleep::aim` | order: the present first | makes the sleep look, and aim, once more before its target |
//! | the wall, and from when on its steps are noticed | `Steps::watch` before a reading, `Notices::subscribe` before `Both::now` | order: notices first | may cause a needless look |
//! | the time of a turn, and of each shard and lateness in it | `Engine::pass` | one reading for all | makes the turn as late as it was held |
//! | the birth of an engine and of its wheels | `Engine::new` | one reading | changes nothing |
//! | the present and a delay | `Sleep::after`, `reset_after` | one reading | makes the deadline as late |
//! | the present, and the start of a wait of a given length | `Parker::park`, `TimerFd::set`, a browser's `setTimeout`, `Driver::max_wait`, the pacer's naps | nothing; the next wait is reckoned anew | makes this one end as late as it was held |
//! | the wall time that a cron backlog was found at, and its delivery | `Ticks::poll_tick` of tourbillon-cron | a wall that was set back in between is waited for | changes nothing |
//! | the beginning and the end of a pass, or of a call, for lag and length | `Pass::report`, `Calls` | the distance is the measured value | counts as part of it |

mod both;
mod notices;
mod pair;
#[cfg_attr(
    all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"),
    path = "clock/runtime/none.rs"
)]
mod runtime;
mod steps;
mod system;
mod time_line;
mod virtual_time;

use std::fmt;
use std::time::Duration;

use runtime::RuntimeClock;
pub(crate) use steps::{Need, RECHECK, Registration, Steps, Watch};
use system::{Boottime, Monotonic};
pub(crate) use time_line::TimeLine;
pub(crate) use virtual_time::VirtualTime;

use crate::deadline::Deadline;
use crate::sync::Arc;
use crate::tick::{Distance, Tick};
use crate::time::{Instant, SystemTime};

/// The clock of one timer.
#[derive(Clone)]
pub(crate) enum Clock {
    /// `Instant::now`, which stops while a Linux or macOS machine is suspended.
    Monotonic(Monotonic),
    /// A clock of few timers.
    Rare(Rare),
    /// A clock that stands still until it is moved.
    Virtual(Arc<VirtualTime>),
    /// The models' stand-in for the monotonic clock.
    #[cfg(all(test, tourbillon_model))]
    Model(Arc<VirtualTime>),
    /// Stand-in for the clock that counts suspend.
    #[cfg(all(test, tourbillon_model))]
    ModelBoottime(Arc<VirtualTime>),
}

/// A clock that few timers run on. In one variant of [`Clock`]: each further variant would cost
/// every sleep an instruction or two.
#[derive(Clone)]
pub(crate) enum Rare {
    /// Clock that counts suspend.
    Boottime(Boottime),
    /// The clock of the runtime whose task is the driver.
    Runtime(RuntimeClock),
}

impl Rare {
    #[cold]
    fn now(&self) -> Tick {
        match self {
            Self::Boottime(clock) => clock.now(),
            Self::Runtime(clock) => clock.now(),
        }
    }

    fn line(&self) -> &TimeLine {
        match self {
            Self::Boottime(clock) => &clock.line,
            Self::Runtime(clock) => &clock.line,
        }
    }
}

impl Clock {
    /// True where the clock of [`monotonic`](Self::monotonic) counts suspend.
    pub(crate) const MONOTONIC_COUNTS_SUSPEND: bool =
        cfg!(any(windows, target_os = "freebsd", target_os = "openbsd"));

    pub(crate) fn monotonic() -> Self {
        Self::Monotonic(Monotonic::new())
    }

    /// `None` where the system has no such clock.
    pub(crate) fn boottime() -> Option<Self> {
        Boottime::new().map(|clock| Self::Rare(Rare::Boottime(clock)))
    }

    /// Shows the time that `now` returns. `now` is foreign code, and is called with no lock of a
    /// shard held.
    #[cfg(not(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen")))]
    pub(crate) fn of_runtime(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self::Rare(Rare::Runtime(RuntimeClock::new(Box::new(now))))
    }

    pub(crate) fn now(&self) -> Tick {
        match self {
            Self::Monotonic(clock) => clock.now(),
            Self::Rare(clock) => clock.now(),
            Self::Virtual(time) => time.now(),
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) | Self::ModelBoottime(time) => time.now(),
        }
    }

    /// The time as of the last reading of any timer's clock, for an event loop's driver.
    #[cfg(all(target_family = "wasm", target_os = "unknown", feature = "wasm-bindgen"))]
    pub(crate) fn last_reading(&self) -> Tick {
        match self {
            Self::Monotonic(clock) => clock.last_reading(),
            _ => self.now(),
        }
    }

    /// The time, in order with jumps of a virtual clock. Edge `advance`.
    pub(crate) fn now_in_order(&self) -> Tick {
        match self {
            Self::Virtual(time) => time.now_in_order(),
            _ => self.now(),
        }
    }

    /// Returns whether `deadline` has come. Never true too soon.
    ///
    /// On Linux the coarse clock answers first: reading it takes an eighth of the time. It is never
    /// ahead of the exact one, so where it is past `deadline` the answer is yes. Where it is short
    /// of it by more than it lags, the answer is no: seven steps of the clock, whose length the
    /// kernel reports (4 ms, 28 ms in all, where it ticks 250 times a second). Should the kernel's
    /// timekeeping be held up for longer, this reports a deadline that has just passed as pending.
    /// It is asked before a timer is armed, and a driver that is armed with a past deadline fires
    /// at once.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Tick) -> bool {
        match self {
            Self::Monotonic(clock) => clock.has_passed(deadline),
            Self::Rare(clock) => clock.now() >= deadline,
            Self::Virtual(time) => time.now() >= deadline,
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) | Self::ModelBoottime(time) => time.now() >= deadline,
        }
    }

    /// Returns the time until `deadline`, plus at most the lag of the coarse clock.
    pub(crate) fn until(&self, deadline: Tick) -> Duration {
        deadline.since(match self {
            Self::Monotonic(clock) => clock.coarse().unwrap_or_else(|| clock.now()),
            _ => self.now(),
        })
    }

    /// The time by the coarse clock, cheaper to read and lagging; `None` where there is none.
    pub(crate) fn coarse(&self) -> Option<Tick> {
        match self {
            Self::Monotonic(clock) => clock.coarse(),
            _ => None,
        }
    }

    /// The wall time that goes with [`now`](Self::now).
    pub(crate) fn wall_now(&self) -> SystemTime {
        match self {
            Self::Monotonic(_) | Self::Rare(Rare::Boottime(_)) => SystemTime::now(),
            Self::Rare(Rare::Runtime(clock)) => clock.wall_now(),
            Self::Virtual(time) => time.wall_now(),
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) | Self::ModelBoottime(time) => time.wall_now(),
        }
    }

    /// The steps of the wall clock that goes with this one.
    pub(crate) fn steps(&self) -> &Steps {
        match self {
            Self::Monotonic(_) | Self::Rare(Rare::Boottime(_)) => Steps::of_the_system(),
            Self::Rare(Rare::Runtime(clock)) => clock.steps(),
            Self::Virtual(time) => &time.steps,
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) | Self::ModelBoottime(time) => &time.steps,
        }
    }

    /// The time, if this is a virtual clock that shows `deadline` or later, unless the calling
    /// thread moves it.
    #[inline]
    pub(crate) fn moved_past(&self, deadline: Tick) -> Option<Tick> {
        let Self::Virtual(time) = self else { return None };
        let now = time.now();
        if deadline > now || time.is_moved_here() {
            return None;
        }
        Some(now)
    }

    /// Returns whether the clock moves only when it is moved.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// Returns whether the clock moves while a thread does nothing but read it. Not in browsers,
    /// where that thread is the page's.
    #[inline]
    pub(crate) fn moves_while_read(&self) -> bool {
        !cfg!(all(target_family = "wasm", target_os = "unknown"))
            && matches!(self, Self::Monotonic(_) | Self::Rare(Rare::Boottime(_)))
    }

    /// Returns whether the clock counts suspend, unlike the driver's parks.
    pub(crate) fn counts_suspend(&self) -> bool {
        match self {
            Self::Monotonic(_) => Self::MONOTONIC_COUNTS_SUSPEND,
            Self::Rare(Rare::Boottime(_)) => true,
            #[cfg(all(test, tourbillon_model))]
            Self::ModelBoottime(_) => true,
            _ => false,
        }
    }

    #[inline]
    pub(crate) fn tick(&self, instant: Instant) -> Tick {
        self.line().tick(instant)
    }

    /// Returns the tick of `deadline`; [`Tick::NEVER`] if there is none.
    #[inline]
    pub(crate) fn tick_of(&self, deadline: Deadline) -> Tick {
        deadline.instant().map_or(Tick::NEVER, |instant| self.tick(instant))
    }

    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        self.line().instant(tick)
    }

    /// `deadline` for `Debug` output: how far off it is.
    pub(crate) fn show(&self, deadline: Tick) -> Distance {
        deadline.distance_from(|| self.now())
    }

    /// `target` for `Debug` output: how far off it is by the wall clock.
    pub(crate) fn show_wall(&self, target: SystemTime) -> Distance {
        match target.duration_since(self.wall_now()) {
            Ok(ahead) => Distance::Ahead(ahead),
            Err(error) => Distance::Ago(error.duration()),
        }
    }

    #[inline]
    fn line(&self) -> &TimeLine {
        match self {
            Self::Monotonic(clock) => &clock.line,
            Self::Rare(clock) => clock.line(),
            Self::Virtual(time) => &time.line,
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) | Self::ModelBoottime(time) => &time.line,
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Monotonic(_) => "monotonic",
            Self::Rare(Rare::Boottime(_)) => "boottime",
            Self::Rare(Rare::Runtime(_)) => "a runtime's",
            Self::Virtual(_) => "virtual",
            #[cfg(all(test, tourbillon_model))]
            Self::Model(_) | Self::ModelBoottime(_) => "model",
        })
    }
}

/// `wall + span`, or close to the last time that the platform can represent.
pub(crate) fn saturating_add(wall: SystemTime, span: Duration) -> SystemTime {
    let (mut sum, mut step) = (wall, span);
    while !step.is_zero() {
        match sum.checked_add(step) {
            Some(later) if step == span => return later,
            Some(later) => sum = later,
            None => {}
        }
        step /= 2;
    }
    sum
}
