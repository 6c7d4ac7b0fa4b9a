//! The time that a virtual clock shows, and who moves it.

use std::time::Duration;

use crate::clock::{Steps, TimeLine, saturating_add};
use crate::fork::PerProcess;
use crate::sync::{
    AtomicU64, Condvar, Mutex, MutexGuard, Ordering, ThreadId, lock, this_thread, try_lock, wait,
};
use crate::tick::Tick;
use crate::time::{Instant, SystemTime};

/// The wall time of a virtual clock when it is made: the same in every run, and one that a
/// `DateTime` of any crate can take.
const VIRTUAL_ORIGIN: Duration = Duration::from_secs(946_684_800); // 2000-01-01 00:00:00 UTC

/// The state of a virtual clock that its timer reads.
pub(crate) struct VirtualTime {
    pub(super) line: TimeLine,
    /// Moves forward only.
    now: AtomicU64,
    movers: PerProcess<Movers>,
    wall: PerProcess<Wall>,
    pub(crate) steps: Steps,
}

/// Where the threads that move a clock meet.
struct Movers {
    moves: Mutex<Moves>,
    /// Signalled when a thread is through with moving the clock.
    moved: Condvar,
}

/// How far a virtual clock is to be moved, and by which thread. One at a time does it, so that each
/// deadline's wakers run before the next deadline's; others add to the goal and wait.
struct Moves {
    goal: Tick,
    mover: Option<ThreadId>,
}

impl Movers {
    /// Of a clock that shows `now`, and which nobody moves.
    fn at(now: Tick) -> Self {
        let moves = Mutex::new(Moves { goal: now, mover: None });
        Self { moves, moved: Condvar::new() }
    }
}

/// When the wall was set last, and to what. It goes along with the clock from there.
type Setting = (Tick, SystemTime);

/// The setting, twice, for a child process, which cannot get at what is behind a lock that was held
/// as it was forked. Locked one at a time, by who holds the lock of the [`Moves`].
struct Wall([Mutex<Setting>; 2]);

impl Wall {
    fn new(setting: Setting) -> Self {
        Self([Mutex::new(setting), Mutex::new(setting)])
    }

    /// The setting, in a child of the process whose this is.
    fn inherited(&self) -> Setting {
        *self.0.iter().find_map(try_lock).expect("no more than one was held")
    }
}

impl VirtualTime {
    pub(crate) fn new() -> Self {
        Self {
            line: TimeLine::starting_at(Instant::now()),
            now: AtomicU64::new(Tick::ORIGIN.raw()),
            movers: PerProcess::new(Movers::at(Tick::ORIGIN)),
            wall: PerProcess::new(Wall::new((
                Tick::ORIGIN,
                SystemTime::UNIX_EPOCH + VIRTUAL_ORIGIN,
            ))),
            steps: Steps::of_a_virtual_clock(),
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

    /// Of this process. In a child the clock shows what it showed as that was forked, and
    /// the thread that moved it is not there.
    fn movers(&self) -> &Movers {
        self.movers.get(|_| Movers::at(self.now()))
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        lock(&self.movers().moves)
    }

    fn wall(&self) -> &[Mutex<Setting>; 2] {
        &self.wall.get(|parents| Wall::new(parents.inherited())).0
    }

    pub(crate) fn wall_now(&self) -> SystemTime {
        let _order = self.moves();
        let (set, wall) = *lock(&self.wall()[0]);
        saturating_add(wall, self.now().since(set))
    }

    /// Sets the wall, given what it shows, without moving the clock. Returns how many wakers
    /// panicked.
    pub(crate) fn set_wall(&self, set: impl FnOnce(SystemTime) -> SystemTime) -> u64 {
        let order = self.moves();
        let now = self.now();
        let (before, wall) = *lock(&self.wall()[0]);
        let setting = (now, set(saturating_add(wall, now.since(before))));
        for place in self.wall() {
            *lock(place) = setting;
        }
        drop(order);
        self.steps.announce()
    }

    /// Whether the calling thread is moving the clock, and runs in a waker.
    pub(crate) fn is_moved_here(&self) -> bool {
        self.moves().mover == Some(this_thread())
    }

    /// Adds to the goal, and moves until there, or waits until another thread has moved there.
    ///
    /// `step` moves the clock to the goal that it is given, and returns how many timers it fired.
    /// Returns at once within a `step` of the same thread, whose mover sees the new goal.
    pub(crate) fn reach(
        &self,
        goal: impl FnOnce(Tick) -> Tick,
        mut step: impl FnMut(Tick) -> usize,
    ) -> usize {
        let me = this_thread();
        let mut moves = self.moves();
        moves.goal = goal(moves.goal).min(Tick::LAST);
        let own = moves.goal;
        while let Some(mover) = moves.mover {
            if mover == me {
                return 0;
            }
            moves = wait(&self.movers().moved, moves);
            let there = self.now() >= own;
            if moves.mover.is_none() && there {
                return 0;
            }
        }
        moves.mover = Some(me);
        let mut fired = 0;
        loop {
            let goal = moves.goal;
            drop(moves);
            fired += step(goal);
            moves = self.moves();
            if moves.goal == goal {
                break;
            }
        }
        moves.mover = None;
        drop(moves);
        self.movers().moved.notify_all();
        fired
    }

    /// Adds to the goal, and shows it at once.
    pub(crate) fn jump(&self, span: Duration) {
        let mut moves = self.moves();
        moves.goal = moves.goal.saturating_add(span).min(Tick::LAST);
        self.move_to(moves.goal);
    }

    /// The time, in order with jumps: one that comes later sees what this thread wrote before. Edge
    /// `advance`.
    pub(super) fn now_in_order(&self) -> Tick {
        drop(self.moves());
        self.now()
    }

    /// Moves forward to `tick`; stays where it is if it is past that.
    pub(crate) fn move_to(&self, tick: Tick) {
        // ORDERING: Relaxed; see `now`.
        self.now.fetch_max(tick.min(Tick::LAST).raw(), Ordering::Relaxed);
    }
}
