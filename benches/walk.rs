//! The walk of one `sleep(d).await`, for `ci/instructions.sh`: valgrind collects the functions that
//! run within each of the functions here. Not a bench of Cargo's: the script compiles it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tourbillon::Sleep;

const FAR: Duration = Duration::from_secs(86_400);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn poll(sleep: &mut Sleep, waker: &Waker) -> Poll<()> {
    Pin::new(sleep).poll(&mut Context::from_waker(waker))
}

#[inline(never)]
fn walk_make(delay: Duration) -> Sleep {
    tourbillon::sleep(delay)
}

#[inline(never)]
fn walk_arm(sleep: &mut Sleep, waker: &Waker) {
    assert!(poll(sleep, waker).is_pending());
}

#[inline(never)]
fn walk_end(sleep: &mut Sleep, waker: &Waker) {
    assert!(poll(sleep, waker).is_ready());
}

#[inline(never)]
fn walk_cancel(sleep: Sleep) {
    drop(sleep);
}

/// Lets the driver park.
fn rest() {
    thread::sleep(Duration::from_millis(300));
}

fn main() {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    // Nothing allocates any more, and another timer is the earliest.
    let mut far = tourbillon::sleep(FAR / 2);
    assert!(poll(&mut far, &waker).is_pending());
    for _ in 0..100 {
        assert!(poll(&mut tourbillon::sleep(FAR), &waker).is_pending());
    }
    rest();
    let mut sleep = walk_make(FAR);
    walk_arm(&mut sleep, &waker);
    walk_cancel(sleep);
    let mut sleep = tourbillon::sleep(Duration::from_millis(100));
    assert!(poll(&mut sleep, &waker).is_pending());
    rest();
    walk_end(&mut sleep, &waker);
}
