//! Timers on an event loop: of Node.js, of a page, and of a worker.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use aws_smithy_async::rt::sleep::AsyncSleep;
use aws_smithy_async::time::TimeSource;
use futures_util::future::{self, Either};
use futures_util::stream::{self, StreamExt as _};
use tourbillon::queue::DelayQueue;
use tourbillon::time::{Duration, Instant, SystemTime};
use tourbillon::timer::ClockKind;
use tourbillon::virtual_time::VirtualClock;
use tourbillon::{FutureExt as _, Sleep, StreamExt as _, Timer};
use tourbillon_cron::{Cron, Schedule as _};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen]
extern "C" {
    #[wasm_bindgen(js_namespace = performance, js_name = now)]
    fn performance_now() -> f64;

    #[wasm_bindgen(js_name = setTimeout)]
    fn set_timeout(handler: &js_sys::Function, milliseconds: i32) -> JsValue;
}

const HOUR: Duration = Duration::from_secs(3600);

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// With one timeout in Node.js too.
fn timer() -> Timer {
    Timer::builder().one_timeout().build().expect("the options are valid")
}

fn milliseconds(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}

/// Waits by the browser's own timer.
async fn js_sleep(milliseconds: i32) {
    let promise = js_sys::Promise::new(&mut |resolve, _| {
        set_timeout(&resolve, milliseconds);
    });
    JsFuture::from(promise).await.expect("it is never rejected");
}

/// Keeps the event loop from all else.
fn block_for(span: Duration) {
    let start = Instant::now();
    while start.elapsed() < span {}
}

async fn is_pending(sleep: &mut Sleep) -> bool {
    let ready = pin!(future::ready(()));
    matches!(future::select(sleep, ready).await, Either::Right(_))
}

#[wasm_bindgen_test]
async fn a_timer_has_one_shard() {
    let timer = timer();
    assert_eq!((timer.stats().shards, Timer::global().stats().shards), (1, 1));
    let asked = Timer::builder().shards(8).build().expect("the options are valid");
    assert_eq!(asked.stats().shards, 1);
}

#[wasm_bindgen_test]
async fn sleeps_are_never_early_by_the_clock_of_the_browser() {
    for micros in [1, 300, 1_000, 1_500, 4_000, 20_700] {
        let (start, delay) = (performance_now(), Duration::from_micros(micros));
        tourbillon::sleep(delay).await;
        let passed = performance_now() - start;
        // The clock hands out a floating-point number of milliseconds.
        assert!(passed >= milliseconds(delay) - 1e-6, "{delay:?} took {passed} ms");
    }
}

#[wasm_bindgen_test]
async fn ten_thousand_timers_fire_and_none_early() {
    let timer = timer();
    let start = Instant::now();
    let sleeps = (0..10_000).map(|n| Duration::from_micros(n * 7_919 % 100_000)).map(|delay| {
        let sleep = timer.sleep_until(start + delay);
        async move {
            sleep.await;
            assert!(Instant::now() >= start + delay);
        }
    });
    future::join_all(sleeps).await;
    let stats = timer.stats();
    assert!(stats.pending == 0, "{stats:?}");
}

#[wasm_bindgen_test]
async fn a_blocked_event_loop_delays_timers_and_loses_none() {
    let timer = timer();
    let mut sleeps = [100, 50, 150, 3600_000].map(|delay| timer.sleep(ms(delay)));
    for sleep in &mut sleeps {
        assert!(is_pending(sleep).await);
    }
    js_sleep(0).await;
    block_for(ms(200));
    let [first, second, third, mut hour] = sleeps;
    future::join3(first, second, third).await;
    assert!(is_pending(&mut hour).await);
}

/// A timeout is set for the first, and the second is polled for the first time.
#[wasm_bindgen_test]
async fn polls_after_work_that_outlasts_the_deadlines_find_them_past() {
    let timer = timer();
    let mut first = timer.sleep(ms(400));
    assert!(is_pending(&mut first).await);
    js_sleep(0).await;
    let mut second = timer.sleep(ms(410));
    block_for(ms(410));
    assert!(!is_pending(&mut second).await, "the first poll");
    assert!(!is_pending(&mut first).await, "a later poll");
}

#[wasm_bindgen_test]
async fn an_earlier_timer_does_not_wait_for_a_later_one() {
    let mut hour = tourbillon::sleep(HOUR);
    assert!(is_pending(&mut hour).await);
    js_sleep(5).await;
    tourbillon::sleep(ms(5)).await;
    assert!(is_pending(&mut hour).await);
    hour.reset_after(ms(3));
    hour.await;
}

#[wasm_bindgen_test]
async fn what_is_further_off_than_a_timeout_can_be_does_not_fire_at_once() {
    let timer = timer();
    // setTimeout takes 24.8 days, and fires at once beyond.
    let mut sleep = timer.sleep(30 * 24 * HOUR);
    assert!(is_pending(&mut sleep).await);
    js_sleep(20).await;
    assert!(is_pending(&mut sleep).await);
    assert_eq!((timer.stats().fired, timer.stats().pending), (0, 1));
    assert_eq!(timer.stats().driver_wakeups, 1, "the timeout is still to come");
}

#[wasm_bindgen_test]
async fn many_timers_that_are_armed_in_one_go_cost_one_microtask_and_one_timeout() {
    let timer = timer();
    let mut sleeps: Vec<_> = (0..1000).rev().map(|n| timer.sleep(HOUR + ms(n))).collect();
    for sleep in &mut sleeps {
        assert!(is_pending(sleep).await);
    }
    js_sleep(5).await;
    assert_eq!(timer.stats().driver_wakeups, 1);
    drop(sleeps);
    js_sleep(5).await;
    assert_eq!((timer.stats().cancelled, timer.stats().driver_wakeups), (1000, 2));
}

#[wasm_bindgen_test]
async fn the_microtask_fires_nothing() {
    let timer = timer();
    let mut sleep = timer.sleep(ms(50));
    assert!(is_pending(&mut sleep).await);
    // It is due by the time that the microtask runs.
    block_for(ms(50));
    let microtasks = js_sys::Promise::resolve(&JsValue::UNDEFINED);
    JsFuture::from(microtasks).await.expect("it is never rejected");
    assert_eq!((timer.stats().driver_wakeups, timer.stats().fired), (1, 0));
    js_sleep(5).await;
    assert_eq!(timer.stats().fired, 1);
}

#[wasm_bindgen_test]
async fn a_timeout_whose_place_an_earlier_one_takes_is_cleared() {
    let timer = timer();
    let mut later = timer.sleep(ms(500));
    assert!(is_pending(&mut later).await);
    js_sleep(0).await;
    let mut earlier = timer.sleep(ms(20));
    assert!(is_pending(&mut earlier).await);
    drop(later);
    earlier.await;
    let wakeups = timer.stats().driver_wakeups;
    js_sleep(520).await;
    assert_eq!(timer.stats().driver_wakeups, wakeups);
}

/// Watches the timeouts that are set from now on until its end, and whether a message came right
/// before each.
fn watch_timeouts() -> js_sys::Function {
    let watch = "const { setTimeout: set, MessageChannel: Channel } = globalThis;
        const counts = [0, 0, 0];
        let handled = false;
        globalThis.setTimeout = (call, wait) => {
            counts[handled ? 1 : 0] += 1;
            return set(call, wait);
        };
        globalThis.MessageChannel = class {
            constructor() {
                counts[2] += 1;
                const { port1, port2 } = new Channel();
                const handle = (handler) => handler && (() => {
                    handled = true;
                    try { handler() } finally { handled = false }
                });
                this.port1 = {
                    set onmessage(handler) { port1.onmessage = handle(handler) },
                    close() { port1.close() },
                };
                this.port2 = port2;
            }
        };
        return () => {
            Object.assign(globalThis, { setTimeout: set, MessageChannel: Channel });
            return counts;
        };";
    let stop = js_sys::Function::new_no_args(watch).call0(&JsValue::NULL);
    stop.expect("it throws nothing").unchecked_into()
}

#[wasm_bindgen_test]
async fn no_timeout_is_set_from_within_another_where_that_would_make_it_late() {
    // An object, as in Node.js, belongs to no page.
    let is_counted = !set_timeout(&js_sys::Function::new_no_args(""), 0).is_object();
    let timer = timer();
    let stop = watch_timeouts();
    let mut waits = 0.0;
    for _ in 0..10 {
        let mut sleep = pin!(timer.sleep(Duration::from_micros(1_500)));
        // Where the deadline has passed by the first poll, nothing is waited for.
        future::poll_fn(|context| {
            let polled = sleep.as_mut().poll(context);
            waits += f64::from(u8::from(polled.is_pending()));
            polled
        })
        .await;
    }
    let stopped = stop.call0(&JsValue::NULL).expect("it throws nothing");
    let counts = js_sys::Array::from(&stopped);
    let [direct, after_message, channels] =
        [0, 1, 2].map(|index| counts.get(index).as_f64().expect("a number"));
    if is_counted {
        // The first one tells what sort of timeouts there are. A timeout that ends early, by the
        // clock's resolution, is followed by another. There is a channel for each sleep that needs
        // one, as nothing is waited for between two.
        let each = waits - 1.0..=waits;
        assert!(direct == 1.0 && each.contains(&channels), "{direct}, {channels} of {waits}");
        assert!(after_message >= waits - 1.0, "{after_message} of {waits}");
    } else {
        assert_eq!((after_message, channels), (0.0, 0.0), "a port keeps a process from ending");
        assert!(direct >= waits, "{direct} of {waits}");
    }
}

/// Makes timeouts numbers, as in Deno before 2.8 and under jsdom, and gives the host the kind of
/// channels that `channels`, of JavaScript, makes of its own. Until the end that it returns.
fn numbering_timeouts(channels: &str) -> js_sys::Function {
    let numbering = "const { setTimeout: set, MessageChannel: Channel } = globalThis;
        globalThis.setTimeout = (call, wait) => Number(set(call, wait));
        globalThis.listening = 0;
        const end = () => Object.assign(globalThis, { setTimeout: set, MessageChannel: Channel });";
    let code = format!("{numbering} {channels}; return end");
    let end = js_sys::Function::new_no_args(&code).call0(&JsValue::NULL);
    end.expect("it throws nothing").unchecked_into()
}

#[wasm_bindgen_test]
async fn a_port_listens_only_while_something_is_waited_for() {
    // An open port keeps a process from ending.
    let end = numbering_timeouts(
        "globalThis.MessageChannel = function () {
            const channel = new Channel();
            const { port1 } = channel;
            const close = port1.close;
            port1.close = () => { globalThis.listening -= 1; close.call(port1) };
            globalThis.listening += 1;
            return channel;
        }",
    );
    let listening = js_sys::Function::new_no_args("return globalThis.listening");
    let listening = || listening.call0(&JsValue::NULL).ok().and_then(|count| count.as_f64());
    let timer = timer();
    for _ in 0..3 {
        let mut hour = timer.sleep(HOUR);
        assert!(is_pending(&mut hour).await);
        timer.sleep(ms(2)).await;
        timer.sleep(ms(2)).await;
        js_sleep(0).await;
        assert_eq!(listening(), Some(1.0));
        drop(hour);
        js_sleep(0).await;
        assert_eq!(listening(), Some(0.0));
    }
    end.call0(&JsValue::NULL).expect("it throws nothing");
}

#[wasm_bindgen_test]
async fn no_timer_is_lost_where_timeouts_are_numbers_and_there_are_no_messages() {
    let end = numbering_timeouts("delete globalThis.MessageChannel");
    let timer = timer();
    let mut hour = timer.sleep(HOUR);
    assert!(is_pending(&mut hour).await);
    for _ in 0..10 {
        timer.sleep(Duration::from_micros(1_500)).await;
    }
    assert_eq!((timer.stats().fired, timer.stats().waker_panics), (10, 0));
    end.call0(&JsValue::NULL).expect("it throws nothing");
}

/// Hides the page, if there is one, has its timeouts never end, and counts the workers that are
/// made and that are not ended. `worker`, of JavaScript, is how each is made. Until the end that it
/// returns, which returns whether there is a page, and those counts.
fn hiding(worker: &str) -> js_sys::Function {
    let hiding = "const { setTimeout: set, Worker: Of } = globalThis;
        const page = globalThis.document;
        const counts = [page ? 1 : 0, 0];
        globalThis.workers = 0;
        globalThis.Worker = function (url) {
            counts[1] += 1;
            const made = make(url);
            const { terminate } = made;
            globalThis.workers += 1;
            made.terminate = () => { globalThis.workers -= 1; terminate.call(made) };
            return made;
        };
        const show = (is_hidden) => {
            if (!page) return;
            Object.defineProperty(page, 'hidden', { value: is_hidden, configurable: true });
            page.dispatchEvent(new Event('visibilitychange'));
        };
        if (page) globalThis.setTimeout = () => 1;
        show(true);
        return () => {
            show(false);
            Object.assign(globalThis, { setTimeout: set, Worker: Of });
            if (page) delete page.hidden;
            return [...counts, globalThis.workers];
        }";
    let code = format!("const make = (url) => {{ {worker} }}; {hiding}");
    let end = js_sys::Function::new_no_args(&code).call0(&JsValue::NULL);
    end.expect("it throws nothing").unchecked_into()
}

/// Calls the end of [`hiding`].
fn shown(end: &js_sys::Function) -> (bool, f64, f64) {
    let counts = js_sys::Array::from(&end.call0(&JsValue::NULL).expect("it throws nothing"));
    let count = |index| counts.get(index).as_f64().expect("a number");
    (count(0) != 0.0, count(1), count(2))
}

fn with_worker() -> Timer {
    Timer::builder().one_timeout().worker_while_hidden().build().expect("the options are valid")
}

#[wasm_bindgen_test]
async fn a_worker_ends_the_waits_of_a_hidden_page_alone_and_ends_as_it_is_shown() {
    let timer = with_worker();
    let mut before = timer.sleep(ms(30));
    assert!(is_pending(&mut before).await);
    let end = hiding("return new Of(url)");
    before.await;
    for _ in 0..3 {
        timer.sleep(ms(2)).await;
    }
    // One that the page's own timeout has to end.
    let mut after = timer.sleep(ms(30));
    assert!(is_pending(&mut after).await);
    let (is_page, made, left) = shown(&end);
    assert_eq!((made, left), (f64::from(u8::from(is_page)), 0.0));
    after.await;
}

#[wasm_bindgen_test]
async fn a_timer_that_has_gone_leaves_no_worker() {
    let end = hiding("return new Of(url)");
    let timer = with_worker();
    // So long that it is not over at the first poll.
    timer.sleep(ms(300)).await;
    drop(timer);
    let microtasks = js_sys::Promise::resolve(&JsValue::UNDEFINED);
    JsFuture::from(microtasks).await.expect("it is never rejected");
    // While the page is hidden still.
    assert_eq!(workers(), Some(0.0));
    let (is_page, made, _) = shown(&end);
    assert_eq!(made, f64::from(u8::from(is_page)));
}

/// Workers that are left, of those made since [`hiding`].
fn workers() -> Option<f64> {
    let left = js_sys::Function::new_no_args("return globalThis.workers");
    left.call0(&JsValue::NULL).ok().and_then(|count| count.as_f64())
}

#[wasm_bindgen_test]
async fn a_timer_that_has_gone_after_a_trap_leaves_no_worker() {
    let caught = catching();
    let end = hiding("return new Of(url)");
    let timer = with_worker();
    timer.sleep(ms(2)).call(|| wasm_bindgen::throw_str("as planned")).detach();
    timer.sleep(ms(20)).await;
    assert_eq!(timer.stats().waker_panics, 1);
    drop(timer);
    let microtasks = js_sys::Promise::resolve(&JsValue::UNDEFINED);
    JsFuture::from(microtasks).await.expect("it is never rejected");
    assert_eq!(workers(), Some(0.0));
    shown(&end);
    caught.call0(&JsValue::NULL).expect("it throws nothing");
}

#[wasm_bindgen_test]
async fn a_worker_that_is_refused_makes_no_timer_wait_for_it() {
    let timer = with_worker();
    let end = hiding("throw new Error('as planned')");
    let mut sleep = timer.sleep(ms(5));
    assert!(is_pending(&mut sleep).await);
    let (_, _, left) = shown(&end);
    sleep.await;
    assert_eq!((timer.stats().fired, timer.stats().waker_panics, left), (1, 0, 0.0));
}

#[wasm_bindgen_test]
async fn a_worker_whose_program_is_refused_makes_no_timer_wait_for_it() {
    let refusal = "const { createObjectURL } = URL;
        URL.createObjectURL = () => { throw new Error('as planned') };
        return () => Object.assign(URL, { createObjectURL })";
    let refusal = js_sys::Function::new_no_args(refusal).call0(&JsValue::NULL);
    let allow: js_sys::Function = refusal.expect("it throws nothing").unchecked_into();
    let timer = with_worker();
    let end = hiding("return new Of(url)");
    let mut sleep = timer.sleep(ms(5));
    assert!(is_pending(&mut sleep).await);
    let microtasks = js_sys::Promise::resolve(&JsValue::UNDEFINED);
    JsFuture::from(microtasks).await.expect("it is never rejected");
    allow.call0(&JsValue::NULL).expect("it throws nothing");
    let (_, made, _) = shown(&end);
    sleep.await;
    assert_eq!((timer.stats().fired, timer.stats().waker_panics, made), (1, 0, 0.0));
}

#[wasm_bindgen_test]
async fn nothing_is_waited_for_once_the_last_sleep_is_dropped() {
    let timer = timer();
    let wakeups = || timer.stats().driver_wakeups;
    let [mut first, mut last] = [HOUR, 2 * HOUR].map(|delay| timer.sleep(delay));
    assert!(is_pending(&mut first).await && is_pending(&mut last).await);
    js_sleep(0).await;
    assert_eq!(wakeups(), 1);
    drop(first);
    js_sleep(0).await;
    assert_eq!(wakeups(), 1, "what is left is waited for");
    drop(last);
    js_sleep(0).await;
    assert_eq!(wakeups(), 2, "the timeout was cleared");
    // Later than what was forgotten, and waited for.
    let mut hours = timer.sleep(3 * HOUR);
    assert!(is_pending(&mut hours).await);
    js_sleep(0).await;
    assert_eq!(wakeups(), 3);
    // Another is armed before the event loop gets to it.
    drop(hours);
    timer.sleep(ms(2)).await;
    assert_eq!((timer.stats().fired, timer.stats().pending), (1, 0));
}

#[wasm_bindgen_test]
async fn a_task_that_sleeps_again_and_again_lets_others_run() {
    let done = Rc::new(Cell::new(false));
    let set = Closure::once_into_js({
        let done = Rc::clone(&done);
        move || done.set(true)
    });
    set_timeout(set.unchecked_ref(), 5);
    while !done.get() {
        tourbillon::sleep(Duration::from_micros(200)).await;
    }
}

#[wasm_bindgen_test]
async fn a_timer_ends_with_its_last_sleep_and_a_sleep_starts_it_again() {
    let timer = timer();
    timer.start().expect("an event loop is always there");
    let (first, second) = (timer.sleep(ms(2)), timer.sleep(ms(30)));
    drop(timer);
    first.await;
    js_sleep(5).await;
    second.await;
}

#[wasm_bindgen_test]
async fn timeouts_intervals_queues_and_streams_work() {
    let mut interval = tourbillon::interval(ms(2));
    let start = interval.tick().await;
    assert_eq!(interval.tick().await, start + ms(2));
    assert!(tourbillon::timeout(ms(3), future::pending::<()>()).await.is_err());
    assert_eq!(async { 7 }.timeout(HOUR).await, Ok(7));

    let mut queue = DelayQueue::new();
    let now = Instant::now();
    let later = queue.insert_at("later", now + HOUR);
    queue.insert_at("sooner", now + ms(2));
    assert_eq!(queue.next().await.map(|expired| expired.into_inner()), Some("sooner"));
    assert_eq!(queue.remove(&later).into_inner(), "later");

    let throttled: Vec<_> = stream::iter(0..3).throttle(ms(2)).collect().await;
    assert_eq!(throttled, [0, 1, 2]);

    let target = SystemTime::now() + ms(5);
    tourbillon::wall::sleep_until_wall(target).await;
    assert!(SystemTime::now() >= target);
    assert!(Timer::builder().clock(ClockKind::Boottime).build().is_err());
}

#[wasm_bindgen_test]
async fn schedules_and_the_timers_of_other_crates_work() {
    let start = SystemTime::now();
    let mut seconds = Cron::parse("* * * * * *", "Europe/Berlin").expect("it is valid").ticks();
    let tick = seconds.next().await.expect("it never ends");
    assert!(start < tick.scheduled() && tick.scheduled() <= SystemTime::now());
    let shown = seconds.schedule().zoned(tick.scheduled()).expect("it is within range");
    assert!(shown.to_string().ends_with("[Europe/Berlin]"), "{shown}");

    let timer: &dyn AsyncSleep = &Timer::global();
    timer.sleep(ms(2)).await;
    let now = TimeSource::now(&Timer::global());
    assert!(now.duration_since(UNIX_EPOCH).expect("it is later") > 50 * 365 * 24 * HOUR);
}

#[wasm_bindgen_test]
async fn calls_are_made_from_the_event_loop() {
    let called = Arc::new(AtomicBool::new(false));
    let call = Arc::clone(&called);
    tourbillon::sleep(ms(2)).call(move || call.store(true, Ordering::Relaxed)).detach();
    while !called.load(Ordering::Relaxed) {
        js_sleep(1).await;
    }
}

/// Catches exceptions that end a timeout, which would end Node.js and fail the tests. Returns a
/// function that says how many there were.
fn catching() -> js_sys::Function {
    let wrap = "if (!globalThis.caught) {
        globalThis.caught = 0;
        const set = globalThis.setTimeout;
        globalThis.setTimeout = (call, wait) => set(() => {
            try { call() } catch { globalThis.caught += 1 }
        }, wait);
    }";
    js_sys::Function::new_no_args(wrap).call0(&JsValue::NULL).expect("it throws nothing");
    js_sys::Function::new_no_args("return globalThis.caught")
}

#[wasm_bindgen_test]
async fn a_call_that_traps_ends_no_other_timer_and_is_counted() {
    let caught = catching();
    let traps = || caught.call0(&JsValue::NULL).ok().and_then(|count| count.as_f64());
    let before = traps().expect("a number");
    let timer = timer();
    let called = Arc::new(Mutex::new(Vec::new()));
    let calls = Arc::clone(&called);
    for number in 0..6 {
        let called = Arc::clone(&called);
        let call = move || {
            called.lock().expect("it is not poisoned").push(number);
            // A trap, as panics are; and an exception of JavaScript's.
            match number {
                1 => std::process::abort(),
                3 => wasm_bindgen::throw_str("as planned"),
                _ => {}
            }
        };
        timer.sleep(ms(5)).call(call).detach();
    }
    let mut hour = timer.sleep(HOUR);
    assert!(is_pending(&mut hour).await);
    for _ in 0..1_000 {
        if calls.lock().expect("it is not poisoned").len() == 6 {
            break;
        }
        js_sleep(1).await;
    }
    assert_eq!(*calls.lock().expect("it is not poisoned"), [0, 1, 2, 3, 4, 5]);
    // What was armed before, and what is armed after.
    timer.sleep(ms(2)).await;
    hour.reset_after(ms(3));
    hour.await;
    let stats = timer.stats();
    assert_eq!((stats.waker_panics, stats.pending), (2, 0));
    assert_eq!(traps(), Some(before + 2.0));
}

#[wasm_bindgen_test]
async fn virtual_clocks_and_loops_of_ones_own_work_as_anywhere() {
    let clock = VirtualClock::new();
    let timer = Timer::builder().virtual_clock(&clock).build().expect("the options are valid");
    let mut sleep = timer.sleep(HOUR);
    assert!(is_pending(&mut sleep).await);
    assert_eq!(clock.advance(HOUR), 1);
    sleep.await;

    let (timer, mut driver) = Timer::builder().build_manual(|| {}).expect("the options are valid");
    let mut sleep = timer.sleep(ms(1));
    assert!(is_pending(&mut sleep).await);
    block_for(ms(2));
    assert_eq!(driver.turn().fired, 1);
    sleep.await;
}
