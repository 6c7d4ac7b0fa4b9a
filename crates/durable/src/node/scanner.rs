//! [`Scanner`]: reads timers that are due soon into the caches.

use std::time::{Duration, Instant};

use super::cache::Reach;
use super::options::Options;
use super::shared::Shared;
use crate::store::{Pulse, Pulsed, Result, Scan, Store, Waiting};

/// Span within which notices are merged: inserts within it after a notice send none. It is also the
/// shortest period in which notices make a node read.
pub(crate) const NOTICE: Duration = Duration::from_millis(50);

/// A timer that is due sooner than this is announced. A scan finds a later one in time.
pub(crate) const SOON: Duration = Duration::from_secs(1);

/// Part of a node that keeps the caches filled.
///
/// Reads in each period, after notices, and whenever the caches have room for a backlog that an
/// earlier scan has left.
#[derive(Debug)]
pub(crate) struct Scanner {
    next: Instant,
    /// Time from which on a scan reads from the beginning.
    full_from: Instant,
    /// True if the last such scan failed: a recent one comes before it is repeated.
    has_failed: bool,
    /// Time of the last scan that was answered.
    answered: Instant,
    notified: Notified,
    /// Time from which on backlogs are read; after a call that failed they wait.
    backlog_from: Instant,
}

/// Scans because of notices.
#[derive(Debug, Default)]
struct Notified {
    /// Time of the next.
    next: Option<Instant>,
    /// Time of the last.
    last: Option<Instant>,
    /// True if a notice came since the last.
    is_renewed: bool,
}

impl Scanner {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            next: now,
            full_from: now,
            has_failed: false,
            answered: now,
            notified: Notified::default(),
            backlog_from: now,
        }
    }

    /// Makes the scans that are due. Returns when one is due next.
    pub(crate) fn run(&mut self, node: &Shared, store: &mut dyn Store) -> Instant {
        let now = node.now();
        let mut state = node.lock();
        let is_requested = std::mem::take(&mut state.requests.scan_all);
        let notices = std::mem::take(&mut state.requests.notified).mask() & state.shards.mask();
        drop(state);
        if is_requested || self.next <= now {
            self.next = now + node.options.scan;
            if is_requested {
                self.full_from = now;
            }
            let is_full = self.full_from <= now && !self.has_failed;
            node.lock().allow_backlogs(&node.options);
            let reach = if is_full { Reach::All } else { Reach::Recent };
            let (is_made, _) = self.scan(node, store, reach, None);
            if is_full && is_made {
                self.full_from = now + node.options.scan * node.options.full_every;
            }
            self.has_failed = is_full && !is_made;
        }
        if notices != 0 {
            self.notified.renew(now);
        }
        if self.notified.take(now) {
            self.scan(node, store, Reach::Recent, None);
        }
        if let Some(reach) = self.backlog(node) {
            self.scan(node, store, reach, None);
        }
        let next = self.next.min(self.notified.next.unwrap_or(self.next));
        match node.lock().wants() {
            Some(_) => next.min(self.backlog_from.max(now)),
            None => next,
        }
    }

    /// Makes a scan that is due before the next beat, and has it beat. Returns the answer to that.
    ///
    /// A scan from the beginning may take long, and no beat waits for it: it comes between two
    /// beats, or without one.
    pub(crate) fn pulse(
        &mut self,
        node: &Shared,
        store: &mut dyn Store,
        pulse: Pulse,
    ) -> Option<Pulsed> {
        let now = node.now();
        let Options { scan, heartbeat, .. } = node.options;
        if self.next > now + heartbeat || self.full_from <= now {
            return None;
        }
        self.next = now + scan;
        if self.full_from <= now + heartbeat {
            self.full_from = self.full_from.min(self.next);
        }
        self.has_failed = false;
        node.lock().allow_backlogs(&node.options);
        let (_, pulsed) = self.scan(node, store, Reach::Recent, Some(pulse));
        pulsed
    }

    /// Returns the reach of a read before the next period.
    fn backlog(&self, node: &Shared) -> Option<Reach> {
        let is_allowed = self.backlog_from <= node.now();
        node.lock().wants().filter(|_| is_allowed)
    }

    /// Scans. Returns whether the store answered, and its answer to the pulse.
    fn scan(
        &mut self,
        node: &Shared,
        store: &mut dyn Store,
        reach: Reach,
        pulse: Option<Pulse>,
    ) -> (bool, Option<Pulsed>) {
        let sent = node.now();
        // Timers ahead of the last answer may be past by now.
        let longer = sent.saturating_duration_since(self.answered + node.options.scan);
        match fill(node, store, reach, node.options.back + longer, pulse) {
            Ok(pulsed) => {
                self.answered = sent;
                (true, pulsed)
            }
            Err(error) => {
                node.report("scan", &error);
                self.backlog_from = node.now() + node.options.pause;
                (false, None)
            }
        }
    }
}

impl Notified {
    /// Plans a scan: at once, or a span after the last.
    fn renew(&mut self, now: Instant) {
        self.is_renewed = true;
        self.next = Some(self.last.map_or(now, |last| last + NOTICE).max(now));
    }

    /// Returns whether a scan is due, and plans the one after it: a notice also covers inserts
    /// shortly after it.
    fn take(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| next <= now);
        if is_due {
            self.last = Some(now);
            self.next = std::mem::take(&mut self.is_renewed).then(|| now + NOTICE);
        }
        is_due
    }
}

/// A cache that a scan fills.
struct Begun {
    /// Number of its kind.
    kind: u32,
    /// Number of the scan, as the cache counts them.
    scan: u64,
    /// Number of its timers that the scan has found.
    found: usize,
    /// True if the kind has its share, and something is left.
    is_full: bool,
}

/// Reads timers that are due soon into the caches of the kinds that have room.
///
/// The caches remember that timers were left out: these are read from the beginning as soon as
/// there is room, first of the node's own shards. The node of another shard may be slow, or not
/// serve a timer's kind. So late timers of all shards are read: then two nodes may claim the same
/// timer, and one is refused. Recent timers are due since `back` before now.
fn fill(
    node: &Shared,
    store: &mut dyn Store,
    reach: Reach,
    back: Duration,
    pulse: Option<Pulse>,
) -> Result<Option<Pulsed>> {
    let options = &node.options;
    let mut state = node.lock();
    let (share, own) = (state.share(options), state.shards);
    let (mut names, mut begun) = (Vec::new(), Vec::new());
    for (number, kind) in &mut state.kinds {
        if let Some(scan) = kind.cache.begin_scan(reach) {
            names.push(kind.name.clone());
            begun.push(Begun { kind: *number, scan, found: 0, is_full: false });
        }
    }
    drop(state);
    if names.is_empty() && pulse.is_none() {
        return Ok(None);
    }
    // All kinds together find at most half of the caches' capacity. A kind with more timers is soon
    // read with few others, and then finds half its share.
    let most = share.div_ceil(2).min(options.cache_capacity / 2 / names.len().max(1)).max(1);
    let scan = Scan {
        ahead: options.look_ahead,
        back: (reach == Reach::Recent).then_some(back),
        shards: own,
        grace: (reach != Reach::Own).then_some(options.grace),
        kinds: &names,
        kind_limit: u32::try_from(most).unwrap_or(u32::MAX),
        pulse,
    };
    let sent = node.now();
    let window = match store.scan(&scan) {
        Ok(window) => window,
        Err(error) => {
            let mut state = node.lock();
            for Begun { kind, .. } in &begun {
                if let Some(kind) = state.kinds.get_mut(kind) {
                    kind.cache.fail_scan(reach);
                }
            }
            return Err(error);
        }
    };
    node.counters.scans.add(1);
    let received = node.now();
    node.lock().clock.sample(sent, received, window.now);
    let has_news = take(node, &mut begun, &window.timers, share);
    let mut state = node.lock();
    let mut is_repeated = !has_news;
    for Begun { kind, scan, found, is_full } in &begun {
        if let Some(kind) = state.kinds.get_mut(kind) {
            kind.cache.end_scan(*scan, reach, *found >= most || *is_full);
            is_repeated &= kind.cache.wants().is_some();
        }
    }
    if is_repeated {
        // The same kinds would be asked for again, and the same would be found.
        let kinds = state.kinds.iter_mut();
        let asked = kinds.filter(|(number, _)| begun.iter().any(|begun| begun.kind == **number));
        asked.for_each(|(_, kind)| kind.cache.pause());
    }
    drop(state);
    node.notify_claimers();
    Ok(window.pulsed)
}

/// Caches the timers of a scan, as far as each kind has room. Returns whether any was new.
fn take(node: &Shared, begun: &mut [Begun], found: &[Waiting], share: usize) -> bool {
    let mut has_news = false;
    let mut state = node.lock();
    let state = &mut *state;
    for waiting in found {
        let Some(Begun { kind, scan, found, is_full }) = begun.get_mut(waiting.kind as usize)
        else {
            continue;
        };
        *found += 1;
        let Some(kind) = state.kinds.get_mut(kind) else { continue };
        *is_full |= kind.cache.len() >= share;
        if !*is_full && !state.held.contains_key(&waiting.id) {
            has_news |= kind.cache.take(*scan, waiting.id, waiting.due);
        }
    }
    has_news
}
