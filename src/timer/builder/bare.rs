//! The end of a [`Builder`] without an operating system.

use crate::clock::Clock;
use crate::driver::Driver;
use crate::time::Instant;
use crate::timer::{Builder, Timer};

impl Builder {
    /// Makes a timer that you drive by hand, from your own loop, by a clock of your own.
    ///
    /// # Examples
    ///
    /// ```ignore
    /// // Of a counter that makes 32,768 ticks a second.
    /// let now = || Instant::from_ticks(counter(), 32_768);
    /// let (timer, mut driver) = Timer::builder().build_manual(now, cortex_m::asm::sev);
    /// ```
    ///
    /// # Details
    ///
    /// `now` reads the clock. A clock that steps back fires nothing early. `unpark` is called once
    /// between two turns: when a timer is armed that has to be fired before the instant that the
    /// last [`Driver::turn`] reported. The code that arms the timer calls it, perhaps in an
    /// interrupt handler. It is to end the loop's wait, or to set the alarm that does. Both are
    /// called outside of the timer's critical sections, and must not panic.
    pub fn build_manual(
        self,
        now: impl Fn() -> Instant + Send + Sync + 'static,
        unpark: impl Fn() + Send + Sync + 'static,
    ) -> (Timer, Driver) {
        let (timer_fd, driven_by) = super::by_hand(unpark);
        // More shards would gain nothing: a critical section locks them all.
        let timer = Timer::of(self.engine(Clock::of_user(now), 1, driven_by));
        let driver = Driver::new(timer.clone(), timer_fd);
        (timer, driver)
    }
}
