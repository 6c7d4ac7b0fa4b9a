//! [`Options`]: a node's, with their defaults.

use std::time::Duration;

use crate::id::NodeId;

/// The longest span.
const DAY: Duration = Duration::from_secs(86_400);

/// Options of a node.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) node: NodeId,
    /// A node's life without a beat.
    pub(crate) lease: Duration,
    /// Time from one renewal of the lease to the next.
    pub(crate) heartbeat: Duration,
    /// Time ahead of now that scans read.
    pub(crate) look_ahead: Duration,
    /// Time from one scan to the next.
    pub(crate) scan: Duration,
    /// Time before now that scans read which do not read all.
    pub(crate) back: Duration,
    /// Lateness from which a timer of another node's shards may be claimed.
    pub(crate) grace: Duration,
    /// Number of a scan's periods between reads from the beginning, and of the planner's periods
    /// between reads of all shards.
    pub(crate) full_every: u32,
    /// Most timers in the caches at a time.
    pub(crate) cache_capacity: usize,
    /// Most timers in one claim.
    pub(crate) batch: usize,
    /// Wait of an end to share a transaction with a claim.
    pub(crate) finish_linger: Duration,
    /// Longest wait of a due timer to share a claim with others, on a node that has all shards.
    pub(crate) claim_linger: Duration,
    /// Time from one run of the planner to the next.
    pub(crate) schedule_interval: Duration,
    /// Time from one run of the rescuer to the next, on the node that runs it most often.
    pub(crate) maintenance_interval: Duration,
    /// The pause after a store failed.
    pub(crate) pause: Duration,
    /// Number of threads that claim, each with a connection.
    pub(crate) connections: usize,
    /// Schema of the store's tables, if it has one.
    #[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
    pub(crate) schema: Option<std::sync::Arc<str>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node: NodeId::new(),
            lease: Duration::from_secs(15),
            heartbeat: Duration::from_secs(1),
            look_ahead: Duration::from_secs(1),
            scan: Duration::from_millis(500),
            back: Duration::from_secs(3),
            grace: Duration::from_secs(1),
            full_every: 10,
            cache_capacity: 50_000,
            batch: 500,
            finish_linger: Duration::from_millis(5),
            claim_linger: Duration::from_millis(2),
            schedule_interval: Duration::from_secs(1),
            maintenance_interval: Duration::from_secs(2),
            pause: Duration::from_millis(100),
            connections: 1,
            #[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
            schema: None,
        }
    }
}

impl Options {
    /// Checks them, and returns the reason for a refusal.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { lease, heartbeat, scan, .. } = *self;
        let periods = [
            ("lease", lease),
            ("heartbeat", heartbeat),
            ("scan", scan),
            ("schedule_interval", self.schedule_interval),
            ("maintenance_interval", self.maintenance_interval),
        ];
        if let Some((name, _)) = periods.iter().find(|(_, span)| span.is_zero()) {
            return Err(format!("`{name}` is zero"));
        }
        let spans = [("look_ahead", self.look_ahead), ("claim_linger", self.claim_linger)];
        if let Some((name, _)) = periods.iter().chain(&spans).find(|(_, span)| *span > DAY) {
            return Err(format!("`{name}` is longer than a day"));
        }
        if lease < heartbeat * 3 {
            return Err(format!("`lease` ({lease:?}) is shorter than three of {heartbeat:?}"));
        }
        // Other nodes claim timers that are late by the grace.
        let (linger, most) = (self.claim_linger, self.grace / 2);
        if linger > most {
            return Err(format!("`claim_linger` ({linger:?}) is longer than {most:?}"));
        }
        Ok(())
    }

    /// Returns the trust in a beat: the lease, less a possible drift of two clocks.
    pub(crate) fn trust(&self) -> Duration {
        self.lease - self.lease / 16
    }

    /// Returns the time without a beat that makes a node suspected.
    pub(crate) fn patience(&self) -> Duration {
        self.heartbeat * 3 / 2
    }

    /// Returns how far ahead of now occurrences become timers: the planner runs again before the
    /// next one is due.
    pub(crate) fn horizon(&self) -> Duration {
        self.schedule_interval * 2 + self.look_ahead
    }

    /// Returns the time ahead of now within which a schedule was already advanced by the node of
    /// its shard, unless that node is late by half a period.
    pub(crate) fn near(&self) -> Duration {
        self.schedule_interval / 2 + self.look_ahead
    }

    /// Returns the time between the planner's reads of all shards.
    pub(crate) fn seldom(&self) -> Duration {
        self.schedule_interval * self.full_every
    }
}

#[cfg(test)]
mod tests {
    use super::{DAY, Duration, Options};

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let check = |change: fn(&mut Options)| {
            let mut options = Options::default();
            change(&mut options);
            options.check().map_err(|why| why.split(' ').next().unwrap_or("").to_owned())
        };
        let wrong = |name: &str| Err(format!("`{name}`"));
        assert_eq!(check(|_| {}), Ok(()));
        assert_eq!(check(|options| options.lease = options.heartbeat * 3), Ok(()));
        assert_eq!(check(|options| options.claim_linger = Duration::ZERO), Ok(()));
        assert_eq!(check(|options| options.claim_linger = DAY * 2), wrong("claim_linger"));
        assert_eq!(check(|options| options.claim_linger = options.grace), wrong("claim_linger"));
        assert_eq!(check(|options| options.claim_linger = options.grace / 2), Ok(()));
        assert_eq!(check(|options| options.heartbeat = options.lease / 2), wrong("lease"));
        assert_eq!(check(|options| options.scan = Duration::ZERO), wrong("scan"));
        assert_eq!(check(|options| options.heartbeat = Duration::ZERO), wrong("heartbeat"));
        assert_eq!(check(|options| options.heartbeat = Duration::MAX), wrong("heartbeat"));
        assert_eq!(check(|options| options.look_ahead = DAY * 2), wrong("look_ahead"));
    }
}
