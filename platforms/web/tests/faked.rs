//! Timers where tools fake the time of JavaScript: clocks that are exchanged, and timeouts and
//! microtasks that are lost.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::UNIX_EPOCH;

use aws_smithy_async::time::TimeSource;
use tourbillon::time::Duration;
use tourbillon::{Sleep, Timer};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::JsFuture;
use wasm_bindgen_test::wasm_bindgen_test;

#[wasm_bindgen]
extern "C" {
    /// A host whose time stands still, and which runs nothing by itself.
    type Host;

    /// Puts its functions, or others of the same kind, into the place of the global ones.
    #[wasm_bindgen(method)]
    fn exchange(this: &Host, milliseconds: f64);

    /// Has its clock show so many.
    #[wasm_bindgen(method)]
    fn show(this: &Host, milliseconds: f64);

    /// Runs all microtasks.
    #[wasm_bindgen(method)]
    fn microtasks(this: &Host);

    /// Runs the timeouts that are due, and all microtasks. Returns how many timeouts were due.
    #[wasm_bindgen(method)]
    fn run(this: &Host) -> u32;

    /// Forgets all that was to be run.
    #[wasm_bindgen(method)]
    fn lose(this: &Host);

    /// Runs all timeouts, whether or not they are due, and all microtasks.
    #[wasm_bindgen(method)]
    fn hurry(this: &Host);

    /// Has `clearTimeout` do nothing, as for a timeout of another request.
    #[wasm_bindgen(method)]
    fn deafen(this: &Host);

    /// Has the next call of a function throw.
    #[wasm_bindgen(method)]
    fn refuse(this: &Host, function: &str);

    /// Milliseconds of each timeout that is set, and was neither run nor cleared.
    #[wasm_bindgen(method)]
    fn waits(this: &Host) -> Vec<f64>;

    /// Calls of `clearTimeout` with a timeout of functions that were exchanged since.
    #[wasm_bindgen(method)]
    fn mistaken(this: &Host) -> u32;

    /// Puts the real functions back.
    #[wasm_bindgen(method)]
    fn restore(this: &Host);
}

/// Runs a program of JavaScript's.
fn js<T: JsCast>(program: &str) -> T {
    let returned = js_sys::Function::new_no_args(program).call0(&JsValue::NULL);
    returned.expect("it throws nothing").unchecked_into()
}

/// Runs a test on such a host. Its timeouts are objects, as in Node.js, or numbers, or those of
/// requests, as in workerd.
fn on_host(timeouts: &str, test: fn(Host)) {
    let (numbers, requests) = (timeouts == "numbers", timeouts == "requests");
    let program = format!("const numbers = {numbers}, requests = {requests}; {HOST}");
    let run: js_sys::Function = js(&program);
    let test = Closure::once_into_js(test);
    if let Err(error) = run.call1(&JsValue::NULL, &test) {
        wasm_bindgen::throw_val(error);
    }
}

const HOST: &str = "
    const names = ['performance', 'setTimeout', 'clearTimeout', 'queueMicrotask', 'MessageChannel'];
    const real = names.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
    const put = (name, value) =>
        Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
    let refused, is_deaf, time, generation = 0, mistaken = 0, count = 0;
    let timeouts = new Map(), queued = [];
    const ask = (name) => {
        if (refused !== name) return;
        refused = undefined;
        throw new Error('as planned');
    };
    const host = {
        exchange(milliseconds) {
            const own = ++generation, clock = { milliseconds };
            time = clock;
            put('performance', { now: () => clock.milliseconds });
            put('setTimeout', (call, wait) => {
                ask('setTimeout');
                const number = ++count, set = numbers ? number : { number };
                const at = time.milliseconds + wait;
                timeouts.set(number, { call, wait, at, own });
                return set;
            });
            put('clearTimeout', (set) => {
                if (is_deaf) return;
                const number = numbers ? set : set.number;
                mistaken += timeouts.has(number) && timeouts.get(number).own !== own;
                timeouts.delete(number);
            });
            put('queueMicrotask', (call) => { ask('queueMicrotask'); queued.push(call) });
            put('MessageChannel', class {
                constructor() {
                    const port1 = this.port1 = { close() { port1.onmessage = null } };
                    this.port2 = {
                        postMessage() { queued.push(() => port1.onmessage && port1.onmessage()) },
                    };
                }
            });
        },
        show(milliseconds) { time.milliseconds = milliseconds },
        microtasks() { while (queued.length) queued.shift()() },
        deafen() { is_deaf = true },
        hurry() { host.run(Infinity) },
        run(until = time.milliseconds) {
            host.microtasks();
            const due = [...timeouts].filter(([, { at }]) => at <= until);
            for (const [number, { call }] of due) {
                if (timeouts.delete(number)) call();
                host.microtasks();
            }
            return due.length;
        },
        lose() { timeouts = new Map(); queued = [] },
        refuse(name) { refused = name },
        waits: () => Float64Array.from([...timeouts.values()].map(({ wait }) => wait)),
        mistaken: () => mistaken,
        restore() {
            // In a worker they are inherited.
            real.forEach((own, at) => own
                ? Object.defineProperty(globalThis, names[at], own)
                : delete globalThis[names[at]]);
        },
    };
    return (test) => {
        host.exchange(1000);
        if (requests) globalThis.WebSocketPair = true;
        try { test(host) } finally { host.restore(); delete globalThis.WebSocketPair }
    };";

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// With one timeout in Node.js too.
fn timer() -> Timer {
    Timer::builder().one_timeout().build().expect("the options are valid")
}

/// Polls it, and returns whether it is over.
fn is_over(sleep: &mut Sleep) -> bool {
    Pin::new(sleep).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

/// A task that counts how often it is woken.
#[derive(Default)]
struct Task(AtomicU32);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Task {
    fn new() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// Polls a sleep, and returns whether it is over.
    fn polls(self: &Arc<Self>, sleep: &mut Sleep) -> bool {
        let waker = Waker::from(Arc::clone(self));
        Pin::new(sleep).poll(&mut Context::from_waker(&waker)).is_ready()
    }

    fn woken(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A sleep that is armed.
fn armed(timer: &Timer, count: u64) -> Sleep {
    let mut sleep = timer.sleep(ms(count));
    assert!(!is_over(&mut sleep));
    sleep
}

#[wasm_bindgen_test]
fn a_clock_that_is_exchanged_continues_from_its_last_reading() {
    on_host("objects", |host| {
        host.exchange(5_000.0);
        let timer = timer();
        let start = timer.now();
        let passed = || timer.now() - start;
        host.show(5_010.5);
        assert_eq!(passed(), Duration::from_micros(10_500));
        // One that begins anew.
        let sleep = timer.sleep(ms(5));
        host.exchange(0.0);
        assert_eq!((passed(), sleep.remaining()), (Duration::from_micros(10_500), Some(ms(5))));
        host.show(4.5);
        assert_eq!((passed(), sleep.is_elapsed()), (ms(15), false));
        // One that is far ahead.
        host.exchange(1e9);
        assert_eq!((passed(), sleep.is_elapsed()), (ms(15), false));
        host.show(1e9 + 0.5);
        assert_eq!((passed(), sleep.is_elapsed()), (Duration::from_micros(15_500), true));
        host.restore();
        assert_eq!(passed(), Duration::from_micros(15_500));
    });
}

/// Kinds of timeouts.
const KINDS: [&str; 2] = ["objects", "numbers"];

#[wasm_bindgen_test]
fn a_timeout_that_the_host_has_dropped_is_set_anew_by_an_arm_once_it_is_overdue() {
    for kind in KINDS {
        on_host(kind, |host| {
            let timer = timer();
            // The second timeout of a browser's is set by way of a message.
            let mut over = armed(&timer, 1);
            host.microtasks();
            host.show(1_001.0);
            assert!(host.run() == 1 && is_over(&mut over));
            let mut dropped = armed(&timer, 10);
            host.microtasks();
            assert_eq!(host.waits(), [10.0]);
            host.lose();
            host.show(1_111.0);
            let later = armed(&timer, 1_000);
            host.microtasks();
            assert_eq!(host.waits(), [0.0; 0], "it may be late");
            host.show(1_111.5);
            let last = armed(&timer, 2_000);
            host.microtasks();
            assert_eq!(host.waits(), [0.0]);
            let turns = timer.stats().driver_wakeups;
            // It asks no more than once each time.
            let others = [300, 200, 100].map(|count| armed(&timer, count));
            host.microtasks();
            assert_eq!((host.waits().len(), timer.stats().driver_wakeups), (1, turns));
            assert_eq!((host.run(), timer.stats().fired), (1, 2));
            assert!(is_over(&mut dropped));
            assert_eq!(host.waits(), [100.0]);
            host.show(1_300.0);
            assert_eq!((host.run(), timer.stats().fired), (1, 3));
            drop((later, last, others));
            host.microtasks();
            assert_eq!(host.waits(), [0.0; 0]);
        });
    }
}

#[wasm_bindgen_test]
fn a_timeout_of_functions_that_were_exchanged_is_set_anew_by_the_next_arm() {
    for kind in KINDS {
        on_host(kind, |host| {
            let timer = timer();
            let mut first = armed(&timer, 10);
            host.microtasks();
            host.exchange(0.0);
            let second = armed(&timer, 20);
            host.microtasks();
            assert_eq!((host.waits(), host.mistaken()), (vec![10.0], 0));
            host.show(10.0);
            assert!(host.run() == 1 && is_over(&mut first));
            // Also what was asked for in a microtask.
            host.microtasks();
            drop(second);
            host.microtasks();
            let mut third = armed(&timer, 5);
            host.lose();
            host.exchange(0.0);
            let fourth = armed(&timer, 5);
            host.microtasks();
            host.show(5.0);
            assert!(host.run() == 1 && is_over(&mut third));
            drop(fourth);
        });
    }
}

#[wasm_bindgen_test]
fn a_function_of_the_host_that_throws_is_called_again_by_the_next_arm() {
    for kind in KINDS {
        on_host(kind, |host| {
            let timer = timer();
            timer.start().expect("an event loop is always there");
            host.microtasks();
            for (function, end) in [("setTimeout", 1_020.0), ("queueMicrotask", 1_040.0)] {
                host.refuse(function);
                let mut first = armed(&timer, 10);
                host.microtasks();
                assert_eq!(host.waits(), [0.0; 0], "{function}");
                let mut second = armed(&timer, 20);
                host.microtasks();
                assert_eq!(host.waits(), [10.0], "{function}");
                host.show(end);
                assert!(host.run() == 1 && is_over(&mut first) && is_over(&mut second));
            }
        });
    }
}

#[wasm_bindgen_test]
fn a_microtask_that_the_host_has_dropped_is_asked_for_again_by_an_arm_once_it_is_overdue() {
    on_host("objects", |host| {
        let timer = timer();
        let mut first = armed(&timer, 10);
        host.lose();
        host.show(1_100.0);
        let second = armed(&timer, 1_000);
        host.microtasks();
        assert_eq!(host.waits(), [0.0; 0], "it may be late");
        host.show(1_101.0);
        let third = armed(&timer, 1_000);
        host.microtasks();
        assert_eq!((host.waits(), host.run()), (vec![0.0], 1));
        assert!(is_over(&mut first));
        drop((second, third));
    });
}

#[wasm_bindgen_test]
fn a_timeout_that_is_only_late_is_not_put_off_by_those_that_arm() {
    on_host("numbers", |host| {
        let timer = timer();
        let mut first = armed(&timer, 10);
        host.microtasks();
        // A busy event loop, for which each timeout is as late as this.
        host.show(1_200.0);
        let _second = armed(&timer, 1_000);
        host.microtasks();
        host.show(1_400.0);
        let _third = armed(&timer, 1_000);
        host.microtasks();
        assert_eq!(host.waits(), [10.0, 0.0, 0.0]);
        assert!(host.run() == 3 && is_over(&mut first));
    });
}

#[wasm_bindgen_test]
fn each_sleep_of_a_request_is_woken_by_a_timeout_of_its_own() {
    on_host("requests", |host| {
        let timer = timer();
        let tasks = [Task::new(), Task::new()];
        let mut sleeps = [10, 20].map(|count| timer.sleep(ms(count)));
        for (task, sleep) in tasks.iter().zip(&mut sleeps) {
            assert!(!task.polls(sleep) && !task.polls(sleep));
        }
        host.microtasks();
        assert_eq!((host.waits(), timer.stats().pending), (vec![10.0, 20.0], 2));
        // Both are due, and the first timeout alone is run.
        host.show(1_010.0);
        assert_eq!(host.run(), 1);
        assert_eq!(tasks.each_ref().map(|task| task.woken()), [1, 0]);
        assert_eq!((timer.stats().fired, timer.stats().pending), (1, 1));
        assert!(tasks[0].polls(&mut sleeps[0]));
        host.show(1_020.0);
        assert_eq!(host.run(), 1);
        assert_eq!(tasks.each_ref().map(|task| task.woken()), [1, 1]);
        assert!(tasks[1].polls(&mut sleeps[1]));
        assert_eq!((host.run(), timer.stats().fired, timer.stats().pending), (0, 2, 0));
    });
}

#[wasm_bindgen_test]
fn no_turn_comes_to_a_sleep_with_a_timeout_of_its_own() {
    on_host("requests", |host| {
        let (timer, task) = (timer(), Task::new());
        let mut sleep = timer.sleep(ms(10));
        assert!(!task.polls(&mut sleep));
        // Due before the first turn, which the start of the driver has asked for.
        host.show(1_010.0);
        host.microtasks();
        assert_eq!((timer.stats().driver_wakeups, host.waits()), (1, vec![10.0]));
        assert!(host.run() == 1 && task.woken() == 1 && task.polls(&mut sleep));
    });
}

#[wasm_bindgen_test]
fn a_timeout_that_ends_early_wakes_nobody_and_another_is_set() {
    on_host("requests", |host| {
        let (timer, task) = (timer(), Task::new());
        let mut sleep = timer.sleep(ms(10));
        assert!(!task.polls(&mut sleep));
        host.show(1_009.5);
        host.hurry();
        assert_eq!((task.woken(), host.waits()), (0, vec![1.0]));
        host.show(1_010.0);
        host.hurry();
        assert!(task.woken() == 1 && task.polls(&mut sleep));
    });
}

#[wasm_bindgen_test]
fn a_timeout_is_kept_by_a_reset_to_later_and_set_anew_by_one_to_earlier() {
    on_host("requests", |host| {
        let (timer, task) = (timer(), Task::new());
        let mut sleep = timer.sleep(ms(10));
        assert!(!task.polls(&mut sleep));
        sleep.reset_after(ms(30));
        assert!(!task.polls(&mut sleep));
        assert_eq!(host.waits(), [10.0]);
        host.show(1_010.0);
        assert_eq!((host.run(), task.woken(), host.waits()), (1, 0, vec![20.0]));
        sleep.reset_after(ms(5));
        assert_eq!(host.waits(), [5.0]);
        // Without a deadline there is nothing to wait for, until there is one again.
        sleep.reset_after(Duration::MAX);
        host.show(1_015.0);
        assert_eq!((host.run(), task.woken(), host.waits()), (1, 0, vec![]));
        sleep.reset_after(ms(5));
        host.show(1_020.0);
        assert!(host.run() == 1 && task.woken() == 1 && task.polls(&mut sleep));
        // Completed, it has a wait again once it is polled.
        sleep.reset_after(ms(5));
        assert!(!task.polls(&mut sleep));
        assert_eq!(host.waits(), [5.0]);
    });
}

#[wasm_bindgen_test]
fn a_timeout_is_set_anew_for_another_task_and_cleared_with_its_sleep() {
    on_host("requests", |host| {
        let (timer, first, second) = (timer(), Task::new(), Task::new());
        let mut sleep = timer.sleep(ms(10));
        assert!(!first.polls(&mut sleep));
        host.show(1_004.0);
        assert!(!second.polls(&mut sleep));
        assert_eq!(host.waits(), [6.0]);
        host.show(1_010.0);
        assert_eq!((host.run(), first.woken(), second.woken()), (1, 0, 1));
        drop(sleep);
        let mut dropped = timer.sleep(ms(10));
        assert!(!first.polls(&mut dropped));
        drop(dropped);
        assert_eq!(host.waits(), [0.0; 0]);
        // A poll that is first to find the deadline past.
        let mut completed = timer.sleep(ms(10));
        assert!(!first.polls(&mut completed));
        host.show(1_020.0);
        assert!(first.polls(&mut completed));
        assert_eq!((host.waits(), timer.stats().pending), (vec![], 0));
    });
}

#[wasm_bindgen_test]
fn a_timeout_that_could_not_be_cleared_wakes_no_other_sleep() {
    on_host("requests", |host| {
        host.deafen();
        let (timer, task) = (timer(), Task::new());
        drop(armed(&timer, 5));
        // In the same place.
        let mut sleep = timer.sleep(ms(10));
        assert!(!task.polls(&mut sleep));
        // After its deadline, so that only the wrong wait could wake it.
        host.show(1_005.0);
        host.run();
        assert_eq!((task.woken(), host.waits()), (0, vec![10.0]));
        host.show(1_010.0);
        assert!(host.run() == 1 && task.woken() == 1 && task.polls(&mut sleep));
    });
}

#[wasm_bindgen_test]
fn a_callback_of_a_request_has_a_timeout_of_its_own() {
    on_host("requests", |host| {
        let (timer, calls) = (timer(), Arc::new(AtomicU32::new(0)));
        let called = Arc::clone(&calls);
        let call = move |_| {
            called.fetch_add(1, Ordering::Relaxed);
        };
        let callback = timer.interval(ms(10)).call(call);
        let waited = armed(&timer, 15);
        let _ = host.run();
        assert_eq!((calls.load(Ordering::Relaxed), host.waits()), (1, vec![15.0, 10.0]));
        host.show(1_010.0);
        assert_eq!((host.run(), calls.load(Ordering::Relaxed)), (1, 2));
        assert!(callback.reset_after(ms(1)));
        host.show(1_011.0);
        assert_eq!((host.run(), calls.load(Ordering::Relaxed)), (1, 3));
        assert!(callback.cancel());
        drop(waited);
        assert_eq!(host.waits(), [0.0; 0]);
    });
}

#[wasm_bindgen_test]
fn a_timeout_that_the_host_refuses_is_an_error_of_the_poll_and_harms_no_other_sleep() {
    on_host("requests", |host| {
        let (timer, task) = (timer(), Task::new());
        let mut other = timer.sleep(ms(10));
        assert!(!task.polls(&mut other));
        host.refuse("setTimeout");
        let poll = {
            let timer = timer.clone();
            Closure::once_into_js(move || is_over(&mut timer.sleep(ms(5))))
        };
        let poll: js_sys::Function = poll.unchecked_into();
        assert!(poll.call0(&JsValue::NULL).is_err());
        host.show(1_010.0);
        assert!(host.run() == 1 && task.polls(&mut other));
        timer.start().expect("an event loop is always there");
        let mut next = timer.sleep(ms(5));
        assert!(!task.polls(&mut next));
        assert_eq!(host.waits(), [5.0]);
    });
}

/// The same in real time, of a fake that drops what it is given.
#[wasm_bindgen_test]
async fn a_sleep_ends_after_a_fake_timeout_has_gone() {
    let program = "const real = setTimeout;
        globalThis.setTimeout = () => 1;
        return () => { globalThis.setTimeout = real }";
    let restore: js_sys::Function = js(program);
    let timer = timer();
    let mut lost = armed(&timer, 1);
    let microtasks = js_sys::Promise::resolve(&JsValue::UNDEFINED);
    JsFuture::from(microtasks).await.expect("it is never rejected");
    restore.call0(&JsValue::NULL).expect("it throws nothing");
    timer.sleep(ms(5)).await;
    assert!(is_over(&mut lost));
}

#[wasm_bindgen_test]
fn a_wall_clock_that_is_exchanged_is_the_one_that_is_read() {
    let restore: js_sys::Function = js("const real = Date;
        globalThis.Date = class extends real { static now() { return 86400000 } };
        return () => { globalThis.Date = real }");
    let wall = TimeSource::now(&Timer::global());
    restore.call0(&JsValue::NULL).expect("it throws nothing");
    assert_eq!(wall, UNIX_EPOCH + ms(86_400_000));
}
