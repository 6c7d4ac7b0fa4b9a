//! The parker where no thread can park: an unpark asks the event loop for a turn instead.

use std::cell::Cell;
use std::rc::Rc;

use wasm_bindgen::prelude::*;

use crate::platform::OWN_WAITS;
use crate::sync::{Mutex, lock};
use crate::tick::Tick;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_name = globalThis)]
    type Global;

    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis")]
    #[wasm_bindgen(getter, js_name = clearTimeout)]
    fn clearer() -> Function;

    type Function;

    #[wasm_bindgen(method, catch)]
    fn call(this: &Function, receiver: &JsValue, timeout: &JsValue) -> Result<JsValue, JsValue>;

    /// Global of workerd alone.
    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis")]
    #[wasm_bindgen(getter, js_name = WebSocketPair)]
    fn web_socket_pair() -> JsValue;

    /// The document of a page, or of a page that jsdom makes in Node.js.
    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis")]
    #[wasm_bindgen(getter)]
    fn document() -> JsValue;

    /// Of Node.js, Deno and Bun.
    #[wasm_bindgen(static_method_of = Global, js_class = "globalThis")]
    #[wasm_bindgen(getter)]
    fn process() -> JsValue;
}

/// Sleeps and callbacks with a wait of the host's for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OwnWaits {
    /// None: one timeout is enough for all. Pages of browsers, and their workers.
    None,
    /// Sleeps that a task polls. The host knows the context of each task (`AsyncLocalStorage`):
    /// Node.js, Deno and Bun.
    Polls,
    /// All: a timeout belongs to the request that has set it, and ends with it. workerd.
    All,
}

impl OwnWaits {
    fn here() -> Self {
        if !OWN_WAITS {
            Self::None
        } else if !Global::web_socket_pair().is_undefined() {
            Self::All
        } else if Global::document().is_undefined() && !Global::process().is_undefined() {
            Self::Polls
        } else {
            Self::None
        }
    }
}

/// A timeout that is set. Its drop clears it, by the function of the time when it was set: that of
/// another tool may not know it.
pub(crate) struct HostWait {
    timeout: JsValue,
    /// `None` if it is not to be cleared.
    clearer: Option<Function>,
    /// Tells it from the waits that its entry had before.
    pub(crate) generation: u32,
}

impl HostWait {
    /// Calls `set`.
    pub(crate) fn begin(
        generation: u32,
        set: impl FnOnce() -> Result<JsValue, JsValue>,
    ) -> Result<Self, JsValue> {
        let clearer = Some(Global::clearer());
        Ok(Self { timeout: set()?, clearer, generation })
    }

    /// Forgets the timeout, and does not clear it.
    pub(crate) fn leave(mut self) {
        self.clearer = None;
    }

    /// Returns whether timeouts are numbers here, as in browsers.
    pub(crate) fn is_number(&self) -> bool {
        !self.timeout.is_object()
    }
}

impl Drop for HostWait {
    fn drop(&mut self) {
        if let Some(clearer) = &self.clearer {
            // Nothing is set where it throws.
            let _ = clearer.call(&JsValue::UNDEFINED, &self.timeout);
        }
    }
}

// SAFETY: there is one thread; see `Parker`.
unsafe impl Send for HostWait {}

/// Begins to end the waits of a hidden page, by calls of the function that it gets. Returns a
/// function that takes the milliseconds of each wait, and in the end `None`. There is none where
/// there is no page.
pub(crate) type WhileHidden = fn(Box<dyn Fn()>) -> Option<Box<dyn Fn(Option<i32>)>>;

/// What turns the wheels from an event loop.
pub(crate) trait EventLoop {
    /// Has a turn made soon. Runs nothing at once. `now` is the time, or a little earlier.
    fn turn_soon(self: Rc<Self>, now: Tick);

    /// Returns whether the host has lost the timeout or the microtask of the next turn.
    fn is_lost(&self, now: Tick) -> bool;

    /// Begins a wait until `due` for the entry of this key alone.
    ///
    /// # Errors
    ///
    /// When the host throws.
    fn wait(&self, key: u32, due: Tick) -> Result<HostWait, JsValue>;
}

pub(crate) struct Parker {
    /// Whom to call.
    event_loop: Mutex<Option<Rc<dyn EventLoop>>>,
    /// `None` if a hidden page waits as the browser lets it. A pointer, so that only programs that
    /// ask for it have the code.
    while_hidden: Cell<Option<WhileHidden>>,
    own_waits: Cell<OwnWaits>,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            event_loop: Mutex::new(None),
            while_hidden: Cell::new(None),
            own_waits: Cell::new(OwnWaits::here()),
        }
    }

    pub(crate) fn own_waits(&self) -> OwnWaits {
        if OWN_WAITS { self.own_waits.get() } else { OwnWaits::None }
    }

    /// Has one timeout for all, except where that cannot be.
    pub(crate) fn share_timeout(&self) {
        if self.own_waits() != OwnWaits::All {
            self.own_waits.set(OwnWaits::None);
        }
    }

    pub(crate) fn while_hidden(&self) -> Option<WhileHidden> {
        self.while_hidden.get()
    }

    pub(crate) fn set_while_hidden(&self, begin: Option<WhileHidden>) {
        self.while_hidden.set(begin);
    }

    /// Makes [`unpark`](Self::unpark) call `event_loop`, or nothing.
    pub(crate) fn install(&self, event_loop: Option<Rc<dyn EventLoop>>) {
        let old = std::mem::replace(&mut *lock(&self.event_loop), event_loop);
        drop(old);
    }

    pub(crate) fn unpark(&self, now: Tick) {
        if let Some(event_loop) = self.event_loop() {
            event_loop.turn_soon(now);
        }
    }

    /// See [`EventLoop::is_lost`].
    pub(crate) fn is_lost(&self, now: Tick) -> bool {
        self.event_loop().is_some_and(|event_loop| event_loop.is_lost(now))
    }

    pub(crate) fn event_loop(&self) -> Option<Rc<dyn EventLoop>> {
        lock(&self.event_loop).clone()
    }
}

// SAFETY: there is one thread, and the parker never leaves it: `lib.rs` refuses the target feature
// `atomics`, and without that these targets have no others.
unsafe impl Send for Parker {}
// SAFETY: as above.
unsafe impl Sync for Parker {}
