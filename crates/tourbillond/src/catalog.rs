//! The catalog: schedules, one-shots and runs of all apps, in the store.
//!
//! It finds, creates, replaces, switches, removes, lists and counts, within the limits of each app.
//! It knows neither HTTP nor tokens: [`api`](crate::api) asks on behalf of a request, and turns an
//! [`Error`] into a status. All of the service's calls to the store start here, except the calls of
//! [`dispatch`](crate::dispatch).

mod complete;
mod definition;
mod error;
mod found;
mod history;
mod overview;
mod pages;
mod preview;
mod quota;
mod runs;
mod search;
mod switch;
mod times;
mod watch;
mod write;

use std::sync::Arc;

use tokio::sync::watch::Receiver;
use tourbillon::Timer;
use tourbillon_durable::{Client, NodeId};

use crate::config::Config;

pub(crate) use error::{Conflict, Error};
pub(crate) use found::Found;
use history::Histories;
pub(crate) use history::HistoryQuery;
use overview::Overviews;
pub(crate) use pages::{Label, PAGE, PageBudget, Query, ROWS};
use preview::Previews;
use quota::Quota;
pub(crate) use runs::RunQuery;
pub(crate) use watch::{Judged, WATCH, Watch, WatchState, lapse};
pub(crate) use write::Written;

/// Tries of a change that another change came before.
const TRIES: usize = 5;

/// The schedules and runs of all apps.
pub(crate) struct Catalog {
    /// Client for changes, and for reads that a change rests on.
    client: Client,
    /// Client for lists and counts, so that they delay no change.
    reader: Client,
    timer: Timer,
    /// The configuration in force.
    config: Receiver<Arc<Config>>,
    /// The node that answers.
    node: NodeId,
    quota: Quota,
    overviews: Overviews,
    histories: Histories,
    previews: Previews,
}

impl Catalog {
    /// Creates a catalog with two clients: one for changes, the other for reads.
    pub(crate) fn new(
        (client, reader): (Client, Client),
        timer: Timer,
        config: Receiver<Arc<Config>>,
        node: NodeId,
    ) -> Self {
        Self {
            client,
            reader,
            timer,
            config,
            node,
            quota: Quota::default(),
            overviews: Overviews::default(),
            histories: Histories::default(),
            previews: Previews::default(),
        }
    }
}
