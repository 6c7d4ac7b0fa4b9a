//! A command-line tool for Node.js, Deno and Bun: ends once its work is done, and not at the limit
//! of an hour.

use std::time::Duration;

use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = console)]
    fn log(line: &str);
}

async fn work() -> u32 {
    tourbillon::sleep(Duration::from_millis(5)).await;
    42
}

fn main() {
    spawn_local(async {
        let answer = tourbillon::timeout(Duration::from_secs(3600), work()).await;
        log(&format!("{answer:?}"));
    });
}
