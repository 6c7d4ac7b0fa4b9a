//! Turns the wheels from the event loop of a page, a worker or Node.js, which has no thread to
//! park: in a `setTimeout` that is set for the earliest deadline.
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
//! one: it ends the turn and unwinds nothing. What is borrowed stays borrowed, and what lies on the
//! stack is lost. So foreign code is called with nothing borrowed, and nothing that the next turn
//! needs is on the stack: neither the wakers that are still to be woken, nor the mark that a turn
//! runs. Each turn begins by queueing a microtask. If that finds the mark, the turn was cut off: it
//! counts a panic, and sets a timeout for the next turn.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Waker;

use wasm_bindgen::prelude::*;

use crate::engine::{DrivenBy, Engine, Pass, Plan, WakeBatch};
use crate::sync::{Arc, SpawnError, lock};
use crate::tick::Tick;
use crate::trace::DriverLife;

#[wasm_bindgen]
extern "C" {
    /// A number, or an object in Node.js.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(handler: &Closure<dyn Fn()>, milliseconds: i32) -> JsValue;

    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timeout: &JsValue);

    #[wasm_bindgen(js_name = queueMicrotask)]
    fn queue_microtask(handler: &JsValue);

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

/// Makes the event loop turn the engine's wheels unless it does.
#[cold]
#[allow(clippy::unnecessary_wraps, reason = "a thread's start may fail")]
pub(crate) fn start(engine: &Arc<Engine>) -> Result<(), SpawnError> {
    let DrivenBy::Thread(thread) = engine.driven_by() else { return Ok(()) };
    let mut running = lock(&thread.running);
    if *running {
        return Ok(());
    }
    let turns = Rc::new_cyclic(|turns| Turns {
        engine: Arc::clone(engine),
        due: RefCell::new(VecDeque::new()),
        is_turning: Cell::new(false),
        timeout: Cell::new(None),
        next: Cell::new(Tick::NEVER),
        on_timeout: Closure::new(turning(turns)),
        counts_nesting: Cell::new(false),
        hop: Cell::new(None),
        is_sent: Cell::new(false),
        while_hidden: thread
            .parker
            .while_hidden()
            .and_then(|begin| begin(Box::new(turning(turns)))),
        life: OnceCell::new(),
    });
    let turn_soon = {
        let turns = Rc::clone(&turns);
        move || turns.soon(|turns| turns.turn(0))
    };
    turn_soon();
    thread.parker.attend(turn_soon);
    *running = true;
    drop(running);
    // Calls a subscriber, which may trap: nothing is left to do.
    turns.life.get_or_init(|| DriverLife::begin(&thread.name, engine.shards()));
    Ok(())
}

/// Returns a function that makes a turn, if there still is what turns.
fn turning(turns: &Weak<Turns>) -> impl Fn() + 'static {
    let turns = Weak::clone(turns);
    move || {
        if let Some(turns) = turns.upgrade() {
            turns.turn(u64::MAX);
        }
    }
}

/// State that a driver thread has on its stack.
struct Turns {
    engine: Arc<Engine>,
    /// Wakers that have been taken from the wheels and are still to be woken.
    due: RefCell<VecDeque<Waker>>,
    /// True while a turn has begun and has not returned.
    is_turning: Cell<bool>,
    /// Timeout that is set at present.
    timeout: Cell<Option<JsValue>>,
    /// Tick that it is set for, or will be once the message has come.
    next: Cell<Tick>,
    /// Not an `FnMut`, which could not be called again after a call that trapped.
    on_timeout: Closure<dyn Fn()>,
    /// True if the last timeout was a number, as a browser's is.
    counts_nesting: Cell<bool>,
    /// Made for the second timeout that is set in a browser; gone while nothing is waited for.
    hop: Cell<Option<Rc<Hop>>>,
    /// True while a message of the hop is on its way.
    is_sent: Cell<bool>,
    /// Takes the milliseconds of each wait, for what ends it while the page is hidden; `None` once
    /// there are no more.
    while_hidden: Option<Box<dyn Fn(Option<i32>)>>,
    life: OnceCell<DriverLife>,
}

impl Turns {
    /// Makes a call from a microtask.
    fn soon(self: &Rc<Self>, call: fn(&Rc<Self>)) {
        let turns = Rc::clone(self);
        queue_microtask(&Closure::once_into_js(move || call(&turns)));
    }

    /// Fires at most so many timers, and sets the timeout for what comes next.
    fn turn(self: &Rc<Self>, timers: u64) {
        let engine = &self.engine;
        self.is_turning.set(true);
        self.soon(|turns| turns.follow_up());
        let mut batch = WakeBatch::deferring();
        batch.allow(timers);
        engine.count_wakeup();
        let next = loop {
            engine.alarm().begin_scan();
            let now = engine.clock().now();
            let mut pass = engine.pass_from(0, now, &mut batch, None, u32::MAX);
            self.due.borrow_mut().extend(batch.take_deferred());
            if timers > 0 {
                self.wake_due(&mut pass);
            }
            pass.report(now, engine.clock(), self.life.get());
            if pass.cut_short {
                engine.alarm().stay_awake();
                break now;
            }
            let plan = match pass.next {
                _ if pass.over => Plan::End,
                Tick::NEVER => Plan::Park,
                next => Plan::ParkUntil(next),
            };
            // If it does not stand, a waker has armed something earlier.
            if engine.alarm().commit(plan) {
                if pass.over {
                    self.end();
                }
                break pass.next;
            }
        };
        // Those that a turn which was cut off has left, and that this one was not to wake.
        let is_over = self.due.borrow().is_empty();
        self.wait_until(if is_over { next } else { engine.clock().now() });
        self.is_turning.set(false);
    }

    /// Wakes what is due, in order. Each waker is taken out before it is called, so that the next
    /// turn finds those after one that traps.
    fn wake_due(&self, pass: &mut Pass) {
        loop {
            let Some(waker) = self.due.borrow_mut().pop_front() else { return };
            self.engine.wake_deferred(waker, pass);
        }
    }

    /// Sets a timeout for the turn after one that was cut off, and then counts that one, which may
    /// call foreign code.
    fn follow_up(self: &Rc<Self>) {
        if self.is_turning.replace(false) {
            self.wait_until(self.engine.clock().now());
            self.engine.count_cut_off();
        }
    }

    /// Has the next turn made at `next`, and not before.
    fn wait_until(self: &Rc<Self>, next: Tick) {
        if let Some(old) = self.timeout.take() {
            clear_timeout(&old);
        }
        self.next.set(next);
        if next == Tick::NEVER {
            self.hop.set(None);
            return;
        }
        match self.hop() {
            // Its handler sets the timeout for the tick that is the next by then.
            Some(hop) if !self.is_sent.replace(true) => hop.sender.post_message(&JsValue::NULL),
            Some(_) => {}
            None => self.set_timeout(),
        }
    }

    /// Returns the message to send before a timeout is set. `None` if that is of no use here, or
    /// cannot be done.
    fn hop(self: &Rc<Self>) -> Option<Rc<Hop>> {
        if !self.counts_nesting.get() {
            return None;
        }
        let hop = self.hop.take().or_else(|| {
            self.is_sent.set(false);
            Hop::to(self).map(Rc::new)
        });
        self.hop.set(hop.clone());
        hop
    }

    /// Sets the timeout, unless nothing has to be waited for any more.
    fn set_timeout(&self) {
        let next = self.next.get();
        if next != Tick::NEVER {
            let wait_ns = next.nanos_since(self.engine.clock().now());
            // A timeout cannot be set for more than that. It then turns too soon, and sets another.
            let wait_ms = i32::try_from(wait_ns.div_ceil(1_000_000)).unwrap_or(i32::MAX);
            let timeout = set_timeout(&self.on_timeout, wait_ms);
            self.counts_nesting.set(!timeout.is_object());
            self.timeout.set(Some(timeout));
            if let Some(wait) = &self.while_hidden {
                wait(Some(wait_ms));
            }
        }
    }

    /// Lets go of the engine, whose last handle and last armed sleep are gone, and of what waits in
    /// the browser. A turn that was cut off has kept this from being dropped.
    fn end(&self) {
        if let Some(wait) = &self.while_hidden {
            wait(None);
        }
        if let DrivenBy::Thread(thread) = self.engine.driven_by() {
            *lock(&thread.running) = false;
            thread.parker.leave();
        }
    }
}

/// A message from the event loop to itself, in whose handler a timeout is set.
struct Hop {
    sender: MessagePort,
    receiver: MessagePort,
    _on_message: Closure<dyn Fn()>,
}

impl Hop {
    /// Opens a channel. `None` if the host has none.
    fn to(turns: &Rc<Turns>) -> Option<Self> {
        let channel = MessageChannel::new().ok()?;
        let on_message = Closure::<dyn Fn()>::new({
            let turns = Rc::downgrade(turns);
            move || {
                if let Some(turns) = turns.upgrade() {
                    turns.is_sent.set(false);
                    turns.set_timeout();
                }
            }
        });
        let receiver = channel.port1();
        receiver.set_onmessage(on_message.as_ref());
        Some(Self { sender: channel.port2(), receiver, _on_message: on_message })
    }
}

impl Drop for Hop {
    fn drop(&mut self) {
        // A message that is on its way must not call what is dropped.
        self.receiver.set_onmessage(&JsValue::NULL);
        self.receiver.close();
    }
}
