//! Parks the driver thread: one token, at most one thread that waits for it.

#[cfg_attr(
    all(
        any(target_os = "linux", target_os = "android"),
        target_pointer_width = "64",
        not(all(test, tourbillon_model))
    ),
    path = "parker/futex.rs"
)]
mod token;
#[cfg(all(windows, not(all(test, tourbillon_model))))]
mod windows;
#[cfg(any(
    all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"),
    all(test, tourbillon_model)
))]
mod word;

use std::time::Duration;

use crate::clock::Clock;
use crate::engine::alarm::Plan;
use token::Token;

/// A token that [`unpark`](Self::unpark) leaves and [`park`](Self::park) takes.
#[derive(Debug)]
pub(crate) struct Parker {
    token: Token,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self { token: Token::default() }
    }

    /// Waits for the token, or until the planned tick but for no longer than `limit`. May return
    /// spuriously.
    ///
    /// A token left before counts, and is taken.
    #[cfg(not(all(test, tourbillon_model)))]
    pub(crate) fn park(&self, clock: &Clock, plan: Plan, limit: Duration) {
        self.token.take(match plan {
            Plan::ParkUntil(tick) => Some(tick.since(clock.now()).min(limit)),
            Plan::Park => None,
        });
    }

    /// Leaves the token and wakes the thread that waits for it.
    pub(crate) fn unpark(&self) {
        self.token.leave();
    }
}

#[cfg(all(test, tourbillon_model))]
mod model {
    use super::{Clock, Duration, Parker, Plan};
    use crate::tick::Tick;

    impl Parker {
        /// Waits on the model's clock: only [`Parker::advanced`] ends a park by time, so a
        /// deadline slept through is a deadlock, which loom reports.
        pub(crate) fn park(&self, clock: &Clock, plan: Plan, _limit: Duration) {
            let until = match plan {
                Plan::ParkUntil(tick) => tick,
                Plan::Park => Tick::NEVER,
            };
            self.token.take_while(|| clock.now() < until);
        }

        /// Lets a parked driver see that the model's clock has moved.
        pub(in crate::engine) fn advanced(&self) {
            self.token.look_again();
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
        assert!(!parker.token.is_left(), "two that come together are one");
    }

    #[test]
    fn a_park_for_what_has_come_takes_the_token_too() {
        let (clock, parker) = (Clock::monotonic(), Parker::new());
        parker.unpark();
        parker.park(&clock, Plan::ParkUntil(Tick::PAST), Duration::MAX);
        assert!(!parker.token.is_left());
    }
}
