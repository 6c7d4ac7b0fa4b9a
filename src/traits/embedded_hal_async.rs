//! The delays of drivers for embedded devices.

use core::time::Duration;

use embedded_hal_async::delay::DelayNs;

use crate::timer::Timer;

/// The delays of drivers that are written for embedded-hal, to run or test them on an operating
/// system.
///
/// A delay is one sleep, however long.
///
/// # Cancel safety
///
/// Dropping the future cancels the sleep.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use embedded_hal_async::delay::DelayNs;
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// /// Resets a sensor as its data sheet asks.
/// async fn reset(delay: &mut impl DelayNs) {
///     delay.delay_us(10).await;
///     delay.delay_ms(2).await;
/// }
///
/// let clock = VirtualClock::new();
/// let mut timer = Timer::builder().virtual_clock(&clock).build()?;
/// let start = clock.now();
/// clock.block_on(reset(&mut timer));
/// assert_eq!(clock.now() - start, Duration::from_micros(2010));
/// # std::io::Result::Ok(())
/// ```
impl DelayNs for Timer {
    async fn delay_ns(&mut self, ns: u32) {
        self.sleep(Duration::from_nanos(ns.into())).await;
    }

    async fn delay_us(&mut self, us: u32) {
        self.sleep(Duration::from_micros(us.into())).await;
    }

    async fn delay_ms(&mut self, ms: u32) {
        self.sleep(Duration::from_millis(ms.into())).await;
    }
}
