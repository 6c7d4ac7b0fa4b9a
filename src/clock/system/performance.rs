//! The clock of JavaScript, `performance.now()`, in the place of the coarse one.
//!
//! Tools that fake time put another `performance` into the global's place, with readings that begin
//! anew, and later the first one back. So the object is looked up for each reading. If it differs
//! from the last, the clock continues from the last reading: no time passes in the exchange, so
//! nothing is early by it, and a sleep keeps the time that it had left.

use std::cell::{Cell, RefCell};

use wasm_bindgen::prelude::*;

use crate::clock::TimeLine;
use crate::tick::Tick;
use crate::time::Instant;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = globalThis)]
    type Global;

    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis", getter)]
    fn performance() -> Performance;

    type Performance;

    #[wasm_bindgen(method)]
    fn now(this: &Performance) -> f64;
}

/// The object that was read last, and how its readings are continued.
struct Last {
    object: RefCell<JsValue>,
    /// Number to add to its own reading, in nanoseconds.
    offset: Cell<u64>,
    /// The sum.
    reading: Cell<u64>,
}

thread_local! {
    static LAST: Last = const {
        Last {
            object: RefCell::new(JsValue::UNDEFINED),
            offset: Cell::new(0),
            reading: Cell::new(0),
        }
    };
}

/// Reads the clock, in nanoseconds since some time.
fn read() -> u64 {
    let performance = Global::performance();
    let milliseconds = performance.now();
    // By the rule of the crate `web-time`, so that its instants are no earlier.
    let nanos = (milliseconds.fract() * 1e6).round_ties_even() as u64;
    let shown = (milliseconds as u64).wrapping_mul(1_000_000).wrapping_add(nanos);
    LAST.with(|last| {
        let object = &mut *last.object.borrow_mut();
        if *object != *performance {
            *object = performance.into();
            last.offset.set(last.reading.get().wrapping_sub(shown));
        }
        last.reading.set(shown.wrapping_add(last.offset.get()));
        last.reading.get()
    })
}

#[derive(Clone)]
pub(super) struct Coarse {
    /// Number to add to a reading for a tick.
    offset: u64,
}

impl Coarse {
    /// A time line that begins now. The instant is read first, so a timer's clock is never ahead of
    /// the line.
    pub(super) fn starting_now() -> (TimeLine, Self) {
        let line = TimeLine::starting_at(Instant::now());
        (line, Self { offset: Tick::ORIGIN.raw().wrapping_sub(read()) })
    }

    pub(super) fn exact_now(&self, _: &TimeLine) -> Tick {
        Tick::from_raw(read().wrapping_add(self.offset))
    }

    /// The tick of the last reading.
    pub(super) fn last(&self) -> Tick {
        let reading = LAST.with(|last| last.reading.get());
        Tick::from_raw(reading.wrapping_add(self.offset))
    }

    pub(super) fn now(&self) -> Option<Tick> {
        None
    }

    pub(super) fn has_passed(&self, _: Tick) -> Option<bool> {
        None
    }
}
