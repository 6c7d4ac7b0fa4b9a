//! A time driver for embassy-time over its own queue, with which sleeps of this crate are compared.
//! The program has `ticks`, a thousand a second.

use core::cell::RefCell;
use core::task::Waker;

use critical_section::Mutex;
use embassy_time::TICK_HZ;
use embassy_time_driver::Driver as _;
use embassy_time_queue_utils::Queue;

/// Bytes of the queue, which has places for sixteen wakers.
#[allow(dead_code, reason = "one program asks")]
pub const SIZE: usize = size_of::<Queue>();

struct TimeDriver(Mutex<RefCell<Queue>>);

embassy_time_driver::time_driver_impl!(static TIME: TimeDriver =
    TimeDriver(Mutex::new(RefCell::new(Queue::new()))));

impl embassy_time_driver::Driver for TimeDriver {
    fn now(&self) -> u64 {
        crate::ticks() * (TICK_HZ / 1_000)
    }

    fn schedule_wake(&self, at: u64, waker: &Waker) {
        critical_section::with(|section| self.0.borrow_ref_mut(section).schedule_wake(at, waker));
    }
}

/// Wakes those whose time has come, as drivers of chips do in an interrupt handler.
pub fn turn() {
    critical_section::with(|section| {
        TIME.0.borrow_ref_mut(section).next_expiration(TIME.now());
    });
}
