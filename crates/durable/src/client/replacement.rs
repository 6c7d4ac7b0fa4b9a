//! [`Replacement`]: new values for a timer.

use crate::time::Time;

/// Time of a timer, with its other new values, for [`Client::replace`](crate::Client::replace).
///
/// # Examples
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use tourbillon_durable::store::{Memory, TimerUpdate};
/// use tourbillon_durable::{Client, Replacement};
///
/// # pollster::block_on(async {
/// let client = Client::new(Box::new(Memory::new(&tourbillon::Timer::global())))?;
/// let at = SystemTime::now() + Duration::from_secs(3_600);
/// client.once("mail", at).name("reminder").create().await?;
///
/// let seen = client.find("reminder").await?.unwrap();
/// let later = Replacement::at(at + Duration::from_secs(60)).expect(seen.version);
/// assert_eq!(client.replace(seen.new.id, later.clone()).await?, TimerUpdate::Done);
/// assert_eq!(client.replace(seen.new.id, later).await?, TimerUpdate::Stale);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "nothing is replaced before `Client::replace`"]
pub struct Replacement {
    pub(super) to: Time,
    pub(super) payload: Option<Vec<u8>>,
    pub(super) expect: Option<u64>,
    pub(super) attempt: Option<u32>,
}

impl Replacement {
    /// Another time, and nothing else; [`Time::NEVER`] holds the timer.
    pub fn at(to: impl Into<Time>) -> Self {
        Self { to: to.into(), payload: None, expect: None, attempt: None }
    }

    /// Payload for the handler; at most 64 KiB. The timer keeps its own by default.
    pub fn payload(mut self, payload: impl Into<Vec<u8>>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// [Version](crate::store::Timer::version) that the timer has to have; any by default.
    pub fn expect(mut self, version: u64) -> Self {
        self.expect = Some(version);
        self
    }

    /// [Number of attempts](crate::store::Timer::attempt) that the timer has to have; any by
    /// default. One that runs has begun already.
    pub fn attempt(mut self, number: u32) -> Self {
        self.attempt = Some(number);
        self
    }
}
