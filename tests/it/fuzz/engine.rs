//! The whole engine on a virtual clock, through the public interface, against a model: a list of
//! deadlines in the order of their setting, and with tolerances of the timer and of its sleeps.
//!
//! Wakers act as well: each carries a step of its own, and may make, poll, reset and drop other
//! sleeps and move the clock.
//!
//! The fuzz target of this name is built of this file, too.

#[path = "../../../src/fuzz/bytes.rs"]
pub(crate) mod bytes;
#[path = "window.rs"]
mod window;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use futures_core::FusedFuture;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{Sleep, Timer};

use bytes::Bytes;
use window::{LAST, NEVER, Rule, Time, Window, in_range, nanos};

/// More than two batches of wakers.
const SLOTS: usize = 80;

/// Steps that wakers may take in one run: they may have each other woken without end.
const FUEL: u32 = 100;

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
    /// Wakers that were not dropped yet.
    static SIGNALS: Cell<usize> = const { Cell::new(0) };
}

#[derive(Clone, Debug)]
enum Step {
    Sleep {
        slot: usize,
        delay: Duration,
    },
    SleepUntil {
        slot: usize,
        distance: Time,
    },
    Never {
        slot: usize,
    },
    Poll {
        slot: usize,
    },
    PollAnew {
        slot: usize,
        then: Option<Box<Step>>,
    },
    Burst {
        slot: usize,
        delay: Duration,
        count: usize,
    },
    Reset {
        slot: usize,
        distance: Time,
    },
    ResetAfter {
        slot: usize,
        delay: Duration,
    },
    Tolerate {
        slot: usize,
        tolerance: Duration,
    },
    Drop {
        slot: usize,
    },
    Advance {
        span: Duration,
    },
    AdvanceToNext,
    Jump {
        span: Duration,
    },
    /// Of a waker only.
    Panic,
}

impl Step {
    fn read(bytes: &mut Bytes<'_>, depth: u32) -> Option<Self> {
        let kind = bytes.next()? % 32;
        let slot = |bytes: &mut Bytes<'_>| usize::from(bytes.byte()) % SLOTS;
        Some(match kind {
            0..=3 => Self::Sleep { slot: slot(bytes), delay: delay(bytes) },
            4 => Self::SleepUntil { slot: slot(bytes), distance: distance(bytes) },
            5 => Self::Never { slot: slot(bytes) },
            6..=8 => Self::Poll { slot: slot(bytes) },
            9..=12 => {
                let slot = slot(bytes);
                let then = if depth < 3 { Self::read(bytes, depth + 1) } else { None };
                Self::PollAnew { slot, then: then.map(Box::new) }
            }
            13..=15 => {
                let slot = slot(bytes);
                Self::Burst { slot, delay: delay(bytes), count: usize::from(bytes.byte() % 48) }
            }
            16..=19 => Self::Reset { slot: slot(bytes), distance: distance(bytes) },
            20 => Self::Tolerate { slot: slot(bytes), tolerance: delay(bytes) },
            21 | 22 => Self::ResetAfter { slot: slot(bytes), delay: delay(bytes) },
            23 | 24 => Self::Drop { slot: slot(bytes) },
            25 | 26 => Self::Advance { span: delay(bytes) },
            27..=29 => Self::AdvanceToNext,
            30 => Self::Jump { span: delay(bytes) },
            _ => Self::Panic,
        })
    }
}

fn delay(bytes: &mut Bytes<'_>) -> Duration {
    match bytes.magnitude() {
        63 => Duration::MAX,
        nanos => Duration::from_nanos(nanos),
    }
}

/// The tolerance of the timer.
fn rule(bytes: &mut Bytes<'_>) -> Rule {
    match bytes.byte() % 4 {
        0 | 1 => Rule::Fixed(Duration::ZERO),
        2 => Rule::Fixed(delay(bytes)),
        _ => Rule::Share { percent: bytes.byte().into(), at_most: delay(bytes) },
    }
}

fn distance(bytes: &mut Bytes<'_>) -> Time {
    match Time::from(bytes.magnitude()) {
        small @ 48..=63 => 47 - small,
        distance => distance,
    }
}

/// A waker, one sleep's at most.
struct Signal {
    number: usize,
    then: Option<Step>,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        woken(self.number);
        if let Some(step) = &self.then {
            let fuel = with(|world| {
                world.fuel = world.fuel.saturating_sub(1);
                world.fuel
            });
            if fuel == 0 {
                return;
            }
            if matches!(step, Step::Panic) {
                with(|world| world.panics += 1);
                // Passes by the panic hook, which ends a fuzzer's process.
                resume_unwind(Box::new(()));
            }
            perform(step);
        }
    }
}

impl Drop for Signal {
    fn drop(&mut self) {
        SIGNALS.set(SIGNALS.get() - 1);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unarmed,
    /// Polled while it had no deadline: the next arms it.
    Kept,
    /// Armed, and so many deadlines had been set before.
    Queued(u64),
    /// Taken out of the wheel to be woken.
    Fired,
    Completed,
}

struct Slot {
    /// Absent while it is being polled or reset.
    sleep: Option<Sleep>,
    window: Window,
    state: State,
    signal: Arc<Signal>,
    /// Whether it was due in the future when that was set.
    ahead: bool,
}

/// A timer that has fired and whose waker has not been woken yet.
#[derive(Clone, Copy, Debug)]
struct Taken {
    due: Time,
    order: u64,
    ahead: bool,
    signal: usize,
}

/// A call that may run wakers, and the wake-ups that it has taken.
#[derive(Debug)]
struct Frame {
    call: Call,
    taken: Vec<Taken>,
    fired: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Goes from deadline to deadline.
    Move,
    /// Fires one sleep, set by it to the present or the past.
    Reset,
    /// Fires nothing.
    Quiet,
}

struct World {
    clock: VirtualClock,
    timer: Timer,
    rule: Rule,
    base: Instant,
    now: Time,
    /// Time that the clock has been asked to reach.
    goal: Time,
    slots: [Option<Slot>; SLOTS],
    frames: Vec<Frame>,
    orders: u64,
    signals: usize,
    fuel: u32,
    armed: u64,
    fired: u64,
    cancelled: u64,
    panics: u64,
}

/// Runs `inspect` on the world. Nothing in it may run a waker.
fn with<R>(inspect: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(|world| inspect(world.as_mut().expect("made by `engine`")))
}

impl World {
    fn new(rule: Rule) -> Self {
        let clock = VirtualClock::new();
        // One thread arms in one shard only, so two are as good as more.
        let builder = Timer::builder().virtual_clock(&clock).shards(2);
        let timer = builder.tolerance(rule.tolerance()).build().expect("the clock is new");
        Self {
            base: clock.now(),
            clock,
            timer,
            rule,
            now: 0,
            goal: 0,
            slots: [const { None }; SLOTS],
            frames: Vec::new(),
            orders: 0,
            signals: 0,
            fuel: FUEL,
            armed: 0,
            fired: 0,
            cancelled: 0,
            panics: 0,
        }
    }

    fn order(&mut self) -> u64 {
        self.orders += 1;
        self.orders
    }

    fn signal(&mut self, then: Option<Step>) -> Arc<Signal> {
        self.signals += 1;
        SIGNALS.set(SIGNALS.get() + 1);
        Arc::new(Signal { number: self.signals, then })
    }

    fn instant(&self, time: Time) -> Instant {
        let span = time.unsigned_abs();
        let span = Duration::new((span / 1_000_000_000) as u64, (span % 1_000_000_000) as u32);
        if time < 0 { self.base - span } else { self.base + span }
    }

    fn after(&self, delay: Duration) -> Time {
        in_range(self.now + nanos(delay))
    }

    /// The window of a sleep that is given this deadline, so far off, and that had `before`.
    fn window(&self, deadline: Time, delay: Time, before: Option<Window>) -> Window {
        match before {
            Some(window) if window.is_own => Window { deadline, ..window },
            _ => Window { deadline, tolerance: self.rule.of(delay), is_own: false },
        }
    }

    /// Adds to how far the clock is to go.
    fn move_goal(&mut self, goal: Time) -> VirtualClock {
        self.goal = goal.min(LAST).max(self.goal);
        self.clock.clone()
    }

    /// Sleeps that wait in the wheel.
    fn queued(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten().filter(|slot| matches!(slot.state, State::Queued(_)))
    }

    fn earliest(&self) -> Option<Time> {
        self.queued().map(|slot| slot.window.end()).filter(|end| *end != NEVER).min()
    }

    /// Finds out the timers that the engine has just taken to be woken, and checks that it was time
    /// to.
    fn take(&mut self) {
        let call = self.frames.last().expect("a waker runs within a call").call;
        let earliest = self.earliest().expect("a waker ran, and nothing was armed");
        let at = match call {
            // A pass over many is woken in parts, and the timers that it was made for are the
            // first.
            Call::Move if self.clock.now() == self.instant(self.now) => self.now,
            Call::Move => earliest.max(self.now),
            Call::Reset => self.now,
            Call::Quiet => panic!("a waker ran in a call that fires nothing"),
        };
        assert_eq!(self.clock.now(), self.instant(at), "fired at the wrong time");
        assert!(at <= self.goal, "the clock went too far");
        self.now = at;

        let count = self.queued().count() - self.clock.pending();
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        let mut hidden = None;
        for (index, slot) in self.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let State::Queued(order) = slot.state else { continue };
            match &slot.sleep {
                _ if slot.window.start() > at => {}
                None => hidden = Some((index, order)),
                Some(sleep) if has_fired(sleep) => taken.push((index, order)),
                Some(_) => left.push((index, order)),
            }
        }
        // A sleep that is being reset cannot be asked; the number of timers pending tells.
        match hidden {
            Some(hidden) if taken.len() < count => taken.push(hidden),
            Some(hidden) => left.push(hidden),
            None => {}
        }
        assert_eq!(taken.len(), count, "the number of timers pending is wrong");
        let due = |index: usize| self.slots[index].as_ref().map(|slot| slot.window.start());
        for (passed_over, before) in left.iter().filter(|_| call == Call::Move) {
            let overtaken = taken
                .iter()
                .any(|(index, order)| due(*index) == due(*passed_over) && order > before);
            assert!(!overtaken, "taken out of order");
        }
        let frame = self.frames.last_mut().expect("looked at above");
        for (index, order) in taken {
            let slot = self.slots[index].as_mut().expect("found above");
            slot.state = State::Fired;
            let (due, ahead) = (slot.window.start(), slot.ahead);
            frame.taken.push(Taken { due, order, ahead, signal: slot.signal.number });
        }
        self.fired += count as u64;
    }

    /// Compares the clock and the counters with the model.
    fn check(&self) {
        assert_eq!(self.clock.now(), self.instant(self.now));
        assert_eq!(self.timer.cached_now(), self.timer.now());
        assert_eq!(self.clock.next_deadline(), self.earliest().map(|time| self.instant(time)));
        let stats = self.timer.stats();
        let (armed, fired, cancelled) = (stats.armed, stats.fired, stats.cancelled);
        assert_eq!((armed, fired, cancelled), (self.armed, self.fired, self.cancelled));
        let pending = self.queued().count();
        assert_eq!((stats.pending, self.clock.pending()), (pending, pending));
        if self.frames.is_empty() {
            assert_eq!(stats.waker_panics, self.panics, "a waker panicked");
        }
    }
}

/// Returns whether the driver has taken its waker.
fn has_fired(sleep: &Sleep) -> bool {
    format!("{sleep:?}").contains(r#"state: "fired""#)
}

/// The engine against a list of deadlines.
pub(crate) fn engine(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    WORLD.set(Some(World::new(rule(&mut bytes))));
    SIGNALS.set(0);
    while let Some(step) = Step::read(&mut bytes, 0) {
        perform(&step);
    }
    perform(&Step::AdvanceToNext);
    (0..SLOTS).for_each(|slot| assert!(discard(slot), "in use"));
    with(|world| world.check());
    WORLD.set(None);
    assert_eq!(SIGNALS.get(), 0, "wakers were not dropped");
}

fn perform(step: &Step) {
    match *step {
        Step::Sleep { slot, delay } => sleep(slot, delay),
        Step::SleepUntil { slot, distance } => make(slot, |world| {
            let time = world.now + distance;
            let sleep = world.timer.sleep_until(world.instant(time));
            (sleep, in_range(time), in_range(time) - world.now)
        }),
        Step::Never { slot } => make(slot, |world| (world.timer.never(), NEVER, NEVER - world.now)),
        Step::Poll { slot } => poll(slot, None),
        Step::PollAnew { slot, ref then } => {
            let signal = with(|world| world.signal(then.as_deref().cloned()));
            poll(slot, Some(signal));
        }
        Step::Burst { slot, delay, count } => {
            for slot in (slot..slot + count).map(|slot| slot % SLOTS) {
                sleep(slot, delay);
                poll(slot, None);
            }
        }
        Step::Reset { slot, distance } => {
            let (instant, time) = with(|world| {
                let time = world.now + distance;
                (world.instant(time), in_range(time))
            });
            let window = |world: &World, before| world.window(time, time - world.now, Some(before));
            change(slot, Change::Reset, window, |sleep| sleep.reset(instant));
        }
        Step::ResetAfter { slot, delay } => {
            let window = |world: &World, before| {
                world.window(world.after(delay), nanos(delay), Some(before))
            };
            change(slot, Change::Reset, window, |sleep| sleep.reset_after(delay));
        }
        Step::Tolerate { slot, tolerance } => {
            let fixed = Rule::Fixed(tolerance).of(0);
            let window = |_: &World, before| Window { tolerance: fixed, is_own: true, ..before };
            change(slot, Change::Tolerance, window, |sleep| sleep.set_tolerance(tolerance));
        }
        Step::Drop { slot } => {
            discard(slot);
        }
        Step::Advance { span } => {
            let clock = with(|world| world.move_goal(world.goal.saturating_add(nanos(span))));
            let moved = move_clock(|| clock.advance(span));
            assert_eq!(moved.0, moved.1, "timers fired, as counted by the clock and the model");
        }
        Step::AdvanceToNext => {
            let next = with(|world| world.earliest().map(|next| (next, world.instant(next))));
            let clock = with(|world| world.move_goal(next.map_or(world.goal, |next| next.0)));
            let (told, _) = move_clock(|| clock.advance_to_next());
            assert_eq!(told, next.map(|next| next.1), "the next deadline");
        }
        Step::Jump { span } => {
            let clock = with(|world| {
                let clock = world.move_goal(world.goal.saturating_add(nanos(span)));
                world.now = world.goal;
                clock
            });
            framed(Call::Quiet, || clock.jump(span));
        }
        Step::Panic => {}
    }
    with(|world| world.check());
}

/// Makes `call`; returns with its result how many wakers it ran.
fn framed<R>(call: Call, run: impl FnOnce() -> R) -> (R, usize) {
    let depth = with(|world| {
        world.frames.push(Frame { call, taken: Vec::new(), fired: 0 });
        world.frames.len()
    });
    let result = run();
    with(|world| {
        // A waker that panicked out of a frame of its own has left that here.
        assert_eq!(world.frames.len(), depth, "a waker panicked");
        let frame = world.frames.pop().expect("counted above");
        assert!(frame.taken.is_empty(), "not woken: {frame:?}");
        (result, frame.fired)
    })
}

fn woken(signal: usize) {
    with(|world| {
        let frame = world.frames.last().expect("a waker runs within a call");
        if frame.taken.is_empty() {
            world.take();
        }
        let frame = world.frames.last_mut().expect("looked at above");
        let at = frame.taken.iter().position(|taken| taken.signal == signal);
        let woken = frame.taken.remove(at.expect("woken without having been due"));
        frame.fired += 1;
        let (own, outer) = world.frames.split_last().expect("looked at above");
        let overtakes = |other: &Taken| other.due == woken.due && other.order < woken.order;
        assert!(!own.taken.iter().any(overtakes), "woken out of order");
        // A sleep that is due when it is set is woken there and then.
        let outer = outer.iter().flat_map(|frame| &frame.taken);
        assert!(!(woken.ahead && outer.copied().any(|other| overtakes(&other))), "overtaken");
    });
}

/// `new`: a sleep, its deadline, and its delay.
fn make(slot: usize, new: impl FnOnce(&World) -> (Sleep, Time, Time)) {
    if discard(slot) {
        with(|world| {
            let (sleep, deadline, delay) = new(world);
            let window = world.window(deadline, delay, None);
            let signal = world.signal(None);
            let ahead = window.end() > world.now;
            let (sleep, state) = (Some(sleep), State::Unarmed);
            world.slots[slot] = Some(Slot { sleep, window, state, signal, ahead });
        });
    }
}

fn sleep(slot: usize, delay: Duration) {
    make(slot, |world| (world.timer.sleep(delay), world.after(delay), nanos(delay)));
}

/// Empties the slot, unless its sleep is in use by a call further out.
fn discard(slot: usize) -> bool {
    let dropped = with(|world| match &world.slots[slot] {
        Some(Slot { sleep: None, .. }) => Err(()),
        Some(Slot { state, .. }) => {
            world.cancelled += u64::from(matches!(state, State::Queued(_)));
            Ok(world.slots[slot].take())
        }
        None => Ok(None),
    });
    dropped.map(|slot| framed(Call::Quiet, || drop(slot))).is_ok()
}

/// Takes the sleep out of its slot, to call a method that may run wakers.
fn borrow(slot: usize) -> Option<Sleep> {
    with(|world| world.slots[slot].as_mut()?.sleep.take())
}

fn put_back(slot: usize, sleep: Sleep) {
    with(|world| {
        let Window { deadline, tolerance, .. } =
            world.slots[slot].as_ref().expect("kept while borrowed").window;
        assert_eq!(sleep.deadline(), world.instant(deadline));
        assert_eq!(nanos(sleep.tolerance()), tolerance);
        assert_eq!(sleep.is_elapsed(), deadline <= world.now);
        let kept = world.slots[slot].as_mut().expect("kept while borrowed");
        assert_eq!(sleep.is_terminated(), kept.state == State::Completed);
        kept.sleep = Some(sleep);
    });
}

fn poll(slot: usize, signal: Option<Arc<Signal>>) {
    let Some(mut sleep) = borrow(slot) else { return };
    let (waker, old, expected) = with(|world| {
        let now = world.now;
        let order = world.order();
        let slot = world.slots[slot].as_mut().expect("borrowed from there");
        let old = signal.map(|signal| std::mem::replace(&mut slot.signal, signal));
        let waker = Waker::from(Arc::clone(&slot.signal));
        let queued = matches!(slot.state, State::Queued(_));
        let deadline = slot.window.deadline;
        if slot.state == State::Completed || deadline <= now {
            slot.state = State::Completed;
            world.fired += u64::from(queued);
            return (waker, old, Poll::Ready(()));
        }
        if !queued && deadline == NEVER && slot.state != State::Fired {
            slot.state = State::Kept;
        } else if !queued {
            slot.state = State::Queued(order);
            world.armed += 1;
        }
        (waker, old, Poll::Pending)
    });
    drop(old);
    let context = &mut Context::from_waker(&waker);
    let (result, _) = framed(Call::Quiet, || Pin::new(&mut sleep).poll(context));
    assert_eq!(result, expected);
    put_back(slot, sleep);
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Makes a completed sleep wait again.
    Reset,
    Tolerance,
}

/// Gives the sleep another window.
fn change(
    slot: usize,
    change: Change,
    window: impl FnOnce(&World, Window) -> Window,
    call: impl FnOnce(&mut Sleep),
) {
    // A sleep that is being reset cannot be asked whether it has fired. Of one, the number of
    // timers pending tells; of two, it would not tell which.
    let hides = |slot: &Slot| slot.sleep.is_none() && matches!(slot.state, State::Queued(_));
    let window = with(|world| {
        let window = window(world, world.slots[slot].as_ref()?.window);
        let is_told = window.end() > world.now || !world.slots.iter().flatten().any(hides);
        is_told.then_some(window)
    });
    let Some(window) = window else { return };
    let Some(mut sleep) = borrow(slot) else { return };
    let kind = with(|world| {
        let now = world.now;
        let order = world.order();
        let slot = world.slots[slot].as_mut().expect("borrowed from there");
        slot.window = window;
        slot.ahead = window.end() > now;
        let is_kept = slot.state == State::Kept && window.deadline != NEVER;
        let armed = is_kept || matches!(slot.state, State::Queued(_) | State::Fired);
        slot.state = match slot.state {
            State::Queued(_) => State::Queued(order),
            State::Kept if is_kept => State::Queued(order),
            State::Completed if change == Change::Reset => State::Unarmed,
            state => state,
        };
        world.armed += u64::from(is_kept);
        // Within a call that moves the clock, it is left to that call: it goes by order.
        let left = world.frames.iter().any(|frame| frame.call == Call::Move);
        if armed && !slot.ahead && !left { Call::Reset } else { Call::Quiet }
    });
    framed(kind, || call(&mut sleep));
    if kind == Call::Reset {
        with(|world| {
            let slot = world.slots[slot].as_ref().expect("kept while borrowed");
            assert_eq!(slot.state, State::Fired, "left behind");
        });
    }
    put_back(slot, sleep);
}

/// Makes a call that moves the clock to its goal, unless one further out is about to do so.
fn move_clock<R>(call: impl FnOnce() -> R) -> (R, usize) {
    if with(|world| world.frames.iter().any(|frame| frame.call == Call::Move)) {
        return framed(Call::Quiet, call);
    }
    let moved = framed(Call::Move, call);
    with(|world| {
        world.now = world.goal;
        assert!(world.earliest().is_none_or(|next| next > world.now), "left behind");
    });
    moved
}
