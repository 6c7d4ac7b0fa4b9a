//! What a timer costs that is dropped before its deadline, and how late a short one ends.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;

use wasm_bindgen::prelude::*;
use wasm_bindgen_test::{console_log, wasm_bindgen_test};

#[wasm_bindgen]
extern "C" {
    /// In milliseconds.
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn now() -> f64;
}

/// The crates take turns, so that what else the machine does falls on all.
const ROUNDS: usize = 10;
const ARMED_A_ROUND: u32 = 10_000;
const SLEPT_A_ROUND: usize = 50;

const LONG: Duration = Duration::from_secs(1_000);
const SHORT_MS: f64 = 1.0;

struct Figures {
    /// Nanoseconds from the call to after the drop, in the fastest round.
    arm_and_drop: f64,
    /// Milliseconds that a sleep took beyond its own.
    late: Vec<f64>,
}

impl Figures {
    fn new() -> Self {
        Self { arm_and_drop: f64::INFINITY, late: Vec::new() }
    }

    async fn round<F: Future>(&mut self, sleep: impl Fn(Duration) -> F) {
        let begun = now();
        for _ in 0..ARMED_A_ROUND {
            let armed = pin!(sleep(LONG));
            assert!(armed.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let mean = (now() - begun) * 1e6 / f64::from(ARMED_A_ROUND);
        self.arm_and_drop = self.arm_and_drop.min(mean);
        for _ in 0..SLEPT_A_ROUND {
            let begun = now();
            sleep(Duration::from_secs_f64(SHORT_MS / 1e3)).await;
            self.late.push(now() - begun - SHORT_MS);
        }
    }

    fn print(&mut self, name: &str) {
        self.late.sort_by(f64::total_cmp);
        let late = |percent: usize| self.late[(self.late.len() - 1) * percent / 100];
        console_log!(
            "| {name} | {:.0} ns | {:.1} ms | {:.1} ms | {:.1} ms | {} of {} |",
            self.arm_and_drop,
            late(50),
            late(99),
            late(100),
            self.late.iter().filter(|late| **late < 0.0).count(),
            self.late.len(),
        );
    }
}

#[wasm_bindgen_test]
async fn beside_others() {
    let [mut ours, mut shared, mut gloo, mut wasmtimer, mut futures_timer] =
        [(); 5].map(|()| Figures::new());
    // By default it has one in Node.js for each sleep.
    let one_timeout = tourbillon::Timer::builder().one_timeout().build().expect("it is valid");
    for _ in 0..ROUNDS {
        ours.round(tourbillon::sleep).await;
        shared.round(|delay| one_timeout.sleep(delay)).await;
        gloo.round(gloo_timers::future::sleep).await;
        wasmtimer.round(wasmtimer::tokio::sleep).await;
        futures_timer.round(futures_timer::Delay::new).await;
    }
    console_log!("| crate | arm + drop | 1 ms is late by: p50 | p99 | max | early |");
    console_log!("|---|---|---|---|---|---|");
    ours.print("tourbillon");
    shared.print("tourbillon, one timeout");
    gloo.print("gloo-timers 0.4.0");
    wasmtimer.print("wasmtimer 0.4.5");
    futures_timer.print("futures-timer 3.0.4");
}
