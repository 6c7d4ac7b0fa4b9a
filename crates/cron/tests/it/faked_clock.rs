//! Ticks on clocks that libfaketime moves. Run by `ci/faketime.sh`, in the repository.

use std::time::SystemTime;

use tourbillon_cron::{Cron, Schedule as _};

#[test]
#[ignore = "run by ci/faketime.sh under libfaketime, shortly before a full minute"]
fn a_tick_comes_and_not_before_its_minute() {
    let mut ticks = Cron::parse("* * * * *", "UTC").expect("an expression").ticks();
    let tick = pollster::block_on(ticks.tick()).expect("there are more");
    assert!(tick.woke() >= tick.scheduled() && SystemTime::now() >= tick.scheduled(), "early");
}
