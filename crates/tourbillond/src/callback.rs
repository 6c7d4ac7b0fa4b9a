//! Callbacks: the request of an attempt, the meaning of its answer, and the attempts that are kept.
//!
//! A definition is [checked](check) when it is written. Each attempt is [built](request) anew, for
//! an address that the app's [`Guard`] permits. Its [exchange], its [outcome] and the [attempts]
//! before it are kept with the timer, without [secrets](redact). Nothing here sends or waits.

mod attempts;
mod completion;
mod exchange;
mod guard;
mod notify;
mod outcome;
mod redact;
mod request;

pub(crate) use attempts::{append, closed, cut, open, opened, shown};
pub use attempts::{ended, read as read_attempts, was_of};
pub(crate) use completion::{COMPLETION_TOKEN, EXPIRED, MARGIN, TEXT_MAX, Ticket, failed};
pub(crate) use exchange::{IDEMPOTENCY_KEY, answered, sent};
pub(crate) use guard::{Guard, Refused};
pub(crate) use notify::{NOTICE_TEXT_MAX, Told, check_notify};
pub use outcome::retry;
pub(crate) use outcome::{Answer, Verdict, judge, share};
pub(crate) use redact::Redact;
pub(crate) use request::{Attempt, COMPLETE_MAX, build, complete_within, limit, target};
pub use request::{Fault, Trace, check};

/// Returns a number that cannot be guessed.
pub(crate) fn random() -> u64 {
    getrandom::u64().expect("the system has random numbers")
}
