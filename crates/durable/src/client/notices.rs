//! [`Notices`]: notifies nodes of other processes that timers are due soon.

use std::time::{Duration, Instant};

use crate::id::{Shards, TimerId};
use crate::node::{DbClock, NOTICE, SOON};
use crate::store::{Result, Store};
use crate::time::Time;
use crate::trace;

/// Period of reading the database's clock for that, and pause before a store that failed is asked
/// again.
const SELDOM: Duration = Duration::from_secs(60);

/// Notifier of nodes, which sends few notices.
///
/// A notice also covers inserts into its shards within the next [`NOTICE`]. The first notice after
/// a pause names its timers' shards, the next all shards; further ones are not sent.
#[derive(Debug, Default)]
pub(super) struct Notices {
    clock: DbClock,
    /// When the clock was read.
    read: Option<Instant>,
    /// The shards that the last notice covers.
    notified: Shards,
    /// When it was sent.
    sent: Option<Instant>,
    /// Time until which nothing is sent.
    silent_until: Option<Instant>,
    /// True if the store has no notices.
    is_off: bool,
}

impl Notices {
    /// Notifies nodes of the timers that are due soon.
    pub(super) fn notify(
        &mut self,
        store: &mut dyn Store,
        timers: impl Iterator<Item = (TimerId, Time)>,
    ) {
        let begun = Instant::now();
        if self.is_off || self.silent_until.is_some_and(|until| begun < until) {
            return;
        }
        if let Err(error) = self.try_notify(store, timers, begun) {
            trace::store_failed("notify", &error);
            self.silent_until = Some(begun + SELDOM);
        }
    }

    fn try_notify(
        &mut self,
        store: &mut dyn Store,
        timers: impl Iterator<Item = (TimerId, Time)>,
        begun: Instant,
    ) -> Result<()> {
        let mut timers = timers.peekable();
        if timers.peek().is_none() {
            return Ok(());
        }
        if self.read.is_none_or(|read| begun.duration_since(read) >= SELDOM) {
            let now = store.now()?;
            self.clock.sample(begun, Instant::now(), now);
            self.read = Some(begun);
        }
        let Some(now) = self.clock.at(begun) else { return Ok(()) };
        let soon = timers.filter(|(_, due)| *due <= now + SOON);
        let soon = soon.fold(0, |mask, (id, _)| mask | 1 << id.shard());
        if self.sent.is_none_or(|sent| begun.duration_since(sent) >= NOTICE) {
            self.notified = Shards::NONE;
        }
        if soon & !self.notified.mask() == 0 {
            return Ok(());
        }
        self.notified =
            if self.notified == Shards::NONE { Shards::from_mask(soon) } else { Shards::ALL };
        self.sent = Some(begun);
        self.is_off = !store.notify(self.notified)?;
        Ok(())
    }
}
