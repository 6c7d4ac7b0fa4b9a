//! An event loop for WASI, where no thread can turn the wheels: one `poll_oneoff` waits for timers
//! and for the standard input.
//!
//! ```text
//! (echo hello; sleep 0.2; echo world; sleep 1) |
//!     python3 platforms/wasi/run.py tourbillon-wasi.wasm
//! ```
//!
//! A task ticks. Another reads until the input ends, or is silent for too long.

use std::cell::Cell;
use std::future::{self, Future};
use std::io::{self, BufRead as _};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_util::future::join;
use tourbillon::Timer;
use tourbillon::driver::Driver;

const STDIN: wasi::Fd = 0;
const SILENCE: Duration = Duration::from_millis(300);
const PERIOD: Duration = Duration::from_millis(20);

/// Whether the task is to be polled again.
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Who waits for the standard input.
#[derive(Default)]
struct Input {
    waker: Cell<Option<Waker>>,
    readable: Cell<bool>,
}

impl Input {
    async fn readable(&self) {
        future::poll_fn(|cx| {
            if self.readable.take() {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// Runs the task, and turns the wheels before each wait.
fn run<F: Future>(driver: &mut Driver, input: &Input, task: F) -> io::Result<F::Output> {
    let woken = Arc::new(Woken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&woken));
    let mut task = pin!(task);
    loop {
        while woken.0.swap(false, Ordering::Relaxed) {
            if let Poll::Ready(output) = task.as_mut().poll(&mut Context::from_waker(&waker)) {
                return Ok(output);
            }
        }
        // The last before the wait, since it says until when.
        driver.turn();
        if !woken.0.load(Ordering::Relaxed) {
            wait(driver.max_wait(), input)?;
        }
    }
}

/// Waits for what is first: the input, if somebody waits for it, or the end of `limit`.
fn wait(limit: Option<Duration>, input: &Input) -> io::Result<()> {
    let mut subscriptions = Vec::with_capacity(2);
    if let Some(limit) = limit {
        let clock = wasi::SubscriptionClock {
            id: wasi::CLOCKID_MONOTONIC,
            timeout: limit.as_nanos().try_into().unwrap_or(u64::MAX),
            precision: 0,
            flags: 0,
        };
        subscriptions.push(subscription(wasi::EVENTTYPE_CLOCK, wasi::SubscriptionUU { clock }));
    }
    let reader = input.waker.take();
    if reader.is_some() {
        let fd_read = wasi::SubscriptionFdReadwrite { file_descriptor: STDIN };
        subscriptions.push(subscription(wasi::EVENTTYPE_FD_READ, wasi::SubscriptionUU { fd_read }));
    }
    let mut events = Vec::with_capacity(subscriptions.len());
    // SAFETY: each subscription has what its tag says, and there is room for an event of each.
    let count = unsafe {
        wasi::poll_oneoff(subscriptions.as_ptr(), events.as_mut_ptr(), subscriptions.len())
    };
    let count = count.map_err(|error| io::Error::from_raw_os_error(error.raw().into()))?;
    // SAFETY: it has written so many.
    unsafe { events.set_len(count) };
    input.waker.set(reader);
    if events.iter().any(|event: &wasi::Event| event.type_ == wasi::EVENTTYPE_FD_READ) {
        input.readable.set(true);
        input.waker.take().expect("it was subscribed for").wake();
    }
    Ok(())
}

fn subscription(tag: wasi::Eventtype, u: wasi::SubscriptionUU) -> wasi::Subscription {
    wasi::Subscription { userdata: 0, u: wasi::SubscriptionU { tag: tag.raw(), u } }
}

fn main() -> io::Result<()> {
    let (timer, mut driver) = Timer::builder().build_manual(|| {})?;
    // Now `tourbillon::sleep` and the like work too, in every dependency.
    Timer::set_global(timer.clone()).expect("nothing has slept yet");

    let input = Input::default();
    let (start, reading) = (timer.now(), Cell::new(true));
    let log = |what: &str| println!("{:3} ms: {what}", start.elapsed().as_millis());
    let ticks = async {
        let mut interval = tourbillon::interval(PERIOD);
        let mut count = 0;
        while reading.get() {
            interval.tick().await;
            count += 1;
        }
        count
    };
    let bytes = async {
        let mut total = 0;
        let end = loop {
            if tourbillon::timeout(SILENCE, input.readable()).await.is_err() {
                break "there was silence";
            }
            let mut stdin = io::stdin().lock();
            // All of it, since what stays in the buffer does not make the descriptor readable.
            let length = stdin.fill_buf()?.len();
            stdin.consume(length);
            if length == 0 {
                break "the input has ended";
            }
            log(&format!("{length} bytes"));
            total += length;
        };
        reading.set(false);
        log(end);
        io::Result::Ok(total)
    };
    let (ticks, bytes) = run(&mut driver, &input, join(ticks, bytes))?;
    println!("{} bytes, {ticks} ticks, {} timers fired", bytes?, timer.stats().fired);
    Ok(())
}
