//! [`Options`]: a node's, with their defaults.

use std::time::Duration;

use crate::id::NodeId;

/// The longest span.
const DAY: Duration = Duration::from_secs(86_400);

/// Options of a node.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) node: NodeId,
    /// Time for which a node lives without a beat.
    pub(crate) lease: Duration,
    /// Time from one beat to the next.
    pub(crate) beat: Duration,
    /// Time ahead of now that scans read.
    pub(crate) window: Duration,
    /// Time from one scan to the next.
    pub(crate) scan: Duration,
    /// Time before now that scans read which do not read all.
    pub(crate) back: Duration,
    /// One scan in so many reads all shards from the beginning; one look in so many all shards.
    pub(crate) full_every: u32,
    /// Most timers in the caches at a time.
    pub(crate) known: usize,
    /// Most timers in one claim.
    pub(crate) batch: usize,
    /// Time for which an end waits to share a transaction with a claim.
    pub(crate) ride: Duration,
    /// Time from one look at the schedules to the next.
    pub(crate) look: Duration,
    /// Time from one look after orphans and queues to the next, by the node that does it most
    /// often.
    pub(crate) tend: Duration,
    /// The pause after a store failed.
    pub(crate) pause: Duration,
    /// Number of threads that claim, each with a connection.
    pub(crate) connections: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            node: NodeId::new(),
            lease: Duration::from_secs(15),
            beat: Duration::from_secs(1),
            window: Duration::from_secs(1),
            scan: Duration::from_millis(500),
            back: Duration::from_secs(3),
            full_every: 10,
            known: 50_000,
            batch: 1_000,
            ride: Duration::from_millis(5),
            look: Duration::from_secs(1),
            tend: Duration::from_secs(2),
            pause: Duration::from_millis(100),
            connections: 1,
        }
    }
}

impl Options {
    /// Says what is wrong with them.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self { lease, beat, window, scan, look, tend, ride, .. } = *self;
        let periods =
            [("lease", lease), ("beat", beat), ("scan", scan), ("look", look), ("tend", tend)];
        if let Some((name, _)) = periods.iter().find(|(_, span)| span.is_zero()) {
            return Err(format!("`{name}` is zero"));
        }
        let spans = [("window", window), ("ride", ride)];
        if let Some((name, _)) = periods.iter().chain(&spans).find(|(_, span)| *span > DAY) {
            return Err(format!("`{name}` is longer than a day"));
        }
        if lease < beat * 3 {
            return Err(format!("`lease` ({lease:?}) is shorter than three beats of {beat:?}"));
        }
        Ok(())
    }

    /// Returns for how long a beat is trusted: the lease, less what two clocks may drift apart.
    pub(crate) fn trust(&self) -> Duration {
        self.lease - self.lease / 16
    }

    /// After what time without a beat a node is suspected.
    pub(crate) fn patience(&self) -> Duration {
        self.beat * 3 / 2
    }

    /// Returns how far ahead of now occurrences become timers: the next look comes before the next
    /// one is due.
    pub(crate) fn horizon(&self) -> Duration {
        self.look * 2 + self.window
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
        assert_eq!(check(|options| options.lease = options.beat * 3), Ok(()));
        assert_eq!(check(|options| options.ride = Duration::ZERO), Ok(()));
        assert_eq!(check(|options| options.beat = options.lease / 2), wrong("lease"));
        assert_eq!(check(|options| options.scan = Duration::ZERO), wrong("scan"));
        assert_eq!(check(|options| options.beat = Duration::ZERO), wrong("beat"));
        assert_eq!(check(|options| options.beat = Duration::MAX), wrong("beat"));
        assert_eq!(check(|options| options.window = DAY * 2), wrong("window"));
    }
}
