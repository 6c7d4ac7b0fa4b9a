//! `FutureExt`.

use std::future::pending;
use std::time::Duration;

use tourbillon::FutureExt as _;

use crate::support::*;

#[test]
fn timeout_is_the_function_as_a_method() {
    assert_eq!(pollster::block_on(async { 7 }.timeout(Duration::ZERO)), Ok(7));
    assert_eq!(pollster::block_on(async { 7 }.timeout(Duration::MAX)), Ok(7));
    assert!(pollster::block_on(pending::<()>().timeout(ms(1))).is_err());
}

#[test]
fn timeout_at_is_the_function_as_a_method() {
    let past = std::time::Instant::now();
    assert_eq!(pollster::block_on(async { 7 }.timeout_at(past)), Ok(7));
    assert!(pollster::block_on(pending::<()>().timeout_at(past)).is_err());
}

#[test]
fn timeout_on_and_timeout_at_on_use_the_timer_that_they_are_given() {
    let (timer, clock) = virtual_timer();
    let start = clock.now();
    assert!(clock.block_on(pending::<()>().timeout_on(&timer, SECOND)).is_err());
    assert!(clock.block_on(pending::<()>().timeout_at_on(&timer, start + 3 * SECOND)).is_err());
    assert_eq!(clock.now(), start + 3 * SECOND);
    assert_eq!(clock.block_on(async { 7 }.timeout_on(&timer, Duration::ZERO)), Ok(7));
    assert_eq!(clock.block_on(async { 7 }.timeout_at_on(&timer, start)), Ok(7));
}
