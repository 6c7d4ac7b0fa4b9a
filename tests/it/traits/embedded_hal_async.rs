//! embedded-hal's `DelayNs`.

use std::time::Duration;

use embedded_hal_async::delay::DelayNs;

use crate::support::*;

/// Blinks, like a driver of a device.
async fn blink(delay: &mut impl DelayNs) {
    delay.delay_ns(1).await;
    delay.delay_us(2).await;
    delay.delay_ms(3).await;
}

#[test]
fn each_unit_is_exact() {
    let (mut timer, clock) = virtual_timer();
    let start = clock.now();
    clock.block_on(blink(&mut timer));
    assert_eq!(clock.now() - start, Duration::from_nanos(3_002_001));
}

#[test]
fn the_longest_delays_are_one_sleep_each() {
    let (mut timer, clock) = virtual_timer();
    let start = clock.now();
    clock.block_on(timer.delay_ns(u32::MAX));
    clock.block_on(timer.delay_us(u32::MAX));
    clock.block_on(timer.delay_ms(u32::MAX));
    let nanos = u64::from(u32::MAX) * 1_001_001;
    assert_eq!(clock.now() - start, Duration::from_nanos(nanos));
    assert_eq!(timer.stats().armed, 3);
}

#[test]
fn a_delay_of_nothing_arms_nothing() {
    let (mut timer, clock) = virtual_timer();
    clock.block_on(timer.delay_ms(0));
    assert_eq!(timer.stats().armed, 0);
}
