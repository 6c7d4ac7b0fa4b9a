//! The stream adapters over a stream of ticks, on a virtual clock.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream;
use tourbillon::StreamExt;
use tourbillon::virtual_time::VirtualClock;

use crate::support::*;

/// Takes `count` items.
fn take<S: Stream>(clock: &VirtualClock, count: usize, stream: S) {
    let mut stream = Box::pin(stream);
    for _ in 0..count {
        let next = clock.block_on(poll_fn(|cx| Pin::as_mut(&mut stream).poll_next(cx)));
        assert!(next.is_some());
    }
}

#[test]
fn every_adapter_gives_items_and_is_dropped_with_its_sleep_armed() {
    let (timer, clock) = virtual_timer();
    let ticks = |span| timer.interval(span);
    take(&clock, 3, ticks(2 * SECOND).on_timer(&timer).timeout(SECOND).into_stream());
    take(&clock, 3, ticks(2 * SECOND).timeout_repeating(timer.interval(SECOND)));
    take(&clock, 3, ticks(SECOND).on_timer(&timer).throttle(2 * SECOND).into_stream());
    take(&clock, 3, ticks(3 * SECOND).on_timer(&timer).debounce(SECOND).into_stream());
    take(&clock, 3, ticks(SECOND).on_timer(&timer).chunks_timeout(4, 2 * SECOND).into_stream());
    take(&clock, 3, ticks(SECOND).on_timer(&timer).sample(2 * SECOND).into_stream());
    assert_eq!(timer.stats().pending, 0);
}
