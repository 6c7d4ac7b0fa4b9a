//! The service's own API: `/v1`, metrics and health, over HTTP alone.
//!
//! A route reads its request, asks the [catalog](crate::catalog), and turns the result into an
//! answer. [`Problem`] gives each error its status, in one place.

pub(crate) mod about;
mod access;
pub(crate) mod completion;
pub(crate) mod history;
pub(crate) mod overview;
pub(crate) mod preview;
mod problem;
mod request;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod times;
mod trail;
pub(crate) mod trial;
mod wording;

pub(crate) use access::Access;
pub use problem::{FieldError, Problem};
pub(crate) use request::{BODY_MAX, convert, is_json, query, traceparent};
pub(crate) use trail::{Refused, Trail};
