//! [`Fire`]: one attempt, and how it ends.

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
mod within;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use async_channel::{Receiver, Sender};

#[cfg(any(feature = "sqlx-0_8", feature = "sqlx-0_9"))]
pub use self::within::CompleteError;
use super::shared::{Ending, Shared};
use crate::id::{Fence, Lease, ScheduleId, TimerId};
use crate::record::{Outcome, Reason};
use crate::store::{End, How, Timer};
use crate::time::Time;

/// Identity of an occurrence: the same across attempts, nodes and catch-up.
///
/// A receiver that keeps it can do each occurrence's work once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The name of the schedule; or the timer, if it belongs to none.
    pub of: String,
    /// When it was to happen.
    pub scheduled_for: Time,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.of, self.scheduled_for)
    }
}

/// Most of a detail that is kept, in bytes of UTF-8.
const DETAIL_MAX: usize = 8 * 1024;

/// Channel for the answer to an attempt's end.
type Reply = Sender<Result<(), EndError>>;

/// Returns the first characters of a detail that every store takes, without a NUL.
pub(crate) fn clean(detail: &str) -> String {
    let mut kept = String::with_capacity(detail.len().min(DETAIL_MAX));
    for char in detail.chars() {
        let char = if char == '\0' { char::REPLACEMENT_CHARACTER } else { char };
        if kept.len() + char.len_utf8() > DETAIL_MAX {
            break;
        }
        kept.push(char);
    }
    kept
}

/// One attempt at one occurrence.
///
/// An attempt ends with [`complete`](Self::complete), [`fail`](Self::fail),
/// [`give_up`](Self::give_up), [`postpone`](Self::postpone) or
/// [`postpone_with`](Self::postpone_with). Dropped, it is handed back: another attempt follows at
/// once, on any node.
pub struct Fire {
    shared: Arc<Shared>,
    kind: u32,
    lease: Lease,
    timer: Timer,
    claimed: Time,
    is_open: bool,
    /// True once the timer was found to have a record already. A timer that was inserted by other
    /// means may have one.
    is_recorded: AtomicBool,
}

impl Fire {
    pub(crate) fn new(
        shared: Arc<Shared>,
        kind: u32,
        lease: Lease,
        timer: Timer,
        claimed: Time,
    ) -> Self {
        let is_recorded = AtomicBool::new(false);
        Self { shared, kind, lease, timer, claimed, is_open: true, is_recorded }
    }

    /// Returns the identity of the occurrence, the same for every attempt.
    pub fn key(&self) -> Key {
        let new = &self.timer.new;
        let of = match (&new.name, new.schedule) {
            (Some(name), Some(_)) => name.clone(),
            _ => new.id.to_string(),
        };
        Key { of, scheduled_for: new.scheduled_for }
    }

    /// The timer.
    pub fn id(&self) -> TimerId {
        self.timer.new.id
    }

    /// The schedule, if it belongs to one.
    pub fn schedule(&self) -> Option<ScheduleId> {
        self.timer.new.schedule
    }

    /// The name of the schedule, or of the timer itself.
    pub fn name(&self) -> Option<&str> {
        self.timer.new.name.as_deref()
    }

    /// Returns the [lane](crate::client::Once::lane) of its timer, if it is in one.
    pub fn lane(&self) -> Option<&str> {
        self.timer.new.lane.as_deref()
    }

    /// Returns the kind of handler that it is for.
    pub fn kind(&self) -> &str {
        &self.timer.new.kind
    }

    /// When it was to happen.
    pub fn scheduled_for(&self) -> Time {
        self.timer.new.scheduled_for
    }

    /// Returns the time from which on it could be claimed: the scheduled time, or later by jitter,
    /// a queue or a retry's pause.
    pub fn due(&self) -> Time {
        self.timer.new.due
    }

    /// When it was claimed, by the database's clock; never before it was [due](Self::due).
    pub fn claimed(&self) -> Time {
        self.claimed
    }

    /// Returns the number of this claim of the timer, from 1.
    pub fn attempt(&self) -> u32 {
        self.timer.attempt
    }

    /// Returns how many attempts have failed before.
    pub fn failures(&self) -> u32 {
        self.timer.failures
    }

    /// Returns the counter of the timer's changes by clients, as in
    /// [`Timer::version`](crate::store::Timer::version). Attempts do not change it.
    pub fn version(&self) -> u64 {
        self.timer.version
    }

    /// Returns the detail of the last attempt that failed or was
    /// [postponed with one](Self::postpone_with), or nothing. Other attempts that were postponed or
    /// handed back do not change it.
    pub fn detail(&self) -> &str {
        &self.timer.detail
    }

    /// Returns the fence, which lets this attempt complete and no other.
    pub fn fence(&self) -> Fence {
        Fence { timer: self.id(), attempt: self.attempt(), lease: self.lease }
    }

    /// Returns the payload for the handler.
    pub fn payload(&self) -> &[u8] {
        &self.timer.new.payload
    }

    /// The payload, as JSON.
    ///
    /// # Errors
    ///
    /// If the payload is not a `T` in JSON.
    #[cfg(feature = "serde")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(self.payload())
    }

    /// Returns whether the node is certain that no other has this attempt's timer: its lease has
    /// not ended. A long handler can ask now and then.
    pub fn is_current(&self) -> bool {
        self.shared.trusts(self.lease)
    }

    /// Ends the occurrence: it [succeeded](Outcome::Succeeded).
    ///
    /// The end takes effect whether or not the answer is awaited.
    pub fn complete(self) -> Ended {
        self.end(How::Done(Outcome::Succeeded, None, String::new()))
    }

    /// Takes note that a transaction of the caller's has completed the attempt and has committed:
    /// the node makes room for another attempt at once, without a call of the store.
    ///
    /// A fire that is dropped instead makes room at once, too, and costs a call that changes
    /// nothing. If the transaction did not commit, the attempt is handed back some seconds later,
    /// at the node's next audit.
    pub fn committed(mut self) {
        self.is_open = false;
        let end = self.end_as(How::Done(Outcome::Succeeded, None, String::new()));
        self.shared.note_committed(&end, self.kind, &self.timer.new);
    }

    /// Completes the attempt, with `detail` in its record, cut as in [`fail`](Self::fail).
    pub fn complete_with(self, detail: impl AsRef<str>) -> Ended {
        self.end(How::Done(Outcome::Succeeded, None, clean(detail.as_ref())))
    }

    /// Ends the attempt as failed. Another follows after a pause by the timer's
    /// [`Retry`](crate::Retry), or the occurrence is [dead](Outcome::Dead).
    ///
    /// The next attempt finds `detail` as [its own](Self::detail), or the record of a dead one has
    /// it: the characters that fit in 8 KiB of UTF-8, with U+FFFD for each NUL.
    ///
    /// The failure takes effect whether or not the answer is awaited. If the answer to the store's
    /// call was lost, it may be [`Fenced`](EndError::Fenced) although it counted.
    pub fn fail(self, detail: impl AsRef<str>) -> Ended {
        self.end_failed(detail.as_ref(), None)
    }

    /// Fails the attempt as [`fail`](Self::fail) does, except that another attempt follows after
    /// `pause`.
    pub fn fail_after(self, detail: impl AsRef<str>, pause: Duration) -> Ended {
        self.end_failed(detail.as_ref(), Some(pause))
    }

    /// Ends the attempt, as if it had not taken place: the timer is due again `pause` from now, for
    /// any node, and no failure is counted. For a handler that is not ready for it. A pause of more
    /// than a thousand years is as long as that.
    ///
    /// The pause takes effect whether or not the answer is awaited.
    pub fn postpone(self, pause: Duration) -> Ended {
        self.end(How::Postpone(pause, None))
    }

    /// Postpones the attempt as [`postpone`](Self::postpone) does, and leaves `detail`, cut as in
    /// [`fail`](Self::fail), to the next attempt. For an attempt that others decide: a program that
    /// learns the result [amends](crate::Client::amend) the timer, and the next attempt finds the
    /// result, or comes after the pause.
    pub fn postpone_with(self, detail: impl AsRef<str>, pause: Duration) -> Ended {
        self.end(How::Postpone(pause, Some(clean(detail.as_ref()))))
    }

    /// Ends the occurrence: it is [dead](Outcome::Dead), because no further attempt makes sense.
    /// Its record keeps as much of `detail` as [`fail`](Self::fail) does.
    ///
    /// The outcome takes effect whether or not the answer is awaited.
    pub fn give_up(self, detail: impl AsRef<str>) -> Ended {
        self.end(How::Done(Outcome::Dead, Some(Reason::GivenUp), clean(detail.as_ref())))
    }

    fn end_failed(self, detail: &str, pause: Option<Duration>) -> Ended {
        let detail = clean(detail);
        let how = match self.timer.new.retry.pause(self.timer.failures + 1) {
            Some(usual) => How::Retry(pause.unwrap_or(usual), detail),
            None => How::Done(Outcome::Dead, Some(Reason::Failed), detail),
        };
        self.end(how)
    }

    fn end(mut self, how: How) -> Ended {
        let (reply, answer) = async_channel::bounded(1);
        self.send(how, Some(reply));
        Ended { answer: Box::pin(answer) }
    }

    fn end_as(&self, how: How) -> End {
        End { timer: self.id(), attempt: self.attempt(), how }
    }

    fn send(&mut self, how: How, reply: Option<Reply>) {
        self.is_open = false;
        let end = self.end_as(how);
        self.shared.end(Ending {
            lease: self.lease,
            end,
            since: self.shared.now(),
            reply,
            is_awaited: self.timer.new.has_queue,
            lane: self.timer.new.lane.clone(),
            kind: Some(self.kind),
        });
    }
}

impl Drop for Fire {
    fn drop(&mut self) {
        if self.is_open {
            // Handed back, a timer that has a record would be claimed again for ever. Its end takes
            // it out and writes nothing.
            let how = match *self.is_recorded.get_mut() {
                true => How::Done(Outcome::Succeeded, None, String::new()),
                false => How::HandBack,
            };
            self.send(how, None);
        }
    }
}

impl fmt::Debug for Fire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fire")
            .field("key", &self.key())
            .field("kind", &self.kind())
            .field("fence", &self.fence())
            .finish_non_exhaustive()
    }
}

/// The answer to the end of an attempt, to be waited for. On any executor.
///
/// # Cancel safety
///
/// Dropping it changes nothing: the end is on its way.
#[derive(Debug)]
pub struct Ended {
    answer: Pin<Box<Receiver<Result<(), EndError>>>>,
}

impl Future for Ended {
    type Output = Result<(), EndError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        use futures_core::Stream as _;
        let answer = self.answer.as_mut().poll_next(cx);
        answer.map(|answer| answer.unwrap_or(Err(EndError::Stopped)))
    }
}

/// Reasons for the end of an attempt not to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndError {
    /// The attempt was not this node's any more. Another attempt decides.
    Fenced,
    /// The store refused to write it. Another attempt follows.
    Refused,
    /// The engine ended before the store had answered.
    Stopped,
}

impl fmt::Display for EndError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fenced => "the attempt no longer belongs to this node",
            Self::Refused => "the store refused the end of the attempt",
            Self::Stopped => "the engine ended before the store answered",
        })
    }
}

impl std::error::Error for EndError {}

#[cfg(test)]
mod tests {
    use super::{DETAIL_MAX, clean};

    #[test]
    fn a_detail_is_cut_and_has_no_nul() {
        assert_eq!(clean("a\0b"), "a\u{fffd}b");
        let long = format!("a{}", "é".repeat(DETAIL_MAX));
        assert_eq!(clean(&long), &long[..DETAIL_MAX - 1]);
        assert!(clean(&"\0".repeat(DETAIL_MAX)).len() <= DETAIL_MAX);
    }
}
