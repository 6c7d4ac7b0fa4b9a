//! The time that a virtual clock shows, and who moves it.

use std::time::Duration;

use crate::clock::{Steps, TimeLine, saturating_add};
use crate::foreign::Running;
use crate::fork::PerProcess;
use crate::sync::{
    Arc, AtomicU64, Mutex, MutexGuard, Ordering, RwLock, ThreadId, Waiters, lock, replace,
    this_thread, try_read,
};
use crate::tick::Tick;
use crate::time::{Instant, SystemTime};

/// The wall time of a virtual clock when it is made: the same in every run, and within the range of
/// every crate's `DateTime`.
const VIRTUAL_ORIGIN: Duration = Duration::from_secs(946_684_800); // 2000-01-01 00:00:00 UTC

/// The state of a virtual clock that its timer reads.
pub(crate) struct VirtualTime {
    pub(super) line: TimeLine,
    /// Moves forward only. Not used in a node, nor are `movers`.
    now: AtomicU64,
    movers: PerProcess<Movers>,
    wall: PerProcess<Wall>,
    pub(crate) steps: Steps,
    /// Course of a node.
    course: Option<Course>,
}

/// Course of a node's clock: the nanoseconds of its leader since `since`, times `rate`, in whole
/// nanoseconds.
///
/// A node has a wheel in its own ticks: in its leader's, each delay, period and tolerance would be
/// converted and rounded. Real time has no rate, since no rate moves the instants of `std`.
struct Course {
    leader: Arc<VirtualTime>,
    since: Tick,
    /// Nanoseconds in a millisecond of the leader's.
    rate: u64,
    /// [`Self::own`], by its address: a program without a node has none of its code.
    own: fn(&Self, Tick) -> Tick,
}

impl Course {
    /// The rate of the leader itself.
    const EVEN: u64 = 1_000_000;

    /// Returns the node's tick at the leader's, rounded down: so no timer is early.
    #[inline]
    fn own(&self, tick: Tick) -> Tick {
        let nanos = tick.nanos_since(self.since);
        let rest = nanos % Self::EVEN * self.rate / Self::EVEN;
        moved(Tick::ORIGIN, (nanos / Self::EVEN).saturating_mul(self.rate).saturating_add(rest))
    }

    /// Returns the first tick of the leader's with the node at `tick` or later.
    #[inline]
    fn leaders(&self, tick: Tick) -> Tick {
        let nanos = tick.nanos_since(Tick::ORIGIN);
        let rest = (nanos % self.rate * Self::EVEN).div_ceil(self.rate);
        moved(self.since, (nanos / self.rate).saturating_mul(Self::EVEN).saturating_add(rest))
    }
}

#[inline]
fn moved(from: Tick, nanos: u64) -> Tick {
    Tick::from_raw(from.raw().saturating_add(nanos)).min(Tick::LAST)
}

/// Meeting place of the threads that move a clock.
struct Movers {
    moves: Mutex<Moves>,
    /// Signalled when a thread is through with moving the clock.
    moved: Waiters,
}

/// Goal of a virtual clock, and the thread that moves it. One thread at a time moves it, so that
/// each deadline's wakers run before the next deadline's. Others add to the goal and wait.
struct Moves {
    goal: Tick,
    mover: Option<ThreadId>,
}

impl Movers {
    /// The movers of a clock that shows `now` and that nobody moves.
    #[inline]
    fn at(now: Tick) -> Self {
        let moves = Mutex::new(Moves { goal: now, mover: None });
        Self { moves, moved: Waiters::new() }
    }
}

/// When the wall was set last, and to what. It goes along with the clock from there.
type Setting = (Tick, SystemTime);

/// The setting, twice, because a child process cannot read a place that was being written as it was
/// forked. Written one place at a time, by the thread that holds the lock of the [`Moves`].
struct Wall([RwLock<Setting>; 2]);

impl Wall {
    #[inline]
    fn new(setting: Setting) -> Self {
        Self([RwLock::new(setting), RwLock::new(setting)])
    }

    /// The setting. Called with the lock of the [`Moves`], or in a child of the process whose
    /// setting it is. There it only reads: several threads, and a fork, may meet here.
    #[inline]
    fn get(&self) -> Setting {
        *self.0.iter().find_map(try_read).expect("no more than one place is being written")
    }

    /// Called with the lock of the [`Moves`].
    #[inline]
    fn set(&self, setting: Setting) {
        for place in &self.0 {
            replace(place, setting);
        }
    }
}

impl VirtualTime {
    #[inline]
    pub(crate) fn new() -> Self {
        Self::starting_at(Instant::now(), SystemTime::UNIX_EPOCH + VIRTUAL_ORIGIN, None)
    }

    /// Makes a clock that begins at the present of `leader`, and gains so many millionths. Not of a
    /// node.
    #[inline]
    pub(crate) fn node(leader: &Arc<Self>, drift_ppm: i32) -> Self {
        let rate = Course::EVEN.checked_add_signed(drift_ppm.into()).filter(|rate| *rate > 0);
        let rate = rate.expect("a drift is more than -1,000,000 millionths");
        let order = leader.moves();
        let since = leader.now();
        let (set, wall) = leader.wall().get();
        drop(order);
        let course = Course { leader: Arc::clone(leader), since, rate, own: Course::own };
        let wall = saturating_add(wall, since.since(set));
        Self::starting_at(leader.line.instant(since), wall, Some(course))
    }

    #[inline]
    fn starting_at(base: Instant, wall: SystemTime, course: Option<Course>) -> Self {
        Self {
            line: TimeLine::starting_at(base),
            now: AtomicU64::new(Tick::ORIGIN.raw()),
            movers: PerProcess::new(Movers::at(Tick::ORIGIN)),
            wall: PerProcess::new(Wall::new((Tick::ORIGIN, wall))),
            steps: Steps::of_a_virtual_clock(),
            course,
        }
    }

    /// The clock to move: of a node, its leader.
    #[inline]
    fn leader(&self) -> &Self {
        self.course.as_ref().map_or(self, |course| &course.leader)
    }

    /// Returns the tick of this clock at one of its leader's.
    #[inline]
    pub(crate) fn own(&self, tick: Tick) -> Tick {
        self.course.as_ref().map_or(tick, |course| (course.own)(course, tick))
    }

    /// Returns the first tick of its leader's with this clock at `tick` or later.
    #[inline]
    pub(crate) fn leaders(&self, tick: Tick) -> Tick {
        self.course.as_ref().map_or(tick, |course| course.leaders(tick))
    }

    #[inline]
    pub(crate) fn line(&self) -> &TimeLine {
        &self.line
    }

    /// Not inlined, since a program with real time alone has it in each match of clocks.
    #[inline(never)]
    pub(crate) fn now(&self) -> Tick {
        // ORDERING: Relaxed; where it matters whether a move is seen, a shard's lock orders the two
        // (edge `advance`). Loom `advance_races_arm`.
        match &self.course {
            None => Tick::from_raw(self.now.load(Ordering::Relaxed)),
            Some(course) => (course.own)(course, course.leader.now()),
        }
    }

    /// Returns this process's movers. In a child the clock shows the time of the fork, and the
    /// thread that moved it is not there.
    #[inline(never)]
    fn movers(&self) -> &Movers {
        let leader = self.leader();
        leader.movers.get(|_| Movers::at(leader.now()))
    }

    #[inline]
    fn moves(&self) -> MutexGuard<'_, Moves> {
        lock(&self.movers().moves)
    }

    #[inline]
    fn wall(&self) -> &Wall {
        self.wall.get(|parents| Wall::new(parents.get()))
    }

    #[inline]
    pub(crate) fn wall_now(&self) -> SystemTime {
        let _order = self.moves();
        let (set, wall) = self.wall().get();
        saturating_add(wall, self.now().since(set))
    }

    /// Sets the wall, given the time that it shows, without moving the clock. Returns how many
    /// wakers panicked.
    #[inline]
    pub(crate) fn set_wall(&self, set: impl FnOnce(SystemTime) -> SystemTime) -> u64 {
        let order = self.moves();
        let now = self.now();
        let (before, wall) = self.wall().get();
        self.wall().set((now, set(saturating_add(wall, now.since(before)))));
        drop(order);
        self.steps.announce()
    }

    /// Returns whether the calling thread is moving the clock, and runs in a waker.
    #[inline]
    pub(crate) fn is_moved_here(&self) -> bool {
        self.moves().mover == Some(this_thread())
    }

    /// Adds to the goal, and moves until there, or waits until another thread has moved there. Not
    /// of a node.
    ///
    /// `step` moves the clock to the goal that it is given, and returns how many timers it fired.
    ///
    /// `None` if the goal is left to the thread that moves the clock. That thread sees the goal
    /// before it leaves. So it is within a `step` of the calling thread, and on any thread that
    /// [runs](Running) a waker: such a thread does not wait, because the other may be in a waker
    /// too and wait for it. (Two threads each move one clock, and their wakers move the other's.)
    #[inline]
    pub(crate) fn reach(
        &self,
        goal: impl FnOnce(Tick) -> Tick,
        mut step: impl FnMut(Tick) -> usize,
    ) -> Option<usize> {
        let mut moves = self.moves();
        moves.goal = goal(moves.goal).min(Tick::LAST);
        let own = moves.goal;
        while moves.mover.is_some() {
            if Running::is_on() {
                return None;
            }
            moves = self.movers().moved.wait(moves);
            let there = self.now() >= own;
            if moves.mover.is_none() && there {
                return Some(0);
            }
        }
        moves.mover = Some(this_thread());
        let mut fired = 0;
        loop {
            let goal = moves.goal;
            drop(moves);
            {
                // Also where no waker runs, but a subscriber.
                let _running = Running::begin();
                fired += step(goal);
            }
            moves = self.moves();
            if moves.goal == goal {
                break;
            }
        }
        moves.mover = None;
        self.movers().moved.notify_all(moves);
        Some(fired)
    }

    /// Adds to the goal, and shows it at once.
    #[inline]
    pub(crate) fn jump(&self, span: Duration) {
        let mut moves = self.moves();
        moves.goal = self.goal(moves.goal, |goal| goal.saturating_add(span));
        self.leader().move_to(moves.goal);
    }

    /// Adds to a goal by ticks of this clock, and returns it in its leader's: never an earlier one.
    #[inline]
    pub(crate) fn goal(&self, goal: Tick, add: impl FnOnce(Tick) -> Tick) -> Tick {
        self.leaders(add(self.own(goal)).min(Tick::LAST)).max(goal)
    }

    /// The time, in order with jumps: a later jump sees all writes of this thread before. Edge
    /// `advance`.
    #[inline]
    pub(super) fn now_in_order(&self) -> Tick {
        drop(self.moves());
        self.now()
    }

    /// Moves forward to `tick`; stays where it is if it is past that. Not of a node.
    #[inline]
    pub(crate) fn move_to(&self, tick: Tick) {
        // ORDERING: Relaxed; see `now`.
        self.now.fetch_max(tick.min(Tick::LAST).raw(), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    /// The places as a child finds them if it is forked while another thread writes either.
    #[test]
    fn a_wall_setting_is_there_while_either_place_is_written() {
        let time = VirtualTime::new();
        let setting = |secs| (time.now(), SystemTime::UNIX_EPOCH + Duration::from_secs(secs));
        for secs in [1, 2] {
            time.set_wall(|_| setting(secs).1);
            for place in &time.wall().0 {
                let _held = place.write().expect("no panic");
                assert_eq!(time.wall().get(), setting(secs));
            }
        }
        // Nor does a child that reads keep another from it.
        let _read = time.wall().0.each_ref().map(|place| place.read().expect("no panic"));
        assert_eq!(time.wall().get(), setting(2));
    }
}
