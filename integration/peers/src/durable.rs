//! Timers of this repository.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant, SystemTime};

use tourbillon_durable::store::{NewTimer, Postgres};
use tourbillon_durable::{Client, Engine, Fire, Store as _, Time, TimerId};

use crate::Result;
use crate::peer::{BATCH, Call, FAR, KIND, STARTS, Settings, dues, print_rate};

pub(crate) fn answer(call: &Call) -> Result<()> {
    match call {
        Call::Prepare { address } => drop(Postgres::connect(address)?),
        Call::Single { address, span, callers } => {
            let client = Client::new(Box::new(Postgres::connect(address)?))?;
            let began = Instant::now();
            let callers: Vec<_> = (0..*callers)
                .map(|_| {
                    let (client, span) = (client.clone(), *span);
                    thread::spawn(move || one_by_one(&client, span))
                })
                .collect();
            let mut count = 0;
            for caller in callers {
                count += caller.join().expect("a caller panicked")?;
            }
            print_rate(count, began);
        }
        Call::Batch { address, count, from_ms, span_ms } => {
            let mut store = Postgres::connect(address)?;
            let began = Instant::now();
            for part in dues(*count, *from_ms, *span_ms).chunks(BATCH) {
                let timers: Vec<_> = part.iter().map(|due_ms| timer(*due_ms)).collect();
                store.insert(&timers)?;
            }
            print_rate(*count, began);
        }
        Call::Work { address, settings } => work(address, *settings)?,
    }
    Ok(())
}

fn timer(due_ms: i64) -> NewTimer {
    let id = TimerId::new(SystemTime::now().into());
    let mut timer = NewTimer::new(id, KIND, Time::from_micros(due_ms * 1_000));
    timer.payload = due_ms.to_string().into_bytes();
    timer
}

fn one_by_one(client: &Client, span: Duration) -> Result<usize> {
    let began = Instant::now();
    let mut count = 0;
    while began.elapsed() < span {
        let due = SystemTime::now() + FAR;
        wait(client.once(KIND, due).payload(*b"0123456789123").create())?;
        count += 1;
    }
    Ok(count)
}

fn work(address: &str, settings: Settings) -> Result<()> {
    let (connections, prefetch) = match settings {
        Settings::Default => (1, 1_000),
        Settings::One => (1, 10_000),
        Settings::Fast => (4, 10_000),
    };
    let store = Box::new(Postgres::connect(address)?);
    let engine = Engine::builder().connections(connections).start(store)?;
    let mut worker = engine.worker(KIND, prefetch);
    let mut held: Vec<Fire> = Vec::new();
    while let Some(fire) = wait(worker.next()) {
        STARTS.note(std::str::from_utf8(fire.payload())?.parse::<i64>()? * 1_000);
        if STARTS.hangs() {
            held.push(fire);
        } else {
            // It takes effect without being waited for.
            drop(fire.complete());
        }
    }
    Ok(())
}

/// Waits for a future on this thread.
fn wait<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
