//! `tourbillond`: a service that calls back over HTTP, at a time or by cron.
//!
//! [`model`] has what the API speaks of, and how it is kept in timers and schedules of
//! `tourbillon-durable`; [`config`] what an operator sets; [`api`] the routes; [`callback`] the calls;
//! [`page`] the operator's page; [`ctl`] the client on a terminal.

pub mod api;
pub mod callback;
pub mod config;
pub mod ctl;
pub mod model;
pub mod page;
