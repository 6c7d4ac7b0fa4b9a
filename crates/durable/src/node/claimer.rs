//! Claims due timers and sends finished attempts, in one call.
//!
//! Not done: a pace that slows as there are more nodes. It makes no more calls than one node does,
//! and p50 and p99 of the lateness are about twice as long.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::Sender;

use super::fire::{EndError, Fire};
use super::shared::{Ending, NodeState, Requests, Shared, Stopping, Vital, guarded};
use crate::error::{StoreError, StoreErrorKind};
use crate::id::{Lease, TimerId};
use crate::store::{Batch, Claimed, End, Finished, How, NewTimer, Store};
use crate::time::Time;
use crate::trace;

/// Number that no kind has.
const NO_KIND: u32 = u32::MAX;

/// One call to be made.
#[derive(Debug)]
pub(crate) struct Job {
    lease: Lease,
    endings: Vec<Ending>,
    /// With the number of each one's kind. Sorted by id.
    timers: Vec<(TimerId, u32)>,
}

/// Next step of a claimer.
#[derive(Debug)]
pub(crate) enum Next {
    /// Make this call.
    Call(Job),
    /// Wait until then, or for a notification.
    Wait(Option<Instant>),
    /// End.
    End,
}

/// Makes calls until the node ends.
pub(crate) fn run(shared: &Arc<Shared>, number: usize, mut store: Box<dyn Store>) {
    let _vital = Vital(shared);
    let _running = Running(shared);
    loop {
        match begin(shared) {
            Next::Call(job) => {
                if !call(shared, job, &mut *store) {
                    if shared.lock().stopping == Stopping::Now {
                        break;
                    }
                    let until = shared.now() + shared.options.pause;
                    while shared.now() < until && shared.lock().stopping != Stopping::Now {
                        shared.claimers[number].wait(&shared.timer, Some(until));
                    }
                }
            }
            Next::Wait(until) => shared.claimers[number].wait(&shared.timer, until),
            Next::End => break,
        }
    }
}

/// A claimer that runs. It ends on a panic too.
struct Running<'a>(&'a Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.claiming -= 1;
        // After the last claimer, nobody sends the ends that are left.
        let left =
            if state.claiming == 0 { std::mem::take(&mut state.outbox) } else { VecDeque::new() };
        drop(state);
        self.0.main.notify();
        left.into_iter().for_each(|ending| guarded(|| drop(ending)));
    }
}

/// Returns the next work.
pub(crate) fn begin(shared: &Shared) -> Next {
    let now = shared.now();
    let options = &shared.options;
    let mut state = shared.lock();
    let is_empty = state.outbox.is_empty();
    let is_over = match state.stopping {
        Stopping::No => false,
        // Once the lease may have ended, other nodes take over what it holds.
        Stopping::Draining => {
            is_empty && state.held.is_empty() && state.ending == 0 || state.trusted_until <= now
        }
        Stopping::Now => is_empty,
    };
    if is_over {
        return Next::End;
    }
    // A node that drains looks again when its lease may have ended.
    let limit = (state.stopping == Stopping::Draining).then_some(state.trusted_until);
    match state.next_claim(options, now) {
        Some(next) if next <= now => {}
        next => return Next::Wait(next.into_iter().chain(limit).min()),
    }
    let trusted = state.lease.filter(|lease| state.trusts(*lease, now));
    // Attempts under one lease are sent together.
    let lease = state.outbox.front().map(|ending| ending.lease).or(trusted);
    let Some(lease) = lease else { return Next::Wait(None) };
    let endings = take_endings(&mut state, lease, options.batch);
    state.ending += endings.len();
    let timers = if trusted == Some(lease) && state.stopping == Stopping::No {
        take_due(&mut state, now, options.batch)
    } else {
        Vec::new()
    };
    if endings.is_empty() && timers.is_empty() {
        // By another estimate of the database's time nothing is due yet; the next is not far.
        return Next::Wait(state.next_claim(options, now).map(|next| next.max(now)));
    }
    if !timers.is_empty() {
        // A full batch has no room for the timers that are due next.
        state.last_claim = Some(now).filter(|_| timers.len() < options.batch);
    }
    let is_low = state.wants().is_some();
    drop(state);
    if is_low {
        shared.main.notify();
    }
    Next::Call(Job { lease, endings, timers })
}

fn take_endings(state: &mut NodeState, lease: Lease, most: usize) -> Vec<Ending> {
    let mut endings = Vec::new();
    let mut timers = HashSet::new();
    while endings.len() < most {
        // A timer has one end in a call.
        let is_meant = state
            .outbox
            .front()
            .is_some_and(|ending| ending.lease == lease && !timers.contains(&ending.end.timer));
        if !is_meant {
            break;
        }
        let Some(ending) = state.outbox.pop_front() else { break };
        timers.insert(ending.end.timer);
        endings.push(ending);
    }
    endings
}

/// The first that are due, over all kinds that have room.
fn take_due(state: &mut NodeState, now: Instant, most: usize) -> Vec<(TimerId, u32)> {
    let Some(db_now) = state.clock.at(now) else { return Vec::new() };
    let mut timers = Vec::new();
    while timers.len() < most {
        let kinds = state.kinds.iter_mut().filter(|(_, kind)| kind.room > 0);
        let first = kinds.min_by_key(|(_, kind)| kind.cache.first().unwrap_or(Time::NEVER));
        let Some((number, kind)) = first else { break };
        let Some(id) = kind.cache.pop(db_now) else { break };
        kind.room -= 1;
        timers.push((id, *number));
    }
    timers.sort_unstable();
    timers
}

/// Makes a call. Returns whether the store answered.
pub(crate) fn call(shared: &Arc<Shared>, job: Job, store: &mut dyn Store) -> bool {
    let ends: Vec<End> = job.endings.iter().map(|ending| ending.end.clone()).collect();
    let ids: Vec<TimerId> = job.timers.iter().map(|(id, _)| *id).collect();
    let sent = shared.now();
    let answer = match (ends.is_empty(), ids.is_empty()) {
        (true, _) => store.claim(job.lease, &ids).map(|claimed| (Vec::new(), Some(claimed))),
        (_, true) => store.finish(job.lease, &ends).map(|finished| (finished, None)),
        _ => store
            .finish_and_claim(&Batch { lease: job.lease, ends: &ends, timers: &ids })
            .map(|(finished, claimed)| (finished, Some(claimed))),
    };
    shared.counters.calls.add(1);
    shared.counters.lock_timeouts.add(store.lock_timeouts());
    match answer {
        Ok((finished, claimed)) => {
            answer_endings(shared, job.endings, &finished);
            if let Some(claimed) = claimed {
                take_claimed(shared, job.lease, &job.timers, claimed, sent);
            }
            true
        }
        Err(error) if error.kind() == StoreErrorKind::Invalid && !job.endings.is_empty() => {
            let Job { lease, endings, timers } = job;
            put_back(shared, Job { lease, endings: Vec::new(), timers }, &error);
            finish_each(shared, lease, endings, store)
        }
        Err(error) => {
            put_back(shared, job, &error);
            false
        }
    }
}

/// Sends finished attempts separately, because the store refuses at least one. Returns whether the
/// store answered.
fn finish_each(shared: &Shared, lease: Lease, endings: Vec<Ending>, store: &mut dyn Store) -> bool {
    let mut left = endings.into_iter();
    while let Some(ending) = left.next() {
        match store.finish(lease, std::slice::from_ref(&ending.end)) {
            Ok(finished) => answer_endings(shared, vec![ending], &finished),
            Err(error) if error.kind() == StoreErrorKind::Invalid => {
                refuse(shared, ending, &error);
            }
            Err(error) => {
                let endings = std::iter::once(ending).chain(left).collect();
                put_back(shared, Job { lease, endings, timers: Vec::new() }, &error);
                return false;
            }
        }
    }
    true
}

/// Forgets an end that the store never takes. An audit hands the attempt back.
fn refuse(shared: &Shared, ending: Ending, error: &StoreError) {
    shared.report("finish", error);
    let mut state = shared.lock();
    state.ending -= 1;
    state.forget(&ending.end);
    drop(state);
    if let Some(reply) = ending.reply {
        guarded(|| _ = reply.try_send(Err(EndError::Refused)));
    }
}

fn answer_endings(shared: &Shared, endings: Vec<Ending>, finished: &[Finished]) {
    let mut state = shared.lock();
    state.ending -= endings.len();
    let (mut is_awaited, mut is_expected) = (false, false);
    let (mut lanes, mut replies) = (Vec::new(), Vec::new());
    for (ending, answer) in endings.into_iter().zip(finished) {
        let how = &ending.end.how;
        state.forget(&ending.end);
        shared.counters.count_end(how, *answer);
        if *answer == Finished::Accepted {
            let is_over = matches!(how, How::Done(..));
            is_awaited |= ending.is_awaited && is_over;
            lanes.extend(ending.lane.clone().filter(|_| is_over));
            is_expected |= expect_again(&mut state, shared, &ending, how);
        }
        if let Some(reply) = ending.reply {
            replies.push((reply, *answer));
        }
    }
    drop(state);
    if is_expected {
        // This thread may be in a long call when they are due.
        shared.notify_claimers();
    }
    for (reply, answer) in replies {
        let answer = match answer {
            Finished::Accepted => Ok(()),
            Finished::Fenced => Err(EndError::Fenced),
        };
        // It fails if nobody waits for it any more.
        guarded(|| _ = reply.try_send(answer));
    }
    if is_awaited {
        shared.request(Requests::after_end);
    }
    shared.continue_lanes(lanes);
}

/// Caches a timer that is pending again, so that it is claimed when it is due without a scan
/// between. Returns whether it did.
fn expect_again(state: &mut NodeState, shared: &Shared, ending: &Ending, how: &How) -> bool {
    let pause = match how {
        How::Retry(pause, _) | How::Postpone(pause, _) if *pause <= shared.options.look_ahead => {
            *pause
        }
        // It was due when it was claimed.
        How::HandBack => Duration::ZERO,
        _ => return false,
    };
    let (Some(now), id) = (state.clock.at(shared.now()), ending.end.timer) else { return false };
    let share = state.share(&shared.options);
    let kind = ending.kind.and_then(|kind| state.kinds.get_mut(&kind));
    let kind = kind.filter(|kind| kind.cache.len() < share);
    kind.map(|kind| kind.cache.put(id, now + pause)).is_some()
}

fn take_claimed(
    shared: &Arc<Shared>,
    lease: Lease,
    asked: &[(TimerId, u32)],
    claimed: Claimed,
    sent: Instant,
) {
    let received = shared.now();
    let mut state = shared.lock();
    state.clock.sample(sent, received, claimed.now);
    let got: HashSet<TimerId> = claimed.timers.iter().map(|timer| timer.new.id).collect();
    for (id, kind) in asked {
        if let Some(kind) = state.kinds.get_mut(kind) {
            let is_claimed = got.contains(id);
            kind.cache.settle(*id, is_claimed, claimed.now);
            if !is_claimed {
                kind.room += 1;
                shared.counters.refused.add(1);
            }
        }
    }
    let is_ours = state.lease == Some(lease);
    let mut fires = Vec::with_capacity(claimed.timers.len());
    let mut late = Duration::ZERO;
    for timer in claimed.timers {
        let lateness = claimed.now.since(timer.new.due);
        late = late.max(lateness);
        shared.counters.count_claim(lateness);
        if is_ours {
            state.held.insert(timer.new.id, timer.attempt);
        }
        let (kind, sender) = taker(&mut state, asked, &timer.new);
        fires.push((sender, Fire::new(shared.clone(), kind, lease, timer, claimed.now)));
    }
    let is_trusted = state.trusts(lease, received);
    let is_low = state.wants().is_some();
    drop(state);
    if is_low {
        shared.main.notify();
    }
    trace::claimed(fires.len(), late);
    for (sender, fire) in fires {
        // If nobody takes an attempt, it is dropped here, and so handed back.
        if let Some(sender) = sender.filter(|_| is_trusted) {
            guarded(|| _ = sender.try_send(fire));
        }
    }
}

/// Returns the number of a claimed timer's kind and, if it is served, where its attempt goes.
fn taker(
    state: &mut NodeState,
    asked: &[(TimerId, u32)],
    timer: &NewTimer,
) -> (u32, Option<Sender<Fire>>) {
    let place = asked.binary_search_by_key(&timer.id, |(id, _)| *id);
    let kind = place.map_or(NO_KIND, |place| asked[place].1);
    match state.kinds.get_mut(&kind) {
        Some(meant) if meant.name == timer.kind => (kind, Some(meant.fires.clone())),
        // An occurrence was taken back and made again for another kind: this one does not claim it
        // again.
        Some(other) => {
            other.room += 1;
            (NO_KIND, None)
        }
        None => (kind, None),
    }
}

/// Puts everything back that a failed call was to do.
fn put_back(shared: &Shared, job: Job, error: &StoreError) {
    shared.report("claim", error);
    let mut state = shared.lock();
    for (id, kind) in job.timers {
        if let Some(kind) = state.kinds.get_mut(&kind) {
            kind.cache.retry(id);
            kind.room += 1;
        }
    }
    state.ending -= job.endings.len();
    for ending in job.endings.into_iter().rev() {
        state.outbox.push_front(ending);
    }
    if error.kind() == StoreErrorKind::Uncertain {
        // Timers that the call may have claimed run under the lease, unknown to the node.
        state.requests.audit = true;
        shared.main.notify();
    }
    drop(state);
    // This thread pauses now.
    shared.notify_claimers();
}
