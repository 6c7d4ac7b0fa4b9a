//! The time that a virtual clock shows, and who moves it.

use std::time::Duration;

use crate::clock::{Steps, TimeLine, saturating_add};
use crate::foreign::Running;
use crate::fork::PerProcess;
use crate::sync::{
    AtomicU64, Mutex, MutexGuard, Ordering, RwLock, ThreadId, Waiters, lock, replace, this_thread,
    try_read,
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

/// Meeting place of the threads that move a clock.
struct Movers {
    moves: Mutex<Moves>,
    /// Signalled when a thread is through with moving the clock.
    moved: Waiters,
}

/// Goal of a virtual clock, and the thread that moves it. One at a time does it, so that each
/// deadline's wakers run before the next deadline's; others add to the goal and wait.
struct Moves {
    goal: Tick,
    mover: Option<ThreadId>,
}

impl Movers {
    /// Makes those of a clock that shows `now`, and which nobody moves.
    fn at(now: Tick) -> Self {
        let moves = Mutex::new(Moves { goal: now, mover: None });
        Self { moves, moved: Waiters::new() }
    }
}

/// When the wall was set last, and to what. It goes along with the clock from there.
type Setting = (Tick, SystemTime);

/// The setting, twice, for a child process, which cannot get at what was being written as it was
/// forked. Written one place at a time, by the thread that holds the lock of the [`Moves`].
struct Wall([RwLock<Setting>; 2]);

impl Wall {
    fn new(setting: Setting) -> Self {
        Self([RwLock::new(setting), RwLock::new(setting)])
    }

    /// The setting. Called with the lock of the [`Moves`], or in a child of the process whose
    /// setting it is. There it only reads, as several threads, and a fork, may meet here.
    fn get(&self) -> Setting {
        *self.0.iter().find_map(try_read).expect("no more than one place is being written")
    }

    /// Called with the lock of the [`Moves`].
    fn set(&self, setting: Setting) {
        for place in &self.0 {
            replace(place, setting);
        }
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

    /// Returns those of this process. In a child the clock shows what it showed as that was forked,
    /// and the thread that moved it is not there.
    fn movers(&self) -> &Movers {
        self.movers.get(|_| Movers::at(self.now()))
    }

    fn moves(&self) -> MutexGuard<'_, Moves> {
        lock(&self.movers().moves)
    }

    fn wall(&self) -> &Wall {
        self.wall.get(|parents| Wall::new(parents.get()))
    }

    pub(crate) fn wall_now(&self) -> SystemTime {
        let _order = self.moves();
        let (set, wall) = self.wall().get();
        saturating_add(wall, self.now().since(set))
    }

    /// Sets the wall, given what it shows, without moving the clock. Returns how many wakers
    /// panicked.
    pub(crate) fn set_wall(&self, set: impl FnOnce(SystemTime) -> SystemTime) -> u64 {
        let order = self.moves();
        let now = self.now();
        let (before, wall) = self.wall().get();
        self.wall().set((now, set(saturating_add(wall, now.since(before)))));
        drop(order);
        self.steps.announce()
    }

    /// Returns whether the calling thread is moving the clock, and runs in a waker.
    pub(crate) fn is_moved_here(&self) -> bool {
        self.moves().mover == Some(this_thread())
    }

    /// Adds to the goal, and moves until there, or waits until another thread has moved there.
    ///
    /// `step` moves the clock to the goal that it is given, and returns how many timers it fired.
    ///
    /// `None` if the goal is left to the thread that moves the clock, which sees it before it
    /// leaves: within a `step` of the calling thread, and on any thread that [runs](Running) a
    /// waker. That one does not wait for another, which may be in a waker too and wait for it: as
    /// two threads do that each move one clock, and whose wakers move the other's.
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

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;

    /// What a child finds if it is forked while another thread writes either place.
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
