//! Turns the wheels from the event loop of a page, a worker or Node.js, which has no thread to
//! park: in a `setTimeout` that is set for the earliest deadline.
//!
//! The protocol is that of the thread. An unpark is a microtask, so that all timers that are armed
//! in one go cost one; it sets the timeout anew, and fires nothing, lest a task that sleeps again
//! and again keeps the page from being drawn.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::Rc;

use wasm_bindgen::prelude::*;

use crate::engine::{DrivenBy, Engine, Plan, WakeBatch};
use crate::sync::{Arc, lock};
use crate::tick::Tick;
use crate::trace::DriverLife;

#[wasm_bindgen]
extern "C" {
    /// A number, or an object in Node.js.
    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(handler: &Closure<dyn FnMut()>, milliseconds: i32) -> JsValue;

    #[wasm_bindgen(js_name = clearTimeout)]
    fn clear_timeout(timeout: &JsValue);

    #[wasm_bindgen(js_name = queueMicrotask)]
    fn queue_microtask(handler: &JsValue);
}

/// Has the event loop turn the engine's wheels unless it does.
#[cold]
#[allow(clippy::unnecessary_wraps, reason = "a thread's start may fail")]
pub(crate) fn start(engine: &Arc<Engine>) -> io::Result<()> {
    let DrivenBy::Thread(thread) = engine.driven_by() else { return Ok(()) };
    let mut running = lock(&thread.running);
    if !*running {
        let turns = Rc::new(Turns {
            engine: Arc::clone(engine),
            batch: RefCell::new(WakeBatch::new()),
            timeout: Cell::new(None),
            on_timeout: OnceCell::new(),
            life: DriverLife::begin(&thread.name, engine.shards()),
        });
        let weak = Rc::downgrade(&turns);
        let on_timeout = Closure::new(move || {
            if let Some(turns) = weak.upgrade() {
                turns.turn(u64::MAX);
            }
        });
        turns.on_timeout.get_or_init(|| on_timeout);
        let turns_soon = move || {
            let turns = Rc::clone(&turns);
            queue_microtask(&Closure::once_into_js(move || turns.turn(0)));
        };
        turns_soon();
        thread.parker.attend(turns_soon);
        *running = true;
    }
    Ok(())
}

/// What a driver thread has on its stack.
struct Turns {
    engine: Arc<Engine>,
    batch: RefCell<WakeBatch>,
    /// What is set at present.
    timeout: Cell<Option<JsValue>>,
    on_timeout: OnceCell<Closure<dyn FnMut()>>,
    life: DriverLife,
}

impl Turns {
    /// Fires at most so many timers, and sets the timeout for what comes next.
    fn turn(&self, timers: u64) {
        let engine = &self.engine;
        let mut batch = self.batch.borrow_mut();
        batch.allow(timers);
        engine.count_wakeup();
        let next = loop {
            engine.alarm().begin_scan();
            let now = engine.clock().now();
            let pass = engine.pass_from(0, now, &mut batch, None);
            pass.report(now, engine.clock(), Some(&self.life));
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
        self.wait_until(next);
    }

    fn wait_until(&self, next: Tick) {
        if let Some(old) = self.timeout.take() {
            clear_timeout(&old);
        }
        if let Some(on_timeout) = self.on_timeout.get().filter(|_| next != Tick::NEVER) {
            let wait = next.since(self.engine.clock().now());
            // A timeout cannot be set for more than that. It then turns too soon, and sets another.
            let wait_ms = i32::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX);
            self.timeout.set(Some(set_timeout(on_timeout, wait_ms)));
        }
    }

    /// Lets go of the engine, whose last handle and last armed sleep are gone.
    fn end(&self) {
        if let DrivenBy::Thread(thread) = self.engine.driven_by() {
            *lock(&thread.running) = false;
            thread.parker.leave();
        }
    }
}
