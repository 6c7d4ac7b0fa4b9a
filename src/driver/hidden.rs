//! Ends the waits of a page that is hidden, where browsers hold timeouts back: by a dedicated
//! worker, whose timeouts they leave alone.
//!
//! The worker is one more thing that ends a wait. The page's own timeout is set all the same, so a
//! worker that cannot be made, or that the browser ends, makes timers late and loses none. The
//! worker is made for the first wait of the hidden page. It is gone once the page is shown.

use std::cell::{Cell, OnceCell};
use std::rc::{Rc, Weak};

use wasm_bindgen::prelude::*;

/// Program of the worker: each message sets its timeout anew, from outside of any other timeout.
const PROGRAM: &str = "let set;\
    onmessage=({data})=>{clearTimeout(set);set=setTimeout(()=>postMessage(0),data)}";

#[wasm_bindgen]
extern "C" {
    #[derive(Clone)]
    type Document;

    /// `None` in workers and in Node.js.
    #[wasm_bindgen(thread_local_v2, js_name = document)]
    static DOCUMENT: Option<Document>;

    #[wasm_bindgen(method, getter)]
    fn hidden(this: &Document) -> bool;

    #[wasm_bindgen(method, js_name = addEventListener)]
    fn add_event_listener(this: &Document, event: &str, handler: &JsValue);

    #[wasm_bindgen(method, js_name = removeEventListener)]
    fn remove_event_listener(this: &Document, event: &str, handler: &JsValue);

    type Blob;

    #[wasm_bindgen(constructor, catch)]
    fn new(parts: Vec<JsValue>) -> Result<Blob, JsValue>;

    #[wasm_bindgen(catch, js_namespace = URL, js_name = createObjectURL)]
    fn create_object_url(blob: &Blob) -> Result<String, JsValue>;

    #[wasm_bindgen(js_namespace = URL, js_name = revokeObjectURL)]
    fn revoke_object_url(url: &str);

    type Worker;

    #[wasm_bindgen(constructor, catch)]
    fn new(url: &str) -> Result<Worker, JsValue>;

    #[wasm_bindgen(method, setter)]
    fn set_onmessage(this: &Worker, handler: &JsValue);

    #[wasm_bindgen(method, js_name = postMessage)]
    fn post_message(this: &Worker, milliseconds: i32);

    #[wasm_bindgen(method)]
    fn terminate(this: &Worker);
}

/// Name of the event that comes as the page is hidden or shown.
const CHANGE: &str = "visibilitychange";

/// Calls `turn` at the end of each wait of a hidden page, and as the page is hidden or shown. The
/// result takes the milliseconds of each wait, and in the end `None`. Where there is no page, there
/// is no result.
pub(crate) fn wait_in_worker(turn: Box<dyn Fn()>) -> Option<Box<dyn Fn(Option<i32>)>> {
    let document = DOCUMENT.with(Option::clone)?;
    let page = Rc::new_cyclic(|page: &Weak<Page>| Page {
        document,
        worker: Cell::new(None),
        is_refused: Cell::new(false),
        url: OnceCell::new(),
        on_event: Closure::new({
            let page = Weak::clone(page);
            move || {
                if let Some(page) = page.upgrade() {
                    page.end_worker_if_shown();
                    turn();
                }
            }
        }),
    });
    page.document.add_event_listener(CHANGE, page.on_event.as_ref());
    Some(Box::new(move |milliseconds| match milliseconds {
        Some(milliseconds) => page.wait(milliseconds),
        None => page.end(),
    }))
}

struct Page {
    document: Document,
    worker: Cell<Option<Worker>>,
    /// True if none is to be made: the browser has refused one since the page was shown last, or
    /// the end has come.
    is_refused: Cell<bool>,
    /// Address of the worker's program.
    url: OnceCell<String>,
    /// Handles messages of the worker, and the event.
    on_event: Closure<dyn Fn()>,
}

impl Page {
    fn wait(&self, milliseconds: i32) {
        if self.is_refused.get() || !self.document.hidden() {
            return;
        }
        let worker = self.worker.take().or_else(|| self.make_worker());
        self.is_refused.set(worker.is_none());
        if let Some(worker) = &worker {
            worker.post_message(milliseconds);
        }
        self.worker.set(worker);
    }

    /// `None` if the browser refuses it.
    fn make_worker(&self) -> Option<Worker> {
        if self.url.get().is_none() {
            let program = Blob::new(vec![JsValue::from_str(PROGRAM)]).ok()?;
            let url = create_object_url(&program).ok()?;
            self.url.get_or_init(|| url);
        }
        let worker = Worker::new(self.url.get()?).ok()?;
        worker.set_onmessage(self.on_event.as_ref());
        Some(worker)
    }

    fn end_worker_if_shown(&self) {
        if !self.document.hidden() {
            self.end_worker();
            self.is_refused.set(false);
        }
    }

    fn end_worker(&self) {
        if let Some(worker) = self.worker.take() {
            // A message on its way must not call a dropped closure.
            worker.set_onmessage(&JsValue::NULL);
            worker.terminate();
        }
    }

    /// Leaves nothing in the browser. Not by a drop: a call that traps never lets go of the page.
    fn end(&self) {
        self.document.remove_event_listener(CHANGE, self.on_event.as_ref());
        self.end_worker();
        self.is_refused.set(true);
        if let Some(url) = self.url.get() {
            revoke_object_url(url);
        }
    }
}
