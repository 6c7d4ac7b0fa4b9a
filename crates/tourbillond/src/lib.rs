//! `tourbillond`: a service that calls back over HTTP, at a time or by cron.
//!
//! [`model`] has the types of the API, and their form in timers and schedules of
//! `tourbillon-durable`; [`config`] the operator's settings; [`api`] the routes; [`http`] the
//! connections and their limits; [`descriptors`] the limit on open files; [`callback`] the calls;
//! [`page`] the operator's page; [`ctl`] the client on a terminal.
//!
//! # How the parts meet
//!
//! All of them share one [`Service`]: the configuration in force, the engine, clients for its
//! database, and the channel of runs.
//!
//! - [`dispatch::start`] receives the service once. It makes one worker an app
//!   ([`Service::worker`]), and follows the configuration ([`Service::follow`]) to further apps. It
//!   sends the [`model::Run`] of each finished attempt to [`Service::runs`]. Its tasks end when the
//!   workers' streams do, at [`Service::stop`].
//! - [`page::routes`] are merged into the routes of [`api`], and need no token.
//! - Whatever waits does so by [`Service::timer`].

mod answers;
pub mod api;
mod audit;
#[cfg(test)]
#[path = "../tests/support/authority.rs"]
mod authority;
pub mod callback;
mod catalog;
pub mod config;
pub mod ctl;
pub mod descriptors;
pub mod dispatch;
pub mod http;
pub mod manual;
pub mod metrics;
pub mod model;
pub mod net;
pub mod page;
mod pem;
mod private;
#[cfg(test)]
#[path = "../tests/support/receiver.rs"]
mod receiver;
pub mod routes;
pub mod service;
#[cfg(test)]
mod watched;
mod xtimer;

pub use answers::Answers;
pub use service::{Service, open};
