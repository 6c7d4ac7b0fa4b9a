//! Where the time comes from: the only module that reads a clock.

mod steps;

use std::time::{Duration, Instant, SystemTime};

pub(crate) use steps::{Key, RECHECK, Steps, Watch};

use crate::canary::{Canary, seeded};
use crate::sync::{Arc, AtomicU64, Condvar, Mutex, Ordering, ThreadId, lock, this_thread};
use crate::tick::{Tick, TimeLine};

/// The wall time of a virtual clock when it is made: the same in every run, and one that a
/// `DateTime` of any crate can take.
const VIRTUAL_ORIGIN: Duration = Duration::from_secs(946_684_800); // 2000-01-01 00:00:00 UTC

/// The clock of one timer.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// `Instant::now`, which stops while a Linux or macOS machine is suspended.
    Monotonic(Monotonic),
    /// One that runs on.
    Boottime(Boottime),
    /// A clock that stands still until it is moved.
    Virtual(Arc<VirtualTime>),
    /// The models' stand-in for the monotonic clock.
    #[cfg(all(test, tourbillon_model))]
    Model(Arc<VirtualTime>),
}

impl Clock {
    pub(crate) fn monotonic() -> Self {
        Self::Monotonic(Monotonic::new())
    }

    /// `None` where the system has no such clock.
    pub(crate) fn boottime() -> Option<Self> {
        Boottime::new().map(Self::Boottime)
    }

    pub(crate) fn now(&self) -> Tick {
        match self {
            Self::Monotonic(clock) => clock.now(),
            Self::Boottime(clock) => clock.now(),
            Self::Virtual(time) => time.now(),
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) => time.now(),
        }
    }

    /// The time, in order with those who move a virtual clock: one who moves it later sees what
    /// this thread wrote before. Edge `advance`.
    pub(crate) fn now_in_order(&self) -> Tick {
        match self {
            Self::Virtual(time) if !seeded(Canary::TurnReadsTimeUnordered) => {
                drop(lock(&time.moves));
            }
            _ => {}
        }
        self.now()
    }

    /// Whether `deadline` has come. Never true too soon.
    ///
    /// On Linux the coarse clock answers first, for a tenth of the price. It is never ahead of the
    /// exact one, so where it is past `deadline` the answer is yes. Where it is short of it by more
    /// than `LAG`, the answer is no. Should the kernel's timekeeping
    /// ever lag by more than that, the answer may be a no that ought to be a yes; it is asked
    /// before a timer is armed, and a driver that is armed with a past deadline fires at once.
    #[inline]
    pub(crate) fn has_passed(&self, deadline: Tick) -> bool {
        match self {
            Self::Monotonic(clock) => clock.has_passed(deadline),
            Self::Boottime(clock) => clock.now() >= deadline,
            Self::Virtual(time) => time.now() >= deadline,
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) => time.now() >= deadline,
        }
    }

    /// The wall time that goes with [`now`](Self::now).
    pub(crate) fn wall_now(&self) -> SystemTime {
        match self {
            Self::Monotonic(_) | Self::Boottime(_) => SystemTime::now(),
            Self::Virtual(time) => time.wall_now(),
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) => time.wall_now(),
        }
    }

    /// Who is told when the wall clock that goes with this one is set.
    pub(crate) fn steps(&self) -> &Steps {
        match self {
            Self::Monotonic(_) | Self::Boottime(_) => Steps::of_the_system(),
            Self::Virtual(time) => time.steps.current(),
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) => time.steps.current(),
        }
    }

    /// Whether the clock moves only when told to.
    pub(crate) fn is_virtual(&self) -> bool {
        matches!(self, Self::Virtual(_))
    }

    /// Whether the clock runs on in suspend, unlike the driver's parks.
    pub(crate) fn counts_suspend(&self) -> bool {
        matches!(self, Self::Boottime(_))
    }

    #[inline]
    pub(crate) fn tick(&self, instant: Instant) -> Tick {
        self.line().tick(instant)
    }

    pub(crate) fn instant(&self, tick: Tick) -> Instant {
        self.line().instant(tick)
    }

    #[inline]
    fn line(&self) -> &TimeLine {
        match self {
            Self::Monotonic(clock) => &clock.line,
            Self::Boottime(clock) => &clock.line,
            Self::Virtual(time) => &time.line,
            #[cfg(all(test, tourbillon_model))]
            Self::Model(time) => &time.line,
        }
    }
}

/// The system's monotonic clock.
#[derive(Clone, Debug)]
pub(crate) struct Monotonic {
    line: TimeLine,
    #[cfg(target_os = "linux")]
    coarse: coarse::Coarse,
}

impl Monotonic {
    fn new() -> Self {
        Self {
            line: TimeLine::starting_at(Instant::now()),
            // Read after the base, so that coarse time seems earlier than it is and never later.
            #[cfg(target_os = "linux")]
            coarse: coarse::Coarse::starting_now(),
        }
    }

    fn now(&self) -> Tick {
        self.line.tick(Instant::now()).min(Tick::LAST)
    }

    #[inline]
    fn has_passed(&self, deadline: Tick) -> bool {
        #[cfg(target_os = "linux")]
        match self.coarse.has_passed(deadline) {
            Some(answer) => answer,
            None => self.has_passed_exactly(deadline),
        }
        #[cfg(not(target_os = "linux"))]
        self.has_passed_exactly(deadline)
    }

    #[cfg_attr(target_os = "linux", cold)]
    fn has_passed_exactly(&self, deadline: Tick) -> bool {
        self.now() >= deadline
    }
}

#[cfg(target_os = "linux")]
mod coarse {
    //! `CLOCK_MONOTONIC_COARSE`: the monotonic clock as of the kernel's last tick, 1 to 10 ms ago.

    use super::read;
    use crate::tick::Tick;

    /// More than the coarse clock lags while the kernel's timekeeping runs, in nanoseconds: five of
    /// its longest steps.
    const LAG: u64 = 50_000_000;

    #[derive(Clone, Debug)]
    pub(super) struct Coarse {
        /// What to add to a reading, wrapping, to have a tick. From the exact clock's reading at
        /// [`Tick::ORIGIN`], or a little later.
        offset: u64,
    }

    impl Coarse {
        pub(super) fn starting_now() -> Self {
            Self { offset: Tick::ORIGIN.raw().wrapping_sub(read(libc::CLOCK_MONOTONIC)) }
        }

        /// `None` if the coarse clock cannot tell. Exact also before the origin, where the clock is
        /// at first, as it lags, and may be once it has stepped back.
        #[inline]
        pub(super) fn has_passed(&self, deadline: Tick) -> Option<bool> {
            let now = read(libc::CLOCK_MONOTONIC_COARSE).wrapping_add(self.offset);
            if deadline.raw() > now.wrapping_add(LAG) {
                return Some(false);
            }
            (deadline.raw() <= now).then_some(true)
        }
    }
}

/// The clock's reading in nanoseconds.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for one timespec, which is all the call asks for. It cannot
    // fail with a clock that every supported kernel has; if it did, `time` stays zero, and the
    // clock never shows a time after its origin.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// The system's clock that counts suspend.
///
/// Its instants are its own: the one at which it was made, and what it has counted since.
#[derive(Clone, Debug)]
pub(crate) struct Boottime {
    line: TimeLine,
    /// What to add to a reading, wrapping, to have a tick.
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    offset: u64,
}

#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
impl Boottime {
    #[cfg(not(target_vendor = "apple"))]
    const ID: libc::clockid_t = libc::CLOCK_BOOTTIME;
    /// Counts suspend, unlike `CLOCK_UPTIME_RAW`, and is not slewed, unlike `CLOCK_MONOTONIC`
    /// (clock_gettime(3)).
    #[cfg(target_vendor = "apple")]
    const ID: libc::clockid_t = libc::CLOCK_MONOTONIC_RAW;

    fn new() -> Option<Self> {
        let offset = Tick::ORIGIN.raw().wrapping_sub(read(Self::ID));
        Some(Self { line: TimeLine::starting_at(Instant::now()), offset })
    }

    fn now(&self) -> Tick {
        Tick::from_raw(read(Self::ID).wrapping_add(self.offset)).min(Tick::LAST)
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
impl Boottime {
    /// On Windows, instants themselves count suspend.
    fn new() -> Option<Self> {
        let line = TimeLine::starting_at(Instant::now());
        cfg!(windows).then_some(Self { line })
    }

    fn now(&self) -> Tick {
        self.line.tick(Instant::now()).min(Tick::LAST)
    }
}

/// The state of a virtual clock that its timer reads.
#[derive(Debug)]
pub(crate) struct VirtualTime {
    line: TimeLine,
    /// Moves forward only.
    now: AtomicU64,
    pub(crate) moves: Mutex<Moves>,
    /// Signalled when a thread is through with moving the clock.
    pub(crate) moved: Condvar,
    pub(crate) steps: Steps,
}

/// How far a virtual clock is to be moved, and by which thread. One at a time does it, so that each
/// deadline's wakers run before the next deadline's; others add to the goal and wait.
#[derive(Debug)]
pub(crate) struct Moves {
    pub(crate) goal: Tick,
    pub(crate) mover: Option<ThreadId>,
    /// When the wall was set last, and to what. It goes along with the clock from there.
    wall: (Tick, SystemTime),
}

impl VirtualTime {
    pub(crate) fn new() -> Self {
        Self {
            line: TimeLine::starting_at(Instant::now()),
            now: AtomicU64::new(Tick::ORIGIN.raw()),
            moves: Mutex::new(Moves {
                goal: Tick::ORIGIN,
                mover: None,
                wall: (Tick::ORIGIN, SystemTime::UNIX_EPOCH + VIRTUAL_ORIGIN),
            }),
            moved: Condvar::new(),
            steps: Steps::told(),
        }
    }

    pub(crate) fn line(&self) -> &TimeLine {
        &self.line
    }

    #[inline]
    pub(crate) fn now(&self) -> Tick {
        // ORDERING: Relaxed; where it matters whether a move is seen, a shard's lock orders the two
        // (edge `advance`). Loom `advance_races_arm`.
        Tick::from_raw(self.now.load(Ordering::Relaxed))
    }

    pub(crate) fn wall_now(&self) -> SystemTime {
        let (set, wall) = lock(&self.moves).wall;
        saturating_add(wall, self.now().since(set))
    }

    /// Sets the wall, given what it shows, without moving the clock. Returns how many wakers
    /// panicked.
    pub(crate) fn set_wall(&self, set: impl FnOnce(SystemTime) -> SystemTime) -> u64 {
        let mut moves = lock(&self.moves);
        let (now, (before, wall)) = (self.now(), moves.wall);
        moves.wall = (now, set(saturating_add(wall, now.since(before))));
        drop(moves);
        self.steps.current().announce()
    }

    /// Whether the calling thread is moving the clock, and runs in a waker.
    pub(crate) fn is_moved_here(&self) -> bool {
        lock(&self.moves).mover == Some(this_thread())
    }

    /// Moves forward to `tick`; stays where it is if it is past that.
    pub(crate) fn move_to(&self, tick: Tick) {
        // ORDERING: Relaxed; see `now`.
        self.now.fetch_max(tick.min(Tick::LAST).raw(), Ordering::Relaxed);
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

/// Notices of steps of the system's wall clock.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[derive(Debug)]
struct Notices(std::fs::File);

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Notices {
    /// Notices of the steps from now on.
    ///
    /// They are those of a timer on `CLOCK_REALTIME` that is cancelled whenever the offset of that
    /// clock from `CLOCK_MONOTONIC` changes (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET): when the
    /// clock is set, at a leap second, and when the machine resumes, since `CLOCK_MONOTONIC` stood
    /// still meanwhile (Linux, kernel/time/hrtimer.c and fs/timerfd.c: `timerfd_clock_was_set`, and
    /// from 5.15 on `timerfd_resume`).
    ///
    /// # Errors
    ///
    /// When the system has no such timers, or refuses one.
    fn subscribe() -> std::io::Result<Self> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

        // SAFETY: plain numbers.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call returned it, so it is open and nobody else's.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let never = libc::timespec { tv_sec: libc::time_t::MAX, tv_nsec: 0 };
        let timer = libc::itimerspec { it_interval: zero, it_value: never };
        let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
        let raw = fd.as_raw_fd();
        // SAFETY: `timer` is a valid itimerspec, and the old one is not asked for.
        let set =
            unsafe { libc::timerfd_settime(raw, flags, &raw const timer, std::ptr::null_mut()) };
        // A step right now is an error of this call, which has set the timer all the same.
        match (set, std::io::Error::last_os_error()) {
            (0, _) => Ok(Self(fd.into())),
            (_, error) if error.raw_os_error() == Some(libc::ECANCELED) => Ok(Self(fd.into())),
            (_, error) => Err(error),
        }
    }

    /// Waits for the next step.
    ///
    /// # Errors
    ///
    /// When there will be no more notices.
    fn wait(&mut self) -> std::io::Result<()> {
        match std::io::Read::read_exact(&mut self.0, &mut [0; 8]) {
            Err(error) if error.raw_os_error() != Some(libc::ECANCELED) => Err(error),
            _ => Ok(()),
        }
    }
}

/// No notices: this system has none.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[derive(Debug)]
struct Notices;

#[cfg(not(any(target_os = "linux", target_os = "android")))]
impl Notices {
    fn subscribe() -> std::io::Result<Self> {
        Err(std::io::ErrorKind::Unsupported.into())
    }

    fn wait(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::Unsupported.into())
    }
}
