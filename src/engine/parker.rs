//! Parks the driver thread: one token, at most one thread that waits for it.

#[cfg(all(windows, not(all(test, tourbillon_model))))]
mod windows;

use std::time::Duration;

use crate::clock::Clock;
use crate::engine::alarm::Plan;
#[cfg(any(not(windows), all(test, tourbillon_model)))]
use crate::sync::Condvar as Signal;
use crate::sync::{Mutex, lock};
#[cfg(all(windows, not(all(test, tourbillon_model))))]
use windows::Signal;

/// A token that [`unpark`](Self::unpark) leaves and [`park`](Self::park) takes.
#[derive(Debug)]
pub(crate) struct Parker {
    token: Mutex<bool>,
    left: Signal,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { token: Mutex::new(false), left: Signal::new() }
    }

    /// Waits for the token, or until the planned tick but for no longer than `limit`. May return
    /// spuriously.
    ///
    /// A token left before counts, and is taken.
    pub(crate) fn park(&self, clock: &Clock, plan: Plan, limit: Duration) {
        let mut token = lock(&self.token);
        if !*token {
            token = self.wait(token, clock, plan, limit);
        }
        *token = false;
    }

    /// Leaves the token and wakes the thread that waits for it.
    pub(crate) fn unpark(&self) {
        *lock(&self.token) = true;
        self.left.notify_one();
    }
}

#[cfg(not(all(test, tourbillon_model)))]
mod wait {
    use super::{Clock, Duration, Parker, Plan};
    use crate::sync::MutexGuard;

    impl Parker {
        pub(super) fn wait<'a>(
            &'a self,
            token: MutexGuard<'a, bool>,
            clock: &Clock,
            plan: Plan,
            limit: Duration,
        ) -> MutexGuard<'a, bool> {
            match plan {
                Plan::ParkUntil(tick) => {
                    let now = clock.now();
                    if tick <= now {
                        return token;
                    }
                    self.block(token, Some(tick.since(now).min(limit)))
                }
                Plan::Park => self.block(token, None),
                Plan::End => token,
            }
        }

        /// Waits for the signal, but no longer than `limit`.
        #[cfg(not(windows))]
        fn block<'a>(
            &'a self,
            token: MutexGuard<'a, bool>,
            limit: Option<Duration>,
        ) -> MutexGuard<'a, bool> {
            crate::sync::wait_up_to(&self.left, token, limit)
        }
    }
}

#[cfg(all(test, tourbillon_model))]
mod wait {
    use super::{Clock, Duration, Parker, Plan};
    use crate::sync::{MutexGuard, lock, wait};
    use crate::tick::Tick;

    impl Parker {
        /// Waits on the model's clock: only [`Parker::advanced`] ends a park by time, so a
        /// deadline slept through is a deadlock, which loom reports. As the wait proper, it takes
        /// the caller's word that there is no token yet.
        pub(super) fn wait<'a>(
            &self,
            mut token: MutexGuard<'a, bool>,
            clock: &Clock,
            plan: Plan,
            _limit: Duration,
        ) -> MutexGuard<'a, bool> {
            let until = match plan {
                Plan::ParkUntil(tick) => tick,
                Plan::Park => Tick::NEVER,
                Plan::End => return token,
            };
            while clock.now() < until {
                token = wait(&self.left, token);
                if *token {
                    break;
                }
            }
            token
        }

        /// Lets a parked driver see that the model's clock has moved.
        pub(in crate::engine) fn advanced(&self) {
            drop(lock(&self.token));
            self.left.notify_one();
        }
    }
}

#[cfg(all(test, not(tourbillon_model)))]
mod tests {
    use super::*;
    use crate::tick::Tick;

    fn far(clock: &Clock) -> Tick {
        clock.now().saturating_add(Duration::from_secs(3600))
    }

    #[test]
    fn a_park_ends_at_its_limit() {
        let clock = Clock::monotonic();
        let promised = far(&clock);
        Parker::new().park(&clock, Plan::ParkUntil(promised), Duration::from_millis(1));
        assert!(clock.now() < promised);
    }

    #[test]
    fn a_token_left_before_ends_the_next_park_at_once() {
        let (clock, parker) = (Clock::monotonic(), Parker::new());
        parker.unpark();
        parker.park(&clock, Plan::Park, Duration::MAX);
        parker.unpark();
        parker.unpark();
        let promised = far(&clock);
        parker.park(&clock, Plan::ParkUntil(promised), Duration::MAX);
        assert!(clock.now() < promised);
        assert!(!*lock(&parker.token), "two that come together are one");
    }
}
