//! `tourbillond`: a service that calls back over HTTP, at a time or by cron.
//!
//! [`model`] has what the API speaks of, and how it is kept in timers and schedules of
//! `tourbillon-durable`; [`config`] what an operator sets; [`api`] the routes; [`http`] the
//! connections and their limits; [`descriptors`] how many there may be; [`callback`] the calls;
//! [`page`] the operator's page; [`ctl`] the client on a terminal.
//!
//! # How the parts meet
//!
//! All of them share one [`Service`]: the configuration in force, the engine, clients for its
//! database, and the channel of runs.
//!
//! - [`dispatch::start`] is given the service once. It makes one worker an app
//!   ([`Service::worker`]), and follows the configuration ([`Service::follow`]), which may bring
//!   further apps. It sends the [`model::Run`] of each attempt that ended to [`Service::runs`]. Its
//!   tasks end when the workers' streams do, which [`Service::stop`] sees to.
//! - [`page::routes`] are merged into the routes of [`api`], and need no token.
//! - Whatever waits does so by [`Service::timer`].

mod answers;
pub mod api;
mod audit;
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
pub mod routes;
pub mod service;
mod xtimer;

pub use answers::Answers;
pub use service::{Service, open};
