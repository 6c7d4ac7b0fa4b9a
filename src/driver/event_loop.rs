//! Turns the wheels from the event loop of a page, a worker or Node.js, in a `setTimeout` for the
//! earliest deadline: there is no thread to park.
//!
//! The protocol is that of the thread. An unpark is a microtask, so that all timers that are armed
//! in one go cost one; it sets the timeout anew, and fires nothing, lest a task that sleeps again
//! and again keeps the page from being drawn. The cancel of the last timer unparks too, and the
//! timeout is cleared: as long as one is set, Node.js, Deno and Bun do not end.
//!
//! Browsers count how many timeouts in a row were set from within the one before. From the fifth on
//! each takes at least 4 ms, and in a page that was hidden for minutes it waits for the next full
//! minute. So a timeout is set from the handler of a message there, where that count begins anew.
//! Node.js, Deno and Bun count nothing, and a port that listens keeps them from ending. Timeouts
//! are numbers in browsers and mostly objects elsewhere; but numbers in Deno before 2.8, and in
//! Node.js with jsdom. So the port is closed while nothing is waited for. A host whose timeouts are
//! numbers may have no `MessageChannel`: there each timeout is set directly.
//!
//! A panic of foreign code is a trap there, and an exception of JavaScript's passes through it as
//! one: it ends the turn and unwinds nothing. A borrow stays taken, and the values on the stack are
//! lost. So foreign code is called with nothing borrowed, and nothing that the next turn needs is
//! on the stack: neither the wakers that are still to be woken, nor the mark that a turn runs. Each
//! turn begins by queueing a microtask. If that finds the mark, the turn was cut off: it counts a
//! panic, and sets a timeout for the next turn.
//!
//! A host may lose a timeout or a microtask without a word: a tool that fakes time forgets its own
//! once it puts the real functions back, a limit of processor time throws the microtasks away, and
//! a function may throw. The arm of another timer finds the signs: the global function is not the
//! same any more, or the turn is overdue by [`OVERDUE_NS`]. It then asks for a turn, and that waits
//! anew. A timeout whose time has come is not cleared for that: it may be late and not lost.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Waker;

use wasm_bindgen::prelude::*;

use crate::engine::{
    DrivenBy, Engine, EventLoop, Host, HostWait, Limits, Pass, Plan, Scanned, Scanner,
    SharedEngine, WakeBatch,
};
use crate::platform::OWN_WAITS;
use crate::sync::{Arc, SpawnError, lock};
use crate::tick::Tick;
use crate::trace::DriverLife;

#[wasm_bindgen]
extern "C" {
    /// A number, or an object in Node.js.
    #[wasm_bindgen(catch, js_name = setTimeout)]
    fn set_timeout(handler: &JsValue, milliseconds: i32) -> Result<JsValue, JsValue>;

    type Function;

    #[wasm_bindgen(method)]
    fn bind(this: &Function, receiver: &JsValue, key: u32, generation: u32) -> JsValue;

    #[wasm_bindgen(catch, js_name = queueMicrotask)]
    fn queue_microtask(handler: &JsValue) -> Result<(), JsValue>;

    #[wasm_bindgen(js_name = globalThis)]
    type Global;

    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis")]
    #[wasm_bindgen(getter, js_name = setTimeout)]
    fn setter() -> JsValue;

    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis")]
    #[wasm_bindgen(getter, js_name = queueMicrotask)]
    fn queuer() -> JsValue;

    type MessageChannel;

    #[wasm_bindgen(constructor, catch)]
    fn new() -> Result<MessageChannel, JsValue>;

    #[wasm_bindgen(method, getter)]
    fn port1(this: &MessageChannel) -> MessagePort;

    #[wasm_bindgen(method, getter)]
    fn port2(this: &MessageChannel) -> MessagePort;

    type MessagePort;

    #[wasm_bindgen(method, setter)]
    fn set_onmessage(this: &MessagePort, handler: &JsValue);

    #[wasm_bindgen(method, js_name = postMessage)]
    fn post_message(this: &MessagePort, message: &JsValue);

    #[wasm_bindgen(method)]
    fn close(this: &MessagePort);
}

/// Lateness from which on a turn is taken for lost, in nanoseconds. A busy event loop or a hidden
/// page may be as late, and then makes one turn more.
const OVERDUE_NS: u64 = 100_000_000;

/// Makes the event loop turn the engine's wheels unless it does.
#[cold]
#[allow(clippy::unnecessary_wraps, reason = "a thread's start may fail")]
pub(crate) fn start(engine: &SharedEngine) -> Result<(), SpawnError> {
    let DrivenBy::Thread(thread) = engine.driven_by() else { return Ok(()) };
    let mut life = lock(&thread.life);
    if life.thread.is_some() {
        return Ok(());
    }
    let turns = Rc::new_cyclic(|turns| Turns {
        engine: Arc::clone(engine),
        due: RefCell::new(VecDeque::new()),
        is_turning: Cell::new(false),
        timeout: Cell::new(None),
        next: Cell::new(Tick::NEVER),
        called: RefCell::new(JsValue::UNDEFINED),
        is_asked_for: Cell::new(false),
        is_owed: Cell::new(false),
        expected: Cell::new(Tick::NEVER),
        on_timeout: handler(turns, |turns| turns.turn(u64::MAX)),
        on_microtask: handler(turns, Turns::microtask),
        on_wait: if OWN_WAITS { Turns::wait_handler(turns) } else { JsValue::UNDEFINED },
        waits: Cell::new(0),
        counts_nesting: Cell::new(false),
        macrotask: Cell::new(None),
        is_sent: Cell::new(false),
        while_hidden: thread
            .parker
            .while_hidden()
            .and_then(|begin| begin(Box::new(calling(turns, |turns| turns.turn(u64::MAX))))),
        life: OnceCell::new(),
    });
    engine.alarm().stay_awake();
    Rc::clone(&turns).turn_soon(engine.clock().last_reading());
    thread.parker.install(Some(Rc::clone(&turns) as _));
    life.thread = Some(());
    drop(life);
    // Calls a subscriber. It may trap: nothing is left to do.
    turns.life.get_or_init(|| DriverLife::begin(&thread.name, engine.shards()));
    Ok(())
}

/// Says how many timers are armed, if there are any. If not, nothing waits in the event loop, and
/// there is no thread to end.
pub(crate) fn end(engine: &Engine) -> Result<(), usize> {
    match engine.stats().pending {
        0 => Ok(()),
        armed => Err(armed),
    }
}

/// Returns a function that calls `handle`, unless the timer has ended.
fn calling(turns: &Weak<Turns>, handle: fn(&Rc<Turns>)) -> impl Fn() + 'static {
    let turns = Weak::clone(turns);
    move || {
        if let Some(turns) = turns.upgrade() {
            handle(&turns);
        }
    }
}

/// Returns the same for JavaScript, to be called at any time. Not an `FnMut`: after a call that
/// trapped, that could not be called again.
fn handler(turns: &Weak<Turns>, handle: fn(&Rc<Turns>)) -> JsValue {
    Closure::<dyn Fn()>::new(calling(turns, handle)).into_js_value()
}

/// State that a driver thread has on its stack.
struct Turns {
    engine: SharedEngine,
    /// Wakers that have been taken from the wheels and are still to be woken.
    due: RefCell<VecDeque<Waker>>,
    /// True while a turn has begun and has not returned.
    is_turning: Cell<bool>,
    /// Timeout that is set at present.
    timeout: Cell<Option<HostWait>>,
    /// Tick that it is set for, or will be once the message has come.
    next: Cell<Tick>,
    /// Global function that is to bring the next turn about: `queueMicrotask` if the turn was asked
    /// for, and else `setTimeout`.
    called: RefCell<JsValue>,
    is_asked_for: Cell<bool>,
    /// True until a microtask makes the turn that was asked for.
    is_owed: Cell<bool>,
    /// Tick of the next turn.
    expected: Cell<Tick>,
    on_timeout: JsValue,
    on_microtask: JsValue,
    /// Handles the timeouts that belong to one entry each.
    on_wait: JsValue,
    /// Number of these so far, which wraps.
    waits: Cell<u32>,
    /// True if the last timeout was a number, as in browsers.
    counts_nesting: Cell<bool>,
    /// Made for the second timeout that is set in a browser; gone while nothing is waited for.
    macrotask: Cell<Option<Rc<Macrotask>>>,
    /// True while a message of the macrotask is on its way.
    is_sent: Cell<bool>,
    /// Takes the milliseconds of each wait, for what ends it while the page is hidden; `None` once
    /// there are no more.
    while_hidden: Option<Box<dyn Fn(Option<i32>)>>,
    life: OnceCell<DriverLife>,
}

impl EventLoop for Turns {
    fn turn_soon(self: Rc<Self>, now: Tick) {
        *self.called.borrow_mut() = Global::queuer();
        self.is_asked_for.set(true);
        self.is_owed.set(true);
        self.expected.set(now);
        if queue_microtask(&self.on_microtask).is_err() {
            self.engine.alarm().forget();
        }
    }

    fn is_lost(&self, now: Tick) -> bool {
        let is_asked_for = self.is_asked_for.get();
        let function = if is_asked_for { Global::queuer() } else { Global::setter() };
        let is_overdue = now.nanos_since(self.expected.get()) > OVERDUE_NS;
        let is_lost = is_overdue || function != *self.called.borrow();
        if is_lost {
            // So may be the message.
            self.is_sent.set(false);
        }
        is_lost && !self.is_turning.get()
    }

    fn wait(&self, key: u32, due: Tick) -> Result<HostWait, JsValue> {
        if !OWN_WAITS {
            return Err(JsValue::UNDEFINED);
        }
        let generation = self.waits.get().wrapping_add(1);
        self.waits.set(generation);
        let wait_ms = milliseconds(self.engine.clock().last_reading(), due);
        // Not as arguments of the timeout: wrappers of it may not pass them on.
        let handler = self.on_wait.unchecked_ref::<Function>();
        let handler = handler.bind(&JsValue::UNDEFINED, key, generation);
        HostWait::begin(generation, || set_timeout(&handler, wait_ms))
    }
}

impl Turns {
    /// Fires at most so many timers, and sets the timeout for the next turn.
    fn turn(self: &Rc<Self>, timers: u64) {
        let engine = &self.engine;
        self.is_turning.set(true);
        // Where it is refused, the next arm finds that a turn was cut off.
        let _ = queue_microtask(&self.on_microtask);
        let mut scanner = Scanner::new(WakeBatch::deferring());
        scanner.allow(timers);
        engine.count_wakeup();
        let mut host = InEventLoop { turns: self, wakes: timers > 0 };
        let next = loop {
            match scanner.scan(engine, Limits::NONE, &mut host) {
                Scanned::Planned(plan) => break plan.end(),
                Scanned::CutShort(now) => break now,
                // A waker has armed something earlier.
                Scanned::Interrupted => {}
                Scanned::Ended => break Tick::NEVER,
            }
        };
        // Wakers may be left from a turn that was cut off, if this turn was not to wake any.
        let is_over = self.due.borrow().is_empty();
        self.wait_until(if is_over { next } else { engine.clock().now() });
        self.is_turning.set(false);
    }

    /// Wakes the wakers that are due, in order. Each is taken out before it is called: if it traps,
    /// the next turn finds the rest.
    fn wake_due(&self, pass: &mut Pass) {
        loop {
            let Some(waker) = self.due.borrow_mut().pop_front() else { return };
            self.engine.wake_deferred(waker, pass);
        }
    }

    /// After a turn that was cut off, sets a timeout for the next, and then counts it: counting may
    /// call foreign code. Or makes the turn that was asked for.
    fn microtask(self: &Rc<Self>) {
        if self.is_turning.replace(false) {
            self.wait_until(self.engine.clock().now());
            self.engine.count_cut_off();
        } else if self.is_owed.take() {
            self.turn(0);
        }
    }

    /// Has the next turn made at `next`, and not before.
    fn wait_until(self: &Rc<Self>, next: Tick) {
        let now = self.engine.clock().last_reading();
        if let Some(old) = self.timeout.take().filter(|_| self.next.get() <= now) {
            // It is about to end, or lost.
            old.leave();
        }
        *self.called.borrow_mut() = Global::setter();
        self.is_asked_for.set(false);
        self.expected.set(next.max(now));
        self.next.set(next);
        if next == Tick::NEVER {
            self.macrotask.set(None);
            return;
        }
        match self.macrotask() {
            // Its handler sets the timeout for the tick that is the next by then.
            Some(macrotask) if !self.is_sent.replace(true) => {
                macrotask.sender.post_message(&JsValue::NULL)
            }
            Some(_) => {}
            None => self.set_timeout(),
        }
    }

    /// Returns the message to send before a timeout is set. `None` if that is of no use here, or
    /// cannot be done.
    fn macrotask(self: &Rc<Self>) -> Option<Rc<Macrotask>> {
        if !self.counts_nesting.get() {
            return None;
        }
        let macrotask = self.macrotask.take().or_else(|| {
            self.is_sent.set(false);
            Macrotask::to(self).map(Rc::new)
        });
        self.macrotask.set(macrotask.clone());
        macrotask
    }

    /// Sets the timeout, unless nothing has to be waited for any more.
    fn set_timeout(&self) {
        let next = self.next.get();
        if next != Tick::NEVER {
            let wait_ms = milliseconds(self.engine.clock().now(), next);
            let set = || set_timeout(&self.on_timeout, wait_ms);
            let Ok(timeout) = HostWait::begin(0, set) else {
                self.engine.alarm().forget();
                return;
            };
            self.counts_nesting.set(timeout.is_number());
            drop(self.timeout.replace(Some(timeout)));
            if let Some(wait) = &self.while_hidden {
                wait(Some(wait_ms));
            }
        }
    }

    /// Returns a function for JavaScript that ends the wait of one entry.
    fn wait_handler(turns: &Weak<Self>) -> JsValue {
        let turns = Weak::clone(turns);
        let end_wait = move |key, generation| {
            if let Some(turns) = turns.upgrade() {
                turns.end_wait(key, generation);
            }
        };
        Closure::<dyn Fn(u32, u32)>::new(end_wait).into_js_value()
    }

    /// Ends the wait of one entry, unless it has another by now.
    fn end_wait(self: &Rc<Self>, key: u32, generation: u32) {
        let engine = &self.engine;
        engine.count_wakeup();
        if let Some(waker) = engine.end_wait(key, generation) {
            self.is_turning.set(true);
            // Where it is refused, the next arm finds the call that was cut off.
            let _ = queue_microtask(&self.on_microtask);
            engine.wake_alone(waker);
            self.is_turning.set(false);
        }
    }

    /// Lets go of the engine, whose last handle and last armed sleep are gone, and of what waits in
    /// the browser. A turn that was cut off has kept this from being dropped.
    fn end(&self) {
        if let Some(wait) = &self.while_hidden {
            wait(None);
        }
        if let DrivenBy::Thread(thread) = self.engine.driven_by() {
            lock(&thread.life).thread = None;
            thread.parker.install(None);
        }
    }
}

/// A turn that an event loop makes.
struct InEventLoop<'a> {
    turns: &'a Turns,
    /// Whether it wakes.
    wakes: bool,
}

impl Host for InEventLoop<'_> {
    fn life(&self) -> Option<&DriverLife> {
        self.turns.life.get()
    }

    fn passed(&mut self, batch: &mut WakeBatch, pass: &mut Pass) {
        self.turns.due.borrow_mut().extend(batch.take_deferred());
        if self.wakes {
            self.turns.wake_due(pass);
        }
    }

    fn plan(&mut self, pass: &Pass) -> Result<Plan, Scanned> {
        let engine = &self.turns.engine;
        if engine.left_at_close() == Some(0) {
            engine.alarm().leave();
            self.turns.end();
            return Err(Scanned::Ended);
        }
        Ok(pass.plan())
    }
}

/// Returns how long to wait. A timeout cannot be set for more than 24 days. It then ends too soon,
/// and another is set.
fn milliseconds(now: Tick, due: Tick) -> i32 {
    i32::try_from(due.nanos_since(now).div_ceil(1_000_000)).unwrap_or(i32::MAX)
}

/// A message from the event loop to itself, in whose handler a timeout is set.
struct Macrotask {
    sender: MessagePort,
    receiver: MessagePort,
}

impl Macrotask {
    /// Opens a channel. `None` if the host has none.
    fn to(turns: &Rc<Turns>) -> Option<Self> {
        let channel = MessageChannel::new().ok()?;
        let on_message = handler(&Rc::downgrade(turns), |turns| {
            turns.is_sent.set(false);
            turns.set_timeout();
        });
        let receiver = channel.port1();
        receiver.set_onmessage(&on_message);
        Some(Self { sender: channel.port2(), receiver })
    }
}

impl Drop for Macrotask {
    fn drop(&mut self) {
        // A message that is on its way is for nothing.
        self.receiver.set_onmessage(&JsValue::NULL);
        self.receiver.close();
    }
}
