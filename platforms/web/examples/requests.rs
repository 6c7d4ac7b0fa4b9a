//! Sleeps of requests, for hosts where a task belongs to the request or the context that began it:
//! workerd, and Node.js, Deno and Bun with `AsyncLocalStorage`. `platforms/web/requests` calls it.

use std::time::Duration;

use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

/// Sleeps, and then calls `read` in the poll that ends the sleep. Resolves to its result.
#[wasm_bindgen]
pub fn answer(milliseconds: u32, read: js_sys::Function) -> js_sys::Promise {
    future_to_promise(async move {
        tourbillon::sleep(Duration::from_millis(milliseconds.into())).await;
        read.call0(&JsValue::NULL)
    })
}

/// Sleeps armed at present.
#[wasm_bindgen]
pub fn pending() -> u32 {
    u32::try_from(tourbillon::Timer::global().stats().pending).expect("they are few")
}

fn main() {}
