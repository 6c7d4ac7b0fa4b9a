//! The gate of an app's attempts: some start, some wait, some are postponed. Pure.
//!
//! Every limit is of one app on one node, so that no app waits for another. A host may have as much
//! of a limit as would be left free: one host alone gets half of it, two get a third each. So hosts
//! that hang never have all of it, and every other host finds room.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest that an attempt is postponed for.
const PAUSE_MIN: Duration = Duration::from_millis(250);

/// The longest, but for jitter.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Longest time that an attempt is expected to wait here rather than in the database.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Attempts after which idle hosts are forgotten.
const SWEEP: u32 = 1_024;

/// Limits of the gate of an app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GateLimits {
    /// Attempts that run.
    pub(super) running: usize,
    /// Most of those to one host.
    pub(super) per_host: usize,
    /// Attempts that wait here.
    pub(super) waiting: usize,
    /// Attempts that start within a second; also how many may start at once after a pause.
    pub(super) per_second: u32,
}

/// Decision on an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Offered<T> {
    /// The attempt starts now.
    Starts(T),
    /// The attempt is kept, for [`Gate::next`].
    Waits,
    /// There is no room for the attempt. It may come back after a [pause](Gate::pause).
    Refused(T, Full),
}

/// Limit that an attempt has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    /// Limit of the host, or of the app as a whole.
    Host,
    /// Limit of how many start within a second.
    Rate,
}

#[derive(Debug)]
struct Host<T> {
    running: usize,
    waiting: VecDeque<T>,
    /// Time that its attempts take, as a moving mean.
    takes: Duration,
    /// End of the last attempt, or start of the first running one.
    since: Instant,
    booked: Booked,
}

/// Time by which all postponed attempts will have run. Each attempt that is postponed is put behind
/// the last.
#[derive(Debug)]
struct Booked(Instant);

impl Booked {
    /// Returns for how long to postpone an attempt that takes so much time of its own, when there
    /// is room after `wait` at the earliest.
    fn pause(&mut self, now: Instant, wait: Duration, own: Duration) -> Duration {
        self.0 = (self.0.max(now + wait.min(PAUSE_MAX)) + own.min(PAUSE_MAX)).min(now + PAUSE_MAX);
        self.0.duration_since(now).clamp(PAUSE_MIN, PAUSE_MAX)
    }
}

/// The attempts of an app that run and wait, by host.
#[derive(Debug)]
pub(super) struct Gate<T> {
    limits: GateLimits,
    running: usize,
    waiting: usize,
    hosts: HashMap<Arc<str>, Host<T>>,
    /// The hosts that have waiting attempts, the next first.
    turns: VecDeque<Arc<str>>,
    /// Attempts that may start at once, and when that was counted.
    tokens: (f64, Instant),
    booked: Booked,
    until_sweep: u32,
}

impl<T> Gate<T> {
    pub(super) fn new(limits: GateLimits, now: Instant) -> Self {
        Self {
            limits,
            running: 0,
            waiting: 0,
            hosts: HashMap::new(),
            turns: VecDeque::new(),
            tokens: (f64::from(limits.per_second), now),
            booked: Booked(now),
            until_sweep: SWEEP,
        }
    }

    /// Takes an attempt that is due.
    pub(super) fn offer(&mut self, name: &Arc<str>, item: T, now: Instant) -> Offered<T> {
        self.sweep(now);
        let (free, room) = (self.free(), self.limits.waiting - self.waiting);
        let per_host = self.limits.per_host;
        let host = self.hosts.entry(name.clone()).or_insert_with(|| Host {
            running: 0,
            waiting: VecDeque::new(),
            takes: Duration::ZERO,
            since: now,
            booked: Booked(now),
        });
        let starts = host.waiting.is_empty() && host.may_start(free, per_host);
        let waits = host.waiting.len() < room && host.wait(now) <= WAIT_MAX;
        if !starts && !waits {
            return Offered::Refused(item, Full::Host);
        }
        if !self.take_token(now) {
            return Offered::Refused(item, Full::Rate);
        }
        let Some(host) = self.hosts.get_mut(name) else { unreachable!("it was made above") };
        if starts {
            host.start(now);
            self.running += 1;
            return Offered::Starts(item);
        }
        if host.waiting.is_empty() {
            self.turns.push_back(name.clone());
        }
        host.waiting.push_back(item);
        self.waiting += 1;
        Offered::Waits
    }

    /// Returns for how long to postpone a refused attempt, and puts the next one behind it.
    pub(super) fn pause(&mut self, name: &str, full: Full, now: Instant) -> Duration {
        match (full, self.hosts.get_mut(name)) {
            (Full::Host, Some(host)) => {
                let (wait, own) = (host.wait(now), host.slot(now));
                host.booked.pause(now, wait, own)
            }
            _ => {
                let own = Duration::from_secs_f64(1.0 / self.rate());
                self.booked.pause(now, Duration::ZERO, own)
            }
        }
    }

    /// An attempt that has started is over.
    pub(super) fn ended(&mut self, name: &str, took: Duration, now: Instant) {
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.running -= 1;
        self.running -= 1;
        host.since = now;
        host.takes = match host.takes {
            Duration::ZERO => took,
            before => (before * 7 + took) / 8,
        };
    }

    /// Returns the next waiting attempt, if there is room; it starts now.
    pub(super) fn next(&mut self, now: Instant) -> Option<(Arc<str>, T)> {
        for _ in 0..self.turns.len() {
            let free = self.free();
            if free == 0 {
                return None;
            }
            let name = self.turns.pop_front()?;
            let host = self.hosts.get_mut(&name)?;
            let may_start = host.may_start(free, self.limits.per_host);
            let next = if may_start { host.waiting.pop_front() } else { None };
            if next.is_some() {
                host.start(now);
                self.running += 1;
                self.waiting -= 1;
            }
            if !host.waiting.is_empty() {
                self.turns.push_back(name.clone());
            }
            if let Some(item) = next {
                return Some((name, item));
            }
        }
        None
    }

    fn free(&self) -> usize {
        self.limits.running - self.running
    }

    /// Attempts that may start within a second.
    fn rate(&self) -> f64 {
        f64::from(self.limits.per_second.max(1))
    }

    /// Takes the token of an attempt that may start at once, if there is one.
    fn take_token(&mut self, now: Instant) -> bool {
        let rate = self.rate();
        let since = now.duration_since(self.tokens.1).as_secs_f64();
        self.tokens = ((self.tokens.0 + since * rate).min(rate), now);
        let is_there = self.tokens.0 >= 1.0;
        if is_there {
            self.tokens.0 -= 1.0;
        }
        is_there
    }

    /// Forgets hosts without attempts, now and then.
    fn sweep(&mut self, now: Instant) {
        self.until_sweep -= 1;
        if self.until_sweep == 0 {
            self.until_sweep = SWEEP;
            let is_used = |host: &Host<T>| {
                host.running > 0 || !host.waiting.is_empty() || host.booked.0 > now
            };
            self.hosts.retain(|_, host| is_used(host));
        }
    }
}

impl<T> Host<T> {
    /// Returns whether one more may run, with room for so many in the app.
    fn may_start(&self, free: usize, per_host: usize) -> bool {
        self.running < free.min(per_host)
    }

    fn start(&mut self, now: Instant) {
        if self.running == 0 {
            self.since = now;
        }
        self.running += 1;
    }

    /// Returns the time until there is room behind all that wait.
    fn wait(&self, now: Instant) -> Duration {
        self.slot(now).saturating_mul(saturated(self.waiting.len() + 1))
    }

    /// Returns the time until it has room for another, at the present pace: for a hanging host ever
    /// longer.
    fn slot(&self, now: Instant) -> Duration {
        let hangs = if self.running > 0 { now.duration_since(self.since) } else { Duration::ZERO };
        // `since` is when the last ended, of all that run.
        self.takes.max(hangs) / saturated(self.running.max(1))
    }
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn gate(running: usize, waiting: usize, per_second: u32) -> (Gate<u32>, Instant) {
        let now = Instant::now();
        let limits = GateLimits { running, per_host: usize::MAX, waiting, per_second };
        (Gate::new(limits, now), now)
    }

    impl Gate<u32> {
        /// How many run, and how many wait.
        fn load(&self) -> (usize, usize) {
            (self.running, self.waiting)
        }

        /// Offers an attempt that comes back; returns after which pause, if it is refused.
        fn postpones(&mut self, host: u32, item: u32, now: Instant) -> Option<Duration> {
            match self.offer(&name(host), item, now) {
                Offered::Refused(_, full) => Some(self.pause(&name(host), full, now)),
                _ => None,
            }
        }
    }

    fn name(number: u32) -> Arc<str> {
        format!("host-{number}").into()
    }

    #[test]
    fn hosts_that_hang_leave_room_for_another() {
        let (mut gate, now) = gate(64, 64, u32::MAX);
        for item in 0..1_000 {
            gate.offer(&name(item % 20), item, now);
        }
        let (running, waiting) = gate.load();
        assert!(running < 64 && waiting < 64, "{running} {waiting}");
        assert_eq!(gate.offer(&name(99), 0, now), Offered::Starts(0));
    }

    #[test]
    fn one_host_has_half_of_an_app_at_most() {
        for (limit, most) in [(1, 1), (2, 1), (3, 2), (64, 32)] {
            let (mut gate, now) = gate(limit, 1_000, u32::MAX);
            for item in 0..500 {
                gate.offer(&name(0), item, now);
            }
            assert_eq!(gate.load().0, most, "of {limit}");
        }
    }

    #[test]
    fn one_host_has_no_more_than_its_own_limit() {
        let now = Instant::now();
        let limits = GateLimits { running: 64, per_host: 3, waiting: 1_000, per_second: u32::MAX };
        let mut gate = Gate::new(limits, now);
        for item in 0..100 {
            gate.offer(&name(item % 2), item, now);
        }
        assert_eq!(gate.load(), (6, 94));
        assert!(gate.next(now).is_none());
    }

    #[test]
    fn what_waits_starts_in_order_and_hosts_take_turns() {
        let (mut gate, now) = gate(4, 100, u32::MAX);
        for item in 0..12 {
            gate.offer(&name(item % 2), item, now);
        }
        assert_eq!(gate.load(), (3, 9));
        let mut order = Vec::new();
        while gate.load().0 > 0 {
            let busy = (0..2).find(|host| gate.hosts[&name(*host)].running > 0).unwrap();
            gate.ended(&name(busy), SECOND / 100, now);
            while let Some((host, item)) = gate.next(now) {
                assert_eq!(host, name(item % 2));
                order.push(item);
            }
        }
        assert_eq!(order.len(), 9);
        for host in 0..2 {
            let own = order.iter().filter(|item| *item % 2 == host).collect::<Vec<_>>();
            assert!(own.is_sorted(), "{order:?}");
        }
        assert_eq!(gate.load(), (0, 0));
    }

    #[test]
    fn a_pause_grows_with_what_was_postponed_and_with_how_long_a_host_hangs() {
        let (mut gate, mut now) = gate(2, 1, u32::MAX);
        assert_eq!(gate.offer(&name(0), 0, now), Offered::Starts(0));
        gate.ended(&name(0), SECOND, now);
        assert_eq!(gate.offer(&name(0), 0, now), Offered::Starts(0));
        // An attempt waits, because it will not take longer than a second.
        assert_eq!(gate.offer(&name(0), 1, now), Offered::Waits);
        let mut last = Duration::ZERO;
        for item in 2..20 {
            let pause = gate.postpones(0, item, now).unwrap();
            assert!(pause > last, "{pause:?} after {last:?}");
            last = pause;
        }
        assert_eq!(last, 20 * SECOND);
        now += 30 * SECOND;
        let pause = gate.postpones(0, 20, now).unwrap();
        assert_eq!(pause, PAUSE_MAX);
        for item in 21..100 {
            assert_eq!(gate.postpones(0, item, now), Some(PAUSE_MAX));
        }
    }

    #[test]
    fn no_more_start_within_a_second_than_the_limit() {
        let (mut gate, mut now) = gate(1_000, 1_000, 10);
        let mut starts = |now| {
            let offers = (0..50).map(|item| gate.offer(&name(item), item, now));
            offers.filter(|offer| matches!(offer, Offered::Starts(_))).count()
        };
        assert_eq!(starts(now), 10);
        assert_eq!(starts(now), 0);
        now += SECOND / 2;
        assert_eq!(starts(now), 5);
        // Unused starts are not saved for longer than a second.
        now += 100 * SECOND;
        assert_eq!(starts(now), 10);
    }

    #[test]
    fn what_is_too_much_for_a_second_comes_back_at_the_rate() {
        let (mut gate, now) = gate(1_000, 1_000, 10);
        let mut pauses = Vec::new();
        for item in 0..60 {
            pauses.extend(gate.postpones(item, item, now));
        }
        assert_eq!(pauses.len(), 50);
        assert_eq!(*pauses.last().unwrap(), 5 * SECOND);
        assert!(pauses.is_sorted() && pauses[0] == PAUSE_MIN);
    }

    #[test]
    fn what_does_not_come_back_puts_no_attempt_off() {
        // One by the limit of its host, one by the rate.
        for (running, per_second, full) in [(2, u32::MAX, Full::Host), (64, 1, Full::Rate)] {
            let pause = |refused: u32| {
                let (mut gate, now) = gate(running, 0, per_second);
                assert_eq!(gate.offer(&name(0), 0, now), Offered::Starts(0));
                gate.hosts.get_mut(&name(0)).unwrap().takes = SECOND;
                for item in 0..refused {
                    let refused = gate.offer(&name(0), item, now);
                    assert_eq!(refused, Offered::Refused(item, full));
                }
                gate.postpones(0, 0, now).unwrap()
            };
            assert_eq!(pause(100), pause(0), "{full:?}");
        }
    }

    #[test]
    fn idle_hosts_are_forgotten() {
        let (mut gate, now) = gate(8, 8, u32::MAX);
        for item in 0..2 * SWEEP {
            gate.offer(&name(item), item, now);
            gate.ended(&name(item), SECOND, now);
        }
        assert!(gate.hosts.len() <= SWEEP as usize);
    }
}
