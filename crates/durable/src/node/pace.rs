//! [`Pace`]: when a claim begins after the one before it.

use std::time::{Duration, Instant};

use super::options::Options;
use crate::id::{SHARDS, Shards};

/// Most times the linger of a node alone that a timer waits, however many nodes there are.
const MOST: u32 = 3;

/// Pace of a node's claims.
///
/// A claim costs the server as much as some twenty timers do, whatever it claims. So while timers
/// are due one after the other, claims begin a span apart. Under load the span is as much longer
/// as the node has fewer of the shards: then nodes that share a load make as many claims together
/// as one would.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// Start of the last claim, unless that was full.
    last: Option<Instant>,
    /// True if the last claim followed the one before within little more than a span.
    is_steady: bool,
}

impl Pace {
    /// Notes a claim that begins at `now`.
    pub(crate) fn note(&mut self, now: Instant, is_full: bool, options: &Options, shards: Shards) {
        let close = shared(options, shards) + options.claim_linger;
        let since = self.last.map(|last| now.saturating_duration_since(last));
        self.is_steady = since.is_some_and(|since| since <= close);
        // A full one has no room for what is due next.
        self.last = Some(now).filter(|_| !is_full);
    }

    /// Returns the start of the last claim for which the next may wait, and the span between both.
    /// No timer waits for longer than the span.
    pub(crate) fn wait(&self, options: &Options, shards: Shards) -> Option<(Instant, Duration)> {
        let span = if self.is_steady { shared(options, shards) } else { options.claim_linger };
        self.last.map(|last| (last, span))
    }
}

/// Returns the span between claims of a node that has `shards` of a load. What is late by the grace
/// is claimed by others.
fn shared(options: &Options, shards: Shards) -> Duration {
    let linger = options.claim_linger;
    let span = linger * u32::from(SHARDS) / shards.mask().count_ones().max(1);
    span.min(linger * MOST).min(options.grace / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// Span after claims that began so many milliseconds apart.
    fn span(apart: &[u32], shards: u64) -> Duration {
        let (options, shards) = (Options::default(), Shards::from_mask(shards));
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        pace.note(now, false, &options, shards);
        for apart in apart {
            now += MILLI * *apart;
            pace.note(now, false, &options, shards);
        }
        let (last, span) = pace.wait(&options, shards).unwrap();
        assert_eq!(last, now);
        span
    }

    #[test]
    fn under_load_a_node_waits_as_much_longer_as_it_has_fewer_shards() {
        for (shards, expected) in [(u64::MAX, 2), (u64::MAX >> 32, 4), (u64::MAX >> 48, 6), (1, 6)]
        {
            assert_eq!(span(&[4, 4], shards), MILLI * expected, "{shards:#x}");
        }
        // It has none, and claims what is late alone.
        assert_eq!(span(&[4, 4], 0), MILLI * 6);
    }

    #[test]
    fn without_load_a_node_waits_as_one_that_is_alone() {
        let quarter = u64::MAX >> 48;
        assert_eq!(span(&[], quarter), MILLI * 2);
        assert_eq!(span(&[8, 8, 9], quarter), MILLI * 2);
        assert_eq!(span(&[9, 8], quarter), MILLI * 6);
    }

    #[test]
    fn a_timer_waits_for_half_the_grace_at_most() {
        let options = Options { claim_linger: MILLI * 400, ..Options::default() };
        assert_eq!(shared(&options, Shards::from_mask(1)), options.grace / 2);
    }

    #[test]
    fn after_a_full_claim_there_is_nothing_to_wait_for() {
        let (options, now) = (Options::default(), Instant::now());
        let mut pace = Pace::default();
        pace.note(now, true, &options, Shards::ALL);
        assert_eq!(pace.wait(&options, Shards::ALL), None);
    }
}
