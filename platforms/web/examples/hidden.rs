//! Two timers of a page that is hidden, one of them with a worker; each sleeps again and again.

use std::time::Duration;

use tourbillon::Timer;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::spawn_local;

#[wasm_bindgen]
extern "C" {
    /// The page's.
    fn woke(who: &str);
}

async fn sleep_again_and_again(timer: Timer, who: &'static str) {
    loop {
        timer.sleep(Duration::from_millis(50)).await;
        woke(who);
    }
}

fn main() {
    let plain = Timer::builder().build().expect("the options are valid");
    let helped = Timer::builder().worker_while_hidden().build().expect("the options are valid");
    spawn_local(sleep_again_and_again(plain, "plain"));
    spawn_local(sleep_again_and_again(helped, "helped"));
}
