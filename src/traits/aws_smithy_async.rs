//! The timers and the clock of the AWS SDK.

use std::time::{Duration, SystemTime};

use aws_smithy_async::rt::sleep::{AsyncSleep, Sleep};
use aws_smithy_async::time::TimeSource;

use crate::time::to_std;
use crate::timer::Timer;

/// The AWS SDK's timer, for its timeouts and the pauses between its attempts.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use aws_smithy_async::rt::sleep::{AsyncSleep, SharedAsyncSleep};
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
/// // An `SdkConfig` takes it as its `sleep_impl`.
/// let sleeps = SharedAsyncSleep::new(timer);
/// clock.block_on(sleeps.sleep(Duration::from_secs(20)));
/// # std::io::Result::Ok(())
/// ```
impl AsyncSleep for Timer {
    fn sleep(&self, duration: Duration) -> Sleep {
        Sleep::new(self.sleep(duration))
    }
}

/// The timer's [wall time](Timer::wall_now).
///
/// On a system clock that is [`SystemTime::now`]: it may be set forward and back.
///
/// The wall time of a [`VirtualClock`](crate::virtual_time::VirtualClock) starts at 2000-01-01
/// 00:00:00 UTC in every run, so a test that signs requests signs the same ones. It moves with the
/// clock, or when it is set.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
///
/// use aws_smithy_async::time::{SharedTimeSource, TimeSource};
/// use tourbillon::Timer;
/// use tourbillon::virtual_time::VirtualClock;
///
/// let clock = VirtualClock::new();
/// let timer = Timer::builder().virtual_clock(&clock).build()?;
/// // An `SdkConfig` takes it as its `time_source`.
/// let time = SharedTimeSource::new(timer);
/// let new_year = UNIX_EPOCH + Duration::from_secs(946_684_800);
/// assert_eq!(time.now(), new_year);
/// clock.advance(Duration::from_secs(5));
/// assert_eq!(time.now(), new_year + Duration::from_secs(5));
/// # std::io::Result::Ok(())
/// ```
impl TimeSource for Timer {
    fn now(&self) -> SystemTime {
        to_std(self.wall_now())
    }
}
