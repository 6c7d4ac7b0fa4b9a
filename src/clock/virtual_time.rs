//! The time that a virtual clock shows, and who moves it.

use std::time::{Duration, Instant, SystemTime};

use crate::canary::{Canary, seeded};
use crate::clock::{Steps, TimeLine, saturating_add};
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, ThreadId, lock, this_thread, wait};
use crate::tick::Tick;

/// The wall time of a virtual clock when it is made: the same in every run, and one that a
/// `DateTime` of any crate can take.
const VIRTUAL_ORIGIN: Duration = Duration::from_secs(946_684_800); // 2000-01-01 00:00:00 UTC

/// The state of a virtual clock that its timer reads.
pub(crate) struct VirtualTime {
    pub(super) line: TimeLine,
    /// Moves forward only.
    now: AtomicU64,
    moves: Mutex<Moves>,
    /// Signalled when a thread is through with moving the clock.
    moved: Condvar,
    pub(crate) steps: Steps,
}

/// How far a virtual clock is to be moved, and by which thread. One at a time does it, so that each
/// deadline's wakers run before the next deadline's; others add to the goal and wait.
struct Moves {
    goal: Tick,
    mover: Option<ThreadId>,
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
        let mut moves = lock(&self.moves);
        moves.goal = goal(moves.goal).min(Tick::LAST);
        let own = moves.goal;
        while let Some(mover) = moves.mover {
            if mover == me {
                return 0;
            }
            moves = wait(&self.moved, moves);
            let there = self.now() >= own || seeded(Canary::AdvanceHeedsOwnGoalOnly);
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
            moves = lock(&self.moves);
            if moves.goal == goal || seeded(Canary::AdvanceHeedsOwnGoalOnly) {
                break;
            }
        }
        moves.mover = None;
        drop(moves);
        self.moved.notify_all();
        fired
    }

    /// Adds to the goal, and shows it at once.
    pub(crate) fn jump(&self, span: Duration) {
        let mut moves = lock(&self.moves);
        moves.goal = moves.goal.saturating_add(span).min(Tick::LAST);
        self.move_to(moves.goal);
    }

    /// The time, in order with jumps: one that comes later sees what this thread wrote before. Edge
    /// `advance`.
    pub(super) fn now_in_order(&self) -> Tick {
        if !seeded(Canary::TurnReadsTimeUnordered) {
            drop(lock(&self.moves));
        }
        self.now()
    }

    /// Moves forward to `tick`; stays where it is if it is past that.
    pub(crate) fn move_to(&self, tick: Tick) {
        // ORDERING: Relaxed; see `now`.
        self.now.fetch_max(tick.min(Tick::LAST).raw(), Ordering::Relaxed);
    }
}
