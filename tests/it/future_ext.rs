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
