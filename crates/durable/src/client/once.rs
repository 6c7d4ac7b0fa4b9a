//! [`Once`]: a timer to be made.

use std::time::SystemTime;

use super::Client;
use crate::error::{StoreError, StoreErrorKind};
use crate::id::TimerId;
use crate::policy::Retry;
use crate::store::{Inserted, Named, NewTimer, Result};
use crate::time::Time;

/// The longest name or kind, in bytes.
const NAME_MAX: usize = 200;

/// The largest payload, in bytes.
const PAYLOAD_MAX: usize = 64 * 1024;

/// A timer that fires once, to be made with [`create`](Self::create).
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `create`"]
pub struct Once {
    client: Client,
    timer: NewTimer,
}

/// Result of a [`Once`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// The timer is there; its id.
    Created(TimerId),
    /// A timer of its name or id is there, or one with its id was; the id of that one.
    Exists(TimerId),
}

impl Once {
    pub(super) fn new(client: &Client, kind: &str, at: Time) -> Self {
        let id = TimerId::new(SystemTime::now().into());
        Self { client: client.clone(), timer: NewTimer::new(id, kind, at) }
    }

    /// An id that the caller chose, in place of a random one.
    ///
    /// A second timer with the id is not made, also once the first is over, as long as its record
    /// is kept: it [exists](Created::Exists). If the answer to an insert was lost and it was sent
    /// again, a timer that was there before may be said to be [created](Created::Created).
    ///
    /// Nodes divide timers by the lowest six bits of their ids, so these bits should be as random
    /// as a hash.
    pub fn id(mut self, id: TimerId) -> Self {
        self.timer.id = id;
        self
    }

    /// A name that no other timer without a schedule has until this one is over.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.timer.name = Some(name.into());
        self
    }

    /// A lane, in which timers run one after another, in the order of the times that they are
    /// scheduled for: the next is claimed once the one before it has ended. For a customer whose
    /// mails are not to overtake each other, say.
    ///
    /// Timers of all kinds and [schedules](super::Every::lane) may be in a lane. A timer that was
    /// ever claimed keeps its place: while it waits for a retry, the lane waits with it. Once it
    /// has succeeded, is dead or cancelled, the next is due. A new timer with an earlier time than
    /// others runs before them, unless one of them is claimed first: one transaction makes it, and
    /// the next moves it to the front. If the old front is due within the milliseconds between, it
    /// may still be claimed. After a [reschedule](Client::reschedule), or if the client ends or
    /// fails in between, the move waits for a node's next round of maintenance.
    ///
    /// The next timer is usually claimed within milliseconds. If the one before it was cancelled or
    /// rescheduled, or its node has died, a round of maintenance makes the next due: within
    /// seconds, or later with many lanes, because a round looks at each lane in which timers wait.
    /// Until then it is due at [`Time::NEVER`](crate::Time::NEVER). A front whose kind has no
    /// worker holds up its lane, whatever the kinds behind it. Lanes cost other timers nothing.
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tourbillon_durable::store::Memory;
    /// use tourbillon_durable::{Client, Engine};
    ///
    /// # pollster::block_on(async {
    /// let engine = Engine::builder().start(Box::new(Memory::new(&tourbillon::Timer::global())))?;
    /// let client = engine.client()?;
    /// for mail in ["first", "second"] {
    ///     client.once("mail", SystemTime::now()).lane("customer-7").payload(mail).create().await?;
    /// }
    /// let mut mails = engine.worker("mail", 10);
    /// # use std::{future::poll_fn, pin::Pin};
    /// # use futures_core::Stream as _;
    /// for mail in ["first", "second"] {
    ///     let fire = poll_fn(|cx| Pin::new(&mut mails).poll_next(cx)).await.unwrap();
    ///     assert_eq!((fire.payload(), fire.lane()), (mail.as_bytes(), Some("customer-7")));
    ///     fire.complete().await?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// A lane is 1 to 200 bytes without a NUL; else [`create`](Self::create) fails.
    pub fn lane(mut self, lane: impl Into<String>) -> Self {
        self.timer.lane = Some(lane.into());
        self
    }

    /// For the handler; at most 64 KiB.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.timer.payload = payload.into();
        self
    }

    /// For the handler, as JSON.
    ///
    /// # Errors
    ///
    /// If `value` cannot be written so.
    #[cfg(feature = "serde")]
    pub fn json<T: serde::Serialize>(mut self, value: &T) -> serde_json::Result<Self> {
        self.timer.payload = serde_json::to_vec(value)?;
        Ok(self)
    }

    /// Sets the retries of failed attempts.
    pub fn retry(mut self, retry: Retry) -> Self {
        self.timer.retry = retry;
        self
    }

    /// The timer as a row, for an insert in a transaction of one's own.
    pub fn into_timer(self) -> NewTimer {
        self.timer
    }

    /// Makes the timer.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) for a kind, a name or a payload that no store takes. If
    /// the error is [`Uncertain`](StoreErrorKind::Uncertain), the timer may be there.
    pub async fn create(self) -> Result<Created> {
        let (client, timer) = self.checked()?;
        let id = timer.id;
        Ok(created(id, client.insert(timer, false).await?.0))
    }

    /// Makes the timer, and returns the database's time and the rows of the timer's name as
    /// [`Client::named`] finds them afterwards. On PostgreSQL both take one round trip.
    ///
    /// A timer and a schedule may have the same name. A caller that wants no such pair looks after
    /// each write: if two make a timer and a schedule at the same time, at least one sees both.
    ///
    /// # Errors
    ///
    /// The errors of [`create`](Self::create). If the look fails, the error is
    /// [`Uncertain`](StoreErrorKind::Uncertain).
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::SystemTime;
    /// use tourbillon_durable::store::Memory;
    /// use tourbillon_durable::{Client, Created};
    ///
    /// # pollster::block_on(async {
    /// let client = Client::new(Box::new(Memory::new(&tourbillon::Timer::global())))?;
    /// let once = client.once("mail", SystemTime::now()).name("reminder");
    /// let (created, (_, named)) = once.create_and_look().await?;
    /// let timer = named.timer.unwrap();
    /// assert_eq!(created, Created::Created(timer.new.id));
    /// assert_eq!(named.schedule, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn create_and_look(self) -> Result<(Created, (Time, Named))> {
        let (client, timer) = self.checked()?;
        let id = timer.id;
        let (inserted, seen) = client.insert(timer, true).await?;
        Ok((created(id, inserted), seen.unwrap_or_default()))
    }

    /// Returns the timer and the client that makes it.
    pub(super) fn checked(self) -> Result<(Client, NewTimer)> {
        let Self { client, timer, .. } = self;
        check(&timer.kind, timer.name.as_deref(), &timer.payload)?;
        check_lane(timer.lane.as_deref())?;
        Ok((client, timer))
    }
}

/// Returns the result of an insert of a timer with this id.
pub(super) fn created(id: TimerId, inserted: Inserted) -> Created {
    match inserted {
        Inserted::Created => Created::Created(id),
        Inserted::Exists(other) => Created::Exists(other),
    }
}

/// Returns whether stores take this name or kind.
pub(super) fn is_good(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_MAX && !text.contains('\0')
}

/// Refuses values that no store takes.
pub(super) fn check(kind: &str, name: Option<&str>, payload: &[u8]) -> Result<()> {
    let invalid = |what: &str| Err(StoreError::new(StoreErrorKind::Invalid, what));
    if !is_good(kind) {
        return invalid("a kind is empty, too long, or has a NUL");
    }
    if !name.is_none_or(is_good) {
        return invalid("a name is empty, too long, or has a NUL");
    }
    check_payload(payload)
}

/// Refuses a lane that no store takes.
pub(super) fn check_lane(lane: Option<&str>) -> Result<()> {
    if !lane.is_none_or(is_good) {
        let what = "a lane is empty, too long, or has a NUL";
        return Err(StoreError::new(StoreErrorKind::Invalid, what));
    }
    Ok(())
}

/// Refuses a payload that no store takes.
pub(super) fn check_payload(payload: &[u8]) -> Result<()> {
    if payload.len() > PAYLOAD_MAX {
        let what = "a payload has more than 64 KiB";
        return Err(StoreError::new(StoreErrorKind::Invalid, what));
    }
    Ok(())
}
